// A conversation with a server: lines in, streamed answers out, /commands.
//
// Knows neither terminal nor signals: streams and a stop flag are given. One thread.
#pragma once

#include <atomic>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_client.h"
#include "server/json_text.h"

namespace quire {

struct ChatSettings {
    std::string system;
    double temperature = 0.7;
    int max_tokens = 1024;
    bool colours = false;
    bool prompts = true;  // greet, and print "> " before input; off when input is no terminal
};

class ChatSession {
 public:
    struct Streams {
        std::istream& in;
        std::ostream& out;  // answers
        std::ostream& err;  // what went wrong
    };
    // The streams outlive this. `stop` is set (by a signal) to end the answer being streamed.
    ChatSession(server::HttpClient client, ChatSettings settings, Streams streams,
                std::atomic<bool>& stop);

    // Until /quit or the end of input. False: the server could not be reached at the start, or,
    // without prompts (a script reads along), some line had no answer.
    bool run();

 private:
    struct Command;
    static const std::vector<Command>& commands();
    // False: the session ends.
    bool handle_line(const std::string& line);
    void say(const std::string& text);
    // What a line of the stream adds to the answer, or says went wrong.
    void take_chunk(std::string_view data, std::string& answer, std::string& error);
    void print_error(std::string_view message);
    server::OrderedJson body() const;
    const char* colour(const char* code) const { return settings_.colours ? code : ""; }

    bool help(std::string_view rest);
    bool system(std::string_view rest);
    bool reset(std::string_view rest);
    bool stats(std::string_view rest);
    bool explain(std::string_view rest);
    bool save(std::string_view rest);
    bool quit(std::string_view rest);

    server::HttpClient client_;
    ChatSettings settings_;
    std::istream& in_;
    std::ostream& out_;
    std::ostream& err_;
    bool failed_ = false;
    std::atomic<bool>& stop_;
    std::string model_;
    std::vector<std::pair<std::string, std::string>> turns_;  // role, text
    server::Json usage_, timing_;                             // of the last answer
};

}  // namespace quire
