#include "server/routes.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "server/handlers.h"
#include "server/json_text.h"

namespace quire::server {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/health", Access::open, handle_health},
    {"GET", "/ready", Access::open, handle_ready},
    {"GET", "/version", Access::open, handle_version},
    {"GET", "/metrics", Access::metrics, handle_metrics},
    {"GET", "/v1/models", Access::tenant, handle_models},
    {"GET", "/v1/models/*", Access::tenant, handle_model},
    {"POST", "/v1/completions", Access::tenant, handle_completions},
    {"POST", "/v1/chat/completions", Access::tenant, handle_chat},
    {"POST", "/tokenize", Access::tenant, handle_tokenize},
    {"POST", "/detokenize", Access::tenant, handle_detokenize},
    {"GET", "/v1/cache", Access::tenant, handle_cache_status},
    {"POST", "/v1/cache/explain", Access::tenant, handle_cache_explain},
    {"POST", "/v1/cache/flush", Access::tenant, handle_cache_flush},
};

constexpr bool all_have_a_label() {
    for (const Route& route : kRoutes)
        if (label::kHttpRoutes[label::http_route(route.path)] != route.path) return false;
    return std::size(kRoutes) + 1 == std::size(label::kHttpRoutes);
}
static_assert(all_have_a_label(), "label::kHttpRoutes must name the routes, and \"other\"");

bool matches(std::string_view pattern, std::string_view path) {
    if (!pattern.ends_with("/*")) return pattern == path;
    pattern.remove_suffix(1);
    return path.size() > pattern.size() && path.starts_with(pattern);
}

ApiError no_route(const HttpRequest& request, const std::string& allowed) {
    ApiError error;
    error.type = "not_found_error";
    if (allowed.empty()) {
        error.status = 404;
        error.code = "unknown_path";
        error.message = "There is no " + shorten(request.path, 128) +
                        " here; the API is under /v1 (see GET /v1/models).";
    } else {
        error.status = 405;
        error.code = "method_not_allowed";
        error.message = request.path + " does not take " + shorten(request.method, 16) + "; use " +
                        allowed + ".";
    }
    return error;
}

ApiError bad_key() {
    ApiError error;
    error.status = 401;
    error.type = "authentication_error";
    error.code = "invalid_api_key";
    error.message = "A valid API key is required: send it as 'Authorization: Bearer KEY'.";
    return error;
}

bool needs_key(const App& app, const Route& route) {
    return route.access == Access::tenant ||
           (route.access == Access::metrics && app.options.metrics_need_key);
}

// Probes come every few seconds and say nothing; what people ask for is worth a line.
void log_request(const Route* route, const Exchange& exchange) {
    const bool probe = route != nullptr && route->access != Access::tenant;
    const log::Level level = probe ? log::Level::debug : log::Level::info;
    if (!log::enabled(level)) return;
    const HttpRequest& request = exchange.request();
    const int64_t took_ns = system_clock().monotonic_ns() - request.received_ns;
    const std::string status =
        exchange.status() == 0 ? "client left" : std::to_string(exchange.status());
    log::write(level, "http_request",
               fmt::format("{} {} {} in {} id={} tenant={}", shorten(request.method, 16),
                           shorten(request.path, 128), status, format_duration(took_ns), request.id,
                           request.tenant));
}

}  // namespace

std::span<const Route> routes() {
    return kRoutes;
}

RouteMatch find_route(std::string_view method, std::string_view path) {
    RouteMatch match;
    if (method == "HEAD") method = "GET";
    for (const Route& route : kRoutes) {
        if (!matches(route.path, path)) continue;
        if (route.method == method) return {&route, {}};
        if (!match.allowed.empty()) match.allowed += ", ";
        match.allowed += route.method;
    }
    return match;
}

awaitable<void> serve_request(App& app, Exchange& exchange, HttpRequest& request) {
    const RouteMatch match = find_route(request.method, request.path);
    if (match.route == nullptr) {
        HttpReply reply = error_reply(no_route(request, match.allowed));
        if (!match.allowed.empty()) reply.headers.emplace_back("Allow", match.allowed);
        co_await exchange.reply(std::move(reply));
    } else {
        auto tenant = app.keys.tenant_of(request.authorization);
        if (!tenant && needs_key(app, *match.route)) {
            co_await exchange.reply(error_reply(bad_key()));
        } else {
            request.tenant = tenant.value_or("");
            co_await match.route->handler(app, exchange);
        }
    }
    app.metrics.response(match.route != nullptr ? match.route->path : "", exchange.status());
    log_request(match.route, exchange);
}

}  // namespace quire::server
