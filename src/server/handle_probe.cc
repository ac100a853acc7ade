// /health, /ready, /version, /metrics.
#include "server/handlers.h"
#include "server/json_text.h"

namespace quire::server {

awaitable<void> handle_health(App&, Exchange& exchange) {
    co_await exchange.reply(json_reply(R"({"status":"ok"})"));
}

awaitable<void> handle_ready(App& app, Exchange& exchange) {
    const EngineLoad load = app.engine.load();
    const bool draining = app.draining || load.draining;
    OrderedJson out = {{"status", draining ? "draining" : "ready"},
                       {"running", load.running},
                       {"waiting", load.waiting}};
    co_await exchange.reply(json_reply(dump_json(out), draining ? 503 : 200));
}

awaitable<void> handle_version(App& app, Exchange& exchange) {
    OrderedJson out = {{"version", app.options.version}, {"server", "quire"}};
    co_await exchange.reply(json_reply(dump_json(out)));
}

awaitable<void> handle_metrics(App& app, Exchange& exchange) {
    HttpReply reply;
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    reply.body = co_await app.reports.run([&app] { return app.metrics.registry().text(); });
    co_await exchange.reply(std::move(reply));
}

}  // namespace quire::server
