#include "apps/quire/serve/serve_command.h"

#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/serve/banner.h"
#include "apps/quire/serve/engine_metrics.h"
#include "apps/quire/serve/settings.h"
#include "apps/quire/serve/signals.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "kernels/attention.h"
#include "server/server.h"

namespace quire {
namespace {

constexpr char kAbout[] =
    "Serves a GGUF model with OpenAI's API. Prompts are remembered block by block in memory (G1,\n"
    "G2) and, with --disk, over restarts (G3): what was seen before is loaded, not computed.";

constexpr char kExamples[] = R"(Examples:
  quire serve model.gguf
  quire serve model.gguf --kv-memory 1GiB --host-memory 8GiB --disk /var/cache/quire:100GiB
  quire serve model.gguf --host 0.0.0.0 --api-keys 6f1d2c9a=team-a,admin-key=admin
  quire serve model.gguf --config quire.yaml        (flag > QUIRE_* variable > file > default)

  curl http://127.0.0.1:8000/v1/chat/completions \
       -d '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":100}'
  curl http://127.0.0.1:8000/v1/cache               what is cached where
  curl http://127.0.0.1:8000/v1/cache/explain -d '{"prompt":"..."}'   why a prompt hits or misses
)";

constexpr char kName[] = "serve";

// After the drain: for last words, for cutting connections and for a tokenizer that is at work.
constexpr int64_t kShutdownGrace_ns = int64_t{15} * 1'000'000'000;

// For scripts that asked for port 0: the file appears whole, when the server answers.
Status write_port_file(const std::string& path, uint16_t port) {
    if (path.empty()) return {};
    std::ofstream file(path, std::ios::trunc);
    file << port << "\n" << std::flush;
    if (file) return {};
    return make_error(Code::io, "cannot write the port to " + path);
}

bool several_tenants(const ServeOptions& options) {
    std::set<std::string> tenants;
    for (const ApiKeyOption& key : options.api_keys) tenants.insert(key.tenant);
    return tenants.size() > 1;
}

void note_process(Metrics& metrics, const ModelInfo& model) {
    metrics.set_info(Metric::build_info, QUIRE_VERSION);
    metrics.set_info(Metric::model_info, model.name);
    metrics.gauge(Metric::start_time_seconds).set(system_clock().wall_ns() / 1'000'000'000);
}

int serve(const ServeOptions& options, const std::string& port_file) {
    const int64_t start_ns = system_clock().monotonic_ns();
    Metrics metrics;  // the engine counts into it
    auto engine_settings = engine_options(options);
    if (!engine_settings.ok()) return commands::fail(kName, engine_settings.error().message);
    engine_settings->metrics = &metrics;
    // Before the model, which takes long to open.
    auto port = server::Port::bind(server_options(options));
    if (!port.ok()) {
        commands::fail(kName, port.error().message);
        return commands::kExitNotOk;
    }
    log::info("opening", "{}: checking it and preparing its weights", options.model_path);
    auto engine = open_engine(*engine_settings);
    if (!engine.ok()) {
        commands::fail(kName, engine.error().message);
        return commands::kExitNotOk;
    }
    note_process(metrics, (*engine)->model());
    const auto published = publish_engine_metrics(metrics, **engine, several_tenants(options));
    auto server =
        server::Server::start(**engine, metrics, server_options(options), std::move(port).value());
    if (!server.ok()) {
        commands::fail(kName, server.error().message);
        return commands::kExitNotOk;
    }
    std::cout << banner_text({options, (*engine)->model(), (*engine)->cache_status(),
                              engine_settings->attention->name, (*server)->url(),
                              system_clock().monotonic_ns() - start_ns})
              << std::flush;
    if (auto written = write_port_file(port_file, (*server)->port()); !written.ok()) {
        commands::fail(kName, written.error().message);
        return commands::kExitNotOk;
    }
    // Not to stdout: nobody may read it any more, and then a write would wait for ever.
    const auto drain = [&] {
        log::info("draining", "finishing what runs; a second signal ends at once");
        (*server)->drain(options.drain_timeout_ns);
        server.value().reset();
    };
    wait_and_drain(drain, options.drain_timeout_ns + kShutdownGrace_ns);
    return commands::kExitOk;
}

}  // namespace

int run_serve(int argc, const char* const* argv) {
    CLI::App app(kAbout, "quire serve");
    const ConfigFlags flags(app, serve_option_table());
    std::string port_file;
    app.add_option("--port-file", port_file, "write the port here once the server answers")
        ->type_name("FILE")
        ->group("Server");
    app.footer(kExamples);
    if (auto code = commands::parse_flags(app, argc, argv)) return *code;
    const auto options = load_serve_options(flags, kName);
    if (!options.ok()) return commands::fail(kName, options.error().message);
    ignore_broken_pipes();
    log::configure({.level = options->log_level, .json = options->log_json});
    return serve(*options, port_file);
}

}  // namespace quire
