#include "apps/quire/serve/settings.h"

#include <unistd.h>

#include "base/machine.h"
#include "kernels/attention.h"
#include "policy/evict.h"
#include "policy/plan.h"

namespace quire {
Result<ServeOptions> load_serve_options(const ConfigFlags& flags, std::string_view command) {
    ConfigSources sources;
    sources.flags = flags.given();
    sources.environment = quire_environment(environ);
    sources.file_name = config_file_name(sources.flags, sources.environment);
    if (!sources.file_name.empty()) {
        auto text = read_config_file(sources.file_name);
        if (!text.ok()) return text.error();
        sources.file_text = std::move(text).value();
    }
    const auto config = Config::load(serve_option_table(), sources);
    if (!config.ok()) return config.error();
    return serve_options(*config, machine_memory_bytes(), command);
}

namespace {

// `name` must be a row's; `flag` is the option that gave it.
template <typename Rows>
Status check_policy(const char* flag, const std::string& name, const Rows& rows) {
    std::string choices;
    for (const auto& row : rows) {
        if (row.name == name) return {};
        choices += (choices.empty() ? "" : ", ") + std::string(row.name);
    }
    return make_error(Code::invalid, std::string(flag) + ": there is no policy '" + name +
                                         "'; choose one of " + choices);
}

}  // namespace

Result<EngineOptions> engine_options(const ServeOptions& options) {
    QUIRE_TRY(check_policy("--evict", options.evict, eviction_table()));
    QUIRE_TRY(check_policy("--admit-host", options.admit_host, admission_table()));
    QUIRE_TRY(check_policy("--admit-disk", options.admit_disk, admission_table()));
    EngineOptions out;
    out.model_path = options.model_path;
    out.model_name = options.model_name;
    out.cache = options.cache;
    out.kv_memory_bytes = options.kv_memory_bytes;
    out.host_memory_bytes = options.host_memory_bytes;
    out.disk_dir = options.disk_path;
    out.disk_bytes = options.disk_bytes;
    out.evict = options.evict;
    out.admit_host = options.admit_host;
    out.admit_disk = options.admit_disk;
    out.write_through_host = options.write_through_host;
    out.write_through_disk = options.write_through_disk;
    out.threads = static_cast<int>(options.threads);
    out.context_tokens = options.context_tokens;
    out.block_tokens = options.block_tokens;
    out.kv_codec = options.kv_codec;
    out.kv_codecs_allowed = options.kv_codecs_allowed;
    out.kv_sink_tokens = options.kv_sinks;
    out.kv_recent_tokens = options.kv_recent_tokens;
    out.kv_skip_layers = options.kv_skip_layers;
    out.kv_element = options.kv_bf16 ? Element::bf16 : Element::f16;
    out.kv_schedule = options.kv_schedule;
    out.kv_sidecar = options.kv_sidecar;
    out.kv_learn_tokens = options.kv_learn_tokens;
    out.kv_codec_host = options.kv_codec_host;
    out.kv_codec_cold = options.kv_codec_cold;
    out.unpack_threads = options.unpack_threads;
    out.cold_cpu_percent = options.cold_cpu_percent;
    out.step_tokens = options.step_tokens;
    out.max_running = options.max_running;
    out.max_queue = options.max_queue;
    out.request_timeout_ns = options.request_timeout_ns;
    switch (options.isa) {
        case IsaChoice::automatic:
            out.attention = &kernels::best_attention();
            break;
        case IsaChoice::ref:
            out.attention = kernels::find_attention(kernels::Isa::ref);
            break;
        case IsaChoice::avx2:
            out.attention = kernels::find_attention(kernels::Isa::avx2);
            break;
        case IsaChoice::avx512:
            out.attention = kernels::find_attention(kernels::Isa::avx512);
            break;
    }
    if (out.attention == nullptr) {
        return make_error(Code::unsupported,
                          "this CPU lacks the instructions that --isa names; use --isa auto");
    }
    return out;
}

server::ServerOptions server_options(const ServeOptions& options) {
    server::ServerOptions out;
    out.host = options.host;
    out.port = options.port;
    for (const ApiKeyOption& key : options.api_keys) out.keys.push_back({key.key, key.tenant});
    out.metrics_need_key = options.metrics_key && !out.keys.empty();
    out.version = QUIRE_VERSION;
    out.request_timeout_ns = options.request_timeout_ns;
    out.max_body_bytes = options.body_limit_bytes;
    out.max_header_bytes = static_cast<uint32_t>(options.header_limit_bytes);
    return out;
}

}  // namespace quire
