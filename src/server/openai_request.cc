#include "server/openai_request.h"

#include <cstdlib>
#include <utility>

#include "server/json_fields.h"
#include "server/openai_prompt.h"

namespace quire::server {
namespace {

// Fields that change nothing here and that stock clients send; not worth a warning.
constexpr const char* kAccepted[] = {"user",         "metadata",          "store",
                                     "service_tier", "safety_identifier", "prompt_cache_key"};

// Fields that would change the answer if honoured: refused unless they hold the value that asks for
// nothing.
struct Refused {
    const char* name;
    const char* harmless;  // JSON text of the value that is let through
};
constexpr Refused kRefused[] = {
    {"tools", "[]"},
    {"functions", "[]"},
    {"tool_choice", "\"none\""},
    {"suffix", "\"\""},
    {"continue_final_message", "false"},
    {"guided_json", "null"},
    {"guided_regex", "null"},
    {"response_format", R"({"type":"text"})"},
    {"audio", "null"},
    {"use_beam_search", "false"},
};

void refuse_unsupported(Fields& fields) {
    for (const Refused& row : kRefused) {
        const Json* value = fields.any(row.name);
        if (value == nullptr || *value == Json::parse(row.harmless)) continue;
        fields.fail(
            row.name,
            std::string("'") + row.name + "' is not supported by this server; leave it out.",
            "unsupported_parameter");
    }
    for (const char* name : kAccepted) fields.accept(name);
}

std::vector<std::string> read_stops(Fields& fields) {
    const Json* value = fields.any("stop");
    std::vector<std::string> stops;
    if (value == nullptr) return stops;
    const Json list = value->is_array() ? *value : Json::array({*value});
    bool good = list.size() <= kMaxStops;
    for (const Json& entry : list) {
        if (!good) break;
        good = entry.is_string() && !entry.get_ref<const std::string&>().empty() &&
               entry.get_ref<const std::string&>().size() <= kMaxStopBytes;
        if (good) stops.push_back(entry.get<std::string>());
    }
    if (!good) {
        fields.fail_type("stop",
                         "a string or a list of up to " + std::to_string(kMaxStops) +
                             " strings of 1 to " + std::to_string(kMaxStopBytes) + " bytes",
                         *value);
    }
    return stops;
}

std::vector<std::pair<TokenId, float>> read_logit_bias(Fields& fields) {
    constexpr size_t kMaxBiases = 1024;
    std::vector<std::pair<TokenId, float>> biases;
    const Json* value = fields.any("logit_bias");
    if (value == nullptr) return biases;
    if (!value->is_object() || value->size() > kMaxBiases) {
        fields.fail_type("logit_bias", "an object of at most 1024 token ids to numbers", *value);
        return biases;
    }
    for (const auto& [key, bias] : value->items()) {
        char* end = nullptr;
        const long id = std::strtol(key.c_str(), &end, 10);
        const bool is_id = !key.empty() && *end == '\0' && id >= 0 && id <= INT32_MAX;
        const bool in_range =
            bias.is_number() && bias.get<double>() >= -100 && bias.get<double>() <= 100;
        if (!is_id || !in_range) {
            fields.fail("logit_bias",
                        "'logit_bias' must map token ids to numbers from -100 to "
                        "100; the entry '" +
                            shorten(key, 32) + "' does not.");
            return biases;
        }
        biases.emplace_back(static_cast<TokenId>(id), bias.get<float>());
    }
    return biases;
}

void read_sampling(Fields& fields, GenerationBody& body) {
    auto real = [&](const char* name, double min, double max, float& into) {
        if (auto value = fields.number(name, min, max)) into = static_cast<float>(*value);
    };
    Sampling& s = body.sampling;
    real("temperature", 0, 2, s.temperature);
    real("top_p", 0, 1, s.top_p);
    if (s.top_p == 0) {
        fields.fail("top_p", "'top_p' must be above 0; for the likeliest token, 'temperature' 0.");
    }
    real("min_p", 0, 1, s.min_p);
    real("repetition_penalty", 0.01, 10, s.repetition_penalty);
    real("presence_penalty", -2, 2, s.presence_penalty);
    real("frequency_penalty", -2, 2, s.frequency_penalty);
    // -1 is how other servers write "off".
    if (auto k = fields.integer("top_k", -1, 1 << 20)) s.top_k = *k < 0 ? 0 : int32_t(*k);
    s.logit_bias = read_logit_bias(fields);
    s.ignore_eos = fields.boolean("ignore_eos").value_or(false);
    if (auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
        s.seed = static_cast<uint64_t>(*seed);
        body.seeded = true;
    }
}

void read_limits(Fields& fields, GenerationBody& body) {
    const int64_t least = body.echo ? 0 : 1;  // echo alone may want the prompt's logprobs only
    auto max_tokens = fields.integer("max_tokens", least, INT32_MAX);
    if (body.chat) {
        // The newer name wins.
        auto newer = fields.integer("max_completion_tokens", 1, INT32_MAX);
        if (newer) max_tokens = newer;
    }
    if (max_tokens) body.max_tokens = static_cast<uint32_t>(*max_tokens);
    body.min_tokens = static_cast<uint32_t>(fields.integer("min_tokens", 0, INT32_MAX).value_or(0));
    if (body.max_tokens && body.min_tokens > *body.max_tokens) {
        fields.fail("min_tokens", "'min_tokens' is " + std::to_string(body.min_tokens) +
                                      ", more than 'max_tokens', " +
                                      std::to_string(*body.max_tokens) + ".");
    }
    body.n = static_cast<uint32_t>(fields.integer("n", 1, kMaxChoices).value_or(1));
    if (auto best_of = fields.integer("best_of", 1, kMaxChoices); best_of && *best_of != body.n) {
        fields.fail("best_of", "'best_of' is not supported unless it equals 'n'; leave it out.",
                    "unsupported_parameter");
    }
}

void read_streaming(Fields& fields, GenerationBody& body) {
    body.stream = fields.boolean("stream").value_or(false);
    const Json* options = fields.any("stream_options");
    if (options == nullptr) return;
    if (!options->is_object()) {
        fields.fail_type("stream_options", "an object", *options);
    } else if (!body.stream) {
        fields.fail("stream_options", "'stream_options' is allowed only with 'stream': true.");
    } else {
        Fields inner(*options, "stream_options.");
        body.include_usage = inner.boolean("include_usage").value_or(false);
        if (inner.error()) fields.fail(inner.error()->param, inner.error()->message);
    }
}

void read_chat_logprobs(Fields& fields, GenerationBody& body) {
    const bool wanted = fields.boolean("logprobs").value_or(false);
    const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
    if (top && *top > 0 && !wanted) {
        fields.fail("top_logprobs", "'top_logprobs' needs 'logprobs': true.");
    }
    if (wanted) body.sampling.logprobs = static_cast<int32_t>(top.value_or(0));
}

ApiResult<GenerationBody> parse(std::string_view bytes, bool chat) {
    auto json = parse_json_object(bytes);
    if (!json.ok()) return json.error();
    Fields fields(json.value());
    GenerationBody body;
    body.chat = chat;
    body.model = fields.text("model", 1024).value_or("");
    if (chat) {
        body.messages = read_messages(fields);
        body.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
        read_chat_logprobs(fields, body);
    } else {
        body.prompts = read_prompts(fields);
        body.echo = fields.boolean("echo").value_or(false);
        if (auto top = fields.integer("logprobs", 0, kMaxLogprobs)) {
            body.sampling.logprobs = static_cast<int32_t>(*top);
        }
    }
    read_sampling(fields, body);
    read_limits(fields, body);
    read_streaming(fields, body);
    body.stop = read_stops(fields);
    body.cache_salt = fields.text("cache_salt", kMaxSaltBytes).value_or("");
    body.kv_codec = fields.text("kv_codec", kMaxCodecBytes);
    refuse_unsupported(fields);
    if (!chat && !fields.error() && body.prompts.size() * body.n > kMaxChoices) {
        fields.fail("n", "The request asks for " + std::to_string(body.prompts.size() * body.n) +
                             " choices (prompts x n); at most " + std::to_string(kMaxChoices) +
                             " are allowed.");
    }
    if (fields.error()) return *fields.error();
    body.ignored_fields = fields.unknown();
    return body;
}

}  // namespace

ApiResult<GenerationBody> parse_completion(std::string_view bytes) {
    return parse(bytes, false);
}

ApiResult<GenerationBody> parse_chat(std::string_view bytes) {
    return parse(bytes, true);
}

}  // namespace quire::server
