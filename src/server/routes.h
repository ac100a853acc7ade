// The routes of the server, one row each.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/app.h"
#include "server/exchange.h"

namespace quire::server {

using Handler = awaitable<void> (*)(App&, Exchange&);

enum class Access : uint8_t {
    open,     // probes: no key
    metrics,  // a key if the options say so
    tenant,   // a key when the server has keys
};

struct Route {
    std::string_view method;
    std::string_view path;  // whole, or ending in "/*" for one more segment
    Access access;
    Handler handler;
};

std::span<const Route> routes();

struct RouteMatch {
    const Route* route = nullptr;
    std::string allowed;  // route == nullptr: methods that the path does have; empty: no such path
};

// HEAD is answered by GET's route.
RouteMatch find_route(std::string_view method, std::string_view path);

// Checks draining and keys, then runs the route's handler or answers with the error.
awaitable<void> serve_request(App& app, Exchange& exchange, HttpRequest& request);

}  // namespace quire::server
