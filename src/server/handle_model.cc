// /v1/models and /v1/models/NAME.
#include "server/generation_plan.h"
#include "server/handlers.h"
#include "server/json_text.h"

namespace quire::server {
namespace {

OrderedJson model_json(const ModelInfo& model) {
    OrderedJson codecs = OrderedJson::array();
    for (const KvCodecInfo& kv : model.kv_codecs) codecs.push_back(kv.name);
    return {{"id", model.name},
            {"object", "model"},
            {"created", model.created_unix_s},
            {"owned_by", "quire"},
            {"max_model_len", request_tokens_max(model, model.kv())},
            {"quire",
             {{"family", model.family},
              {"model_id", model.model_id},
              {"vocab_size", model.vocab_size},
              {"file_bytes", model.file_bytes},
              {"kv_bytes_per_token", model.kv().bytes_per_token},
              {"kv_codec", model.kv().name},
              {"kv_codecs", std::move(codecs)}}}};
}

}  // namespace

awaitable<void> handle_models(App& app, Exchange& exchange) {
    OrderedJson out = {{"object", "list"}, {"data", OrderedJson::array()}};
    out["data"].push_back(model_json(app.engine.model()));
    co_await exchange.reply(json_reply(dump_json(out)));
}

awaitable<void> handle_model(App& app, Exchange& exchange) {
    const std::string name = exchange.request().path.substr(sizeof("/v1/models/") - 1);
    HttpReply reply;
    if (auto error = check_model(app.engine, name)) {
        reply = error_reply(*error);
    } else {
        reply = json_reply(dump_json(model_json(app.engine.model())));
    }
    co_await exchange.reply(std::move(reply));
}

}  // namespace quire::server
