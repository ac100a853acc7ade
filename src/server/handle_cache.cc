// /v1/cache, /v1/cache/explain, /v1/cache/flush.
#include "server/admin_request.h"
#include "server/cache_json.h"
#include "server/generation_plan.h"
#include "server/handlers.h"

namespace quire::server {
namespace {

ApiResult<std::string> explain(App& app, const HttpRequest& request, const RequestStop& stop) {
    if (auto error = check_stop(stop)) return *error;  // it may have waited for a worker
    auto body = parse_explain(request.body);
    if (!body.ok()) return body.error();
    if (auto error = check_model(app.engine, body.value().model)) return *error;
    const auto kv = served_codec(app.engine, body.value().kv_codec);
    if (!kv.ok()) return kv.error();
    auto prompts = plan_prompts(app.engine, body.value(), stop);
    if (!prompts.ok()) return prompts.error();
    OrderedJson list = OrderedJson::array();
    for (PlannedPrompt& prompt : prompts.value()) {
        auto explanation = app.engine.explain(std::move(prompt.tokens), request.tenant,
                                              body.value().cache_salt, kv.value()->name);
        if (!explanation.ok()) return from_engine(explanation.error());
        list.push_back(explanation_json(*explanation, !app.keys.is_admin(request.tenant)));
    }
    // One prompt, the usual case, is answered without a list around it.
    return dump_json(list.size() == 1 ? list[0] : OrderedJson{{"prompts", list}});
}

ApiResult<std::string> flush(App& app, const HttpRequest& request) {
    if (!app.keys.is_admin(request.tenant)) {
        ApiError error;
        error.status = 403;
        error.type = "permission_error";
        error.code = "admin_only";
        error.message = "Flushing drops every tenant's blocks; use a key of the tenant 'admin'.";
        return error;
    }
    auto body = parse_flush(request.body);
    if (!body.ok()) return body.error();
    auto dropped = app.engine.flush(body.value().tiers, body.value().write_back);
    if (!dropped.ok()) return from_engine(dropped.error());
    const OrderedJson out = {{"dropped_blocks", *dropped}};
    return dump_json(out);
}

HttpReply reply_of(ApiResult<std::string>& body) {
    return body.ok() ? json_reply(std::move(body.value())) : error_reply(body.error());
}

}  // namespace

awaitable<void> handle_cache_status(App& app, Exchange& exchange) {
    std::string body = co_await app.reports.run(
        [&] { return dump_json(cache_status_json(app.engine.cache_status(), app.engine.load())); });
    co_await exchange.reply(json_reply(std::move(body)));
}

awaitable<void> handle_cache_explain(App& app, Exchange& exchange) {
    const auto stop = app.stop_for(exchange.request());
    exchange.watch([stop] { stop->client_left(); });
    auto body = co_await app.workers.run([&] { return explain(app, exchange.request(), *stop); });
    co_await exchange.reply(reply_of(body));
}

awaitable<void> handle_cache_flush(App& app, Exchange& exchange) {
    auto body = co_await app.maintenance.run([&] { return flush(app, exchange.request()); });
    co_await exchange.reply(reply_of(body));
}

}  // namespace quire::server
