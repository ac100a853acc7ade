#include "apps/quire/chat/chat_session.h"

#include <fstream>
#include <istream>
#include <ostream>

#include <fmt/format.h>

namespace quire {
namespace {

using server::Json;
using server::OrderedJson;

constexpr char kDim[] = "\033[2m";
constexpr char kRed[] = "\033[31m";
constexpr char kBold[] = "\033[1m";
constexpr char kPlain[] = "\033[0m";

// The message of OpenAI's error object, or the text itself when it is no such thing.
std::string error_text(const std::string& body) {
    const Json json = Json::parse(body, nullptr, false);
    if (json.is_object() && json.contains("error") && json["error"].is_object()) {
        return json["error"].value("message", body);
    }
    return body;
}

}  // namespace

struct ChatSession::Command {
    std::string_view name;
    std::string_view about;
    bool (ChatSession::*run)(std::string_view rest);
};

const std::vector<ChatSession::Command>& ChatSession::commands() {
    static const std::vector<Command> kCommands = {
        {"/help", "this list", &ChatSession::help},
        {"/system", "[TEXT] set or show the system message; starts over", &ChatSession::system},
        {"/reset", "forget the conversation", &ChatSession::reset},
        {"/stats", "the last answer: cached tokens, time to first token, speed",
         &ChatSession::stats},
        {"/explain", "would the conversation so far hit the cache, and if not why",
         &ChatSession::explain},
        {"/save", "FILE write the conversation as JSON", &ChatSession::save},
        {"/quit", "leave (also the end of input)", &ChatSession::quit},
    };
    return kCommands;
}

ChatSession::ChatSession(server::HttpClient client, ChatSettings settings, Streams streams,
                         std::atomic<bool>& stop)
    : client_(std::move(client)),
      settings_(std::move(settings)),
      in_(streams.in),
      out_(streams.out),
      err_(streams.err),
      stop_(stop) {}

bool ChatSession::run() {
    auto models = client_.request("GET", "/v1/models");
    if (!models.ok() || models->status != 200) {
        print_error(models.ok() ? error_text(models->body) : models.error().message);
        return false;
    }
    const Json list = Json::parse(models->body, nullptr, false);
    if (list.is_object() && list.contains("data") && !list["data"].empty()) {
        model_ = list["data"][0].value("id", "");
    }
    if (settings_.prompts)
        out_ << fmt::format("{}{}{}: /help lists commands, /quit leaves\n", colour(kBold), model_,
                            colour(kPlain));
    std::string line;
    do {
        if (settings_.prompts) out_ << "\n> " << std::flush;
        if (!out_ || !std::getline(in_, line)) break;  // nobody reads, or nobody writes
        stop_ = false;
    } while (handle_line(line));
    if (settings_.prompts) out_ << std::endl;
    return settings_.prompts || !failed_;
}

bool ChatSession::handle_line(const std::string& line) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) return true;
    if (line[0] != '/') {
        say(line);
        return true;
    }
    const size_t space = line.find(' ');
    const std::string_view name = std::string_view(line).substr(0, space);
    const std::string_view rest =
        space == std::string::npos ? std::string_view() : std::string_view(line).substr(space + 1);
    for (const Command& command : commands()) {
        if (command.name == name) return (this->*command.run)(rest);
    }
    print_error(fmt::format("there is no command {}; /help lists them", name));
    return true;
}

OrderedJson ChatSession::body() const {
    OrderedJson messages = OrderedJson::array();
    if (!settings_.system.empty()) {
        messages.push_back({{"role", "system"}, {"content", settings_.system}});
    }
    for (const auto& [role, text] : turns_) {
        messages.push_back({{"role", role}, {"content", text}});
    }
    return {{"model", model_}, {"messages", std::move(messages)}};
}

void ChatSession::say(const std::string& text) {
    turns_.emplace_back("user", text);
    OrderedJson request = body();
    request["stream"] = true;
    request["stream_options"] = {{"include_usage", true}};
    request["temperature"] = settings_.temperature;
    request["max_tokens"] = settings_.max_tokens;
    std::string answer, error;
    auto reply = client_.stream("/v1/chat/completions", server::dump_json(request),
                                [&](std::string_view data) {
                                    take_chunk(data, answer, error);
                                    return !stop_;
                                });
    out_ << std::endl;
    if (!reply.ok()) error = reply.error().message;
    if (reply.ok() && reply->status != 200) error = error_text(reply->body);
    if (!error.empty()) {
        print_error(error);
        turns_.pop_back();  // so that it can be asked again
        return;
    }
    if (stop_) out_ << colour(kDim) << "(stopped)" << colour(kPlain) << std::endl;
    turns_.emplace_back("assistant", answer);
}

