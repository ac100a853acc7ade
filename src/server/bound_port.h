// What a Port holds. Internal to the server.
#pragma once

#include <boost/asio/io_context.hpp>

#include "server/net.h"
#include "server/port.h"

namespace quire::server {

struct Port::Bound {
    // Hands the socket over to that executor and listens. io: another program listens there now.
    Result<tcp::acceptor> listen(net::any_io_executor on);

    net::io_context io{1};  // never run
    tcp::acceptor socket{io};
    tcp::endpoint asked;
};

}  // namespace quire::server
