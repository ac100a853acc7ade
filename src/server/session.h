// The life of one connection: read a request, serve it, again until somebody has enough.
#pragma once

#include <memory>

#include "server/app.h"
#include "server/connection.h"

namespace quire::server {

awaitable<void> run_session(App& app, std::shared_ptr<Connection> connection);

}  // namespace quire::server