void ChatSession::take_chunk(std::string_view data, std::string& answer, std::string& error) {
    const Json chunk = Json::parse(data, nullptr, false);
    if (!chunk.is_object()) return;  // [DONE]
    if (chunk.contains("error")) error = error_text(std::string(data));
    if (chunk.contains("usage") && chunk["usage"].is_object()) usage_ = chunk["usage"];
    if (chunk.contains("quire")) timing_ = chunk["quire"].value("timing", Json());
    const Json choices = chunk.value("choices", Json::array());
    if (choices.empty()) return;
    const Json delta = choices[0].value("delta", Json::object());
    const std::string text = delta.value("content", "");
    answer += text;
    out_ << text << std::flush;
}

void ChatSession::print_error(std::string_view message) {
    failed_ = true;
    err_ << colour(kRed) << "error: " << message << colour(kPlain) << std::endl;
}

bool ChatSession::help(std::string_view) {
    for (const Command& command : commands()) {
        out_ << fmt::format("  {:<9} {}\n", command.name, command.about);
    }
    return true;
}

bool ChatSession::system(std::string_view rest) {
    if (rest.empty()) {
        out_ << (settings_.system.empty() ? "(none)" : settings_.system) << "\n";
        return true;
    }
    settings_.system = std::string(rest);
    return reset({});
}

bool ChatSession::reset(std::string_view) {
    turns_.clear();
    out_ << "starting over\n";
    return true;
}

bool ChatSession::stats(std::string_view) {
    if (!usage_.is_object() || !timing_.is_object()) {
        out_ << "nothing was answered yet\n";
        return true;
    }
    const int prompt = usage_.value("prompt_tokens", 0);
    const int generated = usage_.value("completion_tokens", 0);
    const Json details = usage_.value("prompt_tokens_details", Json::object());
    const double decode_ms = timing_.value("decode_ms", 0.0);
    out_ << fmt::format("prompt {} tokens, {} cached {}\n", prompt,
                        details.value("cached_tokens", 0),
                        server::dump_json(timing_.value("cached_tokens", Json::object())));
    out_ << fmt::format("first token after {:.1f} ms (queue {:.1f}, prefill {:.1f})\n",
                        timing_.value("first_token_ms", 0.0), timing_.value("queue_ms", 0.0),
                        timing_.value("prefill_ms", 0.0));
    // The first token came before decoding began.
    if (decode_ms > 0 && generated > 1) {
        out_ << fmt::format("{} tokens at {:.1f} a second\n", generated,
                            (generated - 1) * 1e3 / decode_ms);
    }
    const std::string reason = timing_.value("miss_reason", "");
    if (!reason.empty()) out_ << "the cached prefix ended: " << reason << "\n";
    return true;
}

bool ChatSession::explain(std::string_view) {
    if (turns_.empty()) {
        out_ << "say something first\n";
        return true;
    }
    auto reply = client_.request("POST", "/v1/cache/explain", server::dump_json(body()));
    if (!reply.ok() || reply->status != 200) {
        print_error(reply.ok() ? error_text(reply->body) : reply.error().message);
        return true;
    }
    const Json json = Json::parse(reply->body, nullptr, false);
    if (!json.is_object()) return true;
    out_ << fmt::format("{} of {} tokens would come from the cache: {}. {}\n",
                        json.value("hit_tokens", 0), json.value("prompt_tokens", 0),
                        json.value("reason", ""), json.value("detail", ""));
    if (json.contains("first_different_token")) {
        out_ << fmt::format("token {} differs: expected '{}', got '{}'\n",
                            json["first_different_token"].get<int64_t>(),
                            json.value("expected_text", ""), json.value("actual_text", ""));
    }
    return true;
}

bool ChatSession::save(std::string_view rest) {
    const std::string path(rest);
    std::ofstream file(path, std::ios::trunc);
    file << body().dump(2, ' ', false, OrderedJson::error_handler_t::replace) << "\n" << std::flush;
    if (path.empty() || !file) {
        print_error(fmt::format("cannot write '{}'; give a file: /save chat.json", path));
    } else {
        out_ << "saved to " << path << "\n";
    }
    return true;
}

bool ChatSession::quit(std::string_view) {
    return false;
}

}  // namespace quire
