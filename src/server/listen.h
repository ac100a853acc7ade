// Opens the listening socket, or says in one line why not.
#pragma once

#include "base/result.h"
#include "server/net.h"
#include "server/server_options.h"

namespace quire::server {

Result<tcp::acceptor> listen_on(net::any_io_executor io, const ServerOptions& options);

}  // namespace quire::server
