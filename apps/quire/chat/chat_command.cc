#include "apps/quire/chat/chat_command.h"

#include <atomic>
#include <csignal>
#include <iostream>
#include <memory>

#include <unistd.h>

#include "apps/quire/chat/chat_session.h"
#include "apps/quire/commands/command_line.h"
#include "apps/quire/serve/settings.h"
#include "apps/quire/serve/signals.h"
#include "base/log.h"
#include "engine/engine.h"
#include "server/http_message.h"
#include "server/server.h"

namespace quire {
namespace {

constexpr char kName[] = "chat";

constexpr char kExamples[] = R"(Examples:
  quire chat model.gguf
  quire chat model.gguf --disk ~/kv --system "Answer in one sentence."
  quire chat --url http://127.0.0.1:8000 --api-key KEY
  echo "Why is the sky blue?" | quire chat model.gguf

Inside: /help /system /reset /stats /explain /save /quit; Ctrl-C stops an answer.
)";

// A signal handler can reach nothing else than this.
std::atomic<bool> g_stop{false};

void stop_answer(int) {
    g_stop = true;
}

// Ctrl-C while an answer comes ends the answer; while waiting for input, it ends the wait.
void install_interrupt() {
    struct sigaction action = {};
    action.sa_handler = stop_answer;
    sigaction(SIGINT, &action, nullptr);  // no SA_RESTART: a read must return
}

struct ChatFlags {
    std::string url;
    std::string api_key;
    ChatSettings settings;
};

void add_chat_flags(CLI::App& app, ChatFlags& flags) {
    app.add_option("--url", flags.url, "talk to this server instead of opening a model")
        ->type_name("URL")
        ->group("Chat");
    app.add_option("--api-key", flags.api_key, "for --url")->type_name("KEY")->group("Chat");
    app.add_option("--system", flags.settings.system, "the system message")
        ->type_name("TEXT")
        ->group("Chat");
    app.add_option("--temperature", flags.settings.temperature, "0: always the likeliest [0.7]")
        ->check(CLI::Range(0.0, 2.0))
        ->group("Chat");
    app.add_option("--max-tokens", flags.settings.max_tokens, "longest answer [1024]")
        ->check(CLI::Range(1, 1 << 20))
        ->group("Chat");
}

int talk(const std::string& url, const ChatFlags& flags) {
    const auto parsed = server::parse_url(url);
    if (!parsed.ok()) return commands::fail(kName, parsed.error().message);
    install_interrupt();
    ChatSession session(server::HttpClient(*parsed, flags.api_key), flags.settings,
                        {std::cin, std::cout, std::cerr}, g_stop);
    return session.run() ? commands::kExitOk : commands::kExitNotOk;
}

// The model behind a server of our own on a loopback port that nobody else has the key of.
int talk_to_model(const ServeOptions& options, ChatFlags flags) {
    log::configure({.level = std::max(options.log_level, log::Level::warn)});
    const auto engine_settings = engine_options(options);
    if (!engine_settings.ok()) return commands::fail(kName, engine_settings.error().message);
    auto engine = open_engine(*engine_settings);
    if (!engine.ok()) {
        commands::fail(kName, engine.error().message);
        return commands::kExitNotOk;
    }
    server::ServerOptions settings;
    settings.port = 0;
    flags.api_key = server::random_id() + server::random_id();
    settings.keys = {{flags.api_key, "default"}};
    Metrics metrics;
    auto server = server::Server::start(**engine, metrics, std::move(settings));
    if (!server.ok()) return commands::fail(kName, server.error().message);
    const int code = talk((*server)->url(), flags);
    (*server)->drain(options.drain_timeout_ns);
    server.value().reset();
    return code;
}

}  // namespace

int run_chat(int argc, const char* const* argv) {
    CLI::App app("Talks to a model in this terminal: one opened here, or one on a server.",
                 "quire chat");
    const ConfigFlags config(app, serve_option_table(), "Server");
    ChatFlags flags;
    add_chat_flags(app, flags);
    app.footer(kExamples);
    if (auto code = commands::parse_flags(app, argc, argv)) return *code;
    ignore_broken_pipes();
    flags.settings.colours = isatty(STDOUT_FILENO) == 1;
    flags.settings.prompts = isatty(STDIN_FILENO) == 1;
    if (!flags.url.empty() && !config.given().empty())
        return commands::fail(kName,
                              "--url talks to a server that has its model already; leave "
                              "out the model and its options, or --url");
    if (!flags.url.empty()) return talk(flags.url, flags);
    const auto options = load_serve_options(config, kName);
    if (!options.ok()) return commands::fail(kName, options.error().message);
    return talk_to_model(*options, std::move(flags));
}

}  // namespace quire
