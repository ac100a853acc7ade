#include <algorithm>
#include <cctype>

#include "rules.h"

namespace quire::tidy {
namespace {

struct Banned {
    std::string_view word;
    bool call;                 // must be followed by '('
    bool in_tests;             // holds in tests too
    std::string_view allowed;  // path prefix where it belongs; empty: nowhere
    std::string_view instead;
};

// A waiver (source.h) is for the rare line that is right all the same; it must say why.
constexpr Banned kBanned[] = {
    {"printf", true, false, "apps/", "log with base/log.h, or return text"},
    {"puts", true, false, "apps/", "log with base/log.h, or return text"},
    {"cout", false, false, "apps/", "log with base/log.h, or return text"},
    {"cerr", false, false, "apps/", "log with base/log.h, or return an Error"},
    {"fprintf", true, false, "src/base/check.cc", "log with base/log.h"},
    {"abort", true, false, "src/base/check.cc", "QUIRE_CHECK for our bugs, Result for the rest"},
    {"exit", true, false, "apps/", "return a Status to main"},
    {"_exit", true, false, "apps/", "return a Status to main"},
    {"quick_exit", true, true, "", "return a Status to main"},
    {"getenv", true, false, "src/base/", "read it through base's configuration"},
    {"setenv", true, false, "src/base/", "pass the value as a parameter"},
    {"rand", true, true, "", "a seeded generator that is passed in"},
    {"srand", true, true, "", "a seeded generator that is passed in"},
    {"random_device", false, true, "src/base/", "a seeded generator that is passed in"},
    {"sleep", true, true, "", "wait for the event itself, with a deadline"},
    {"usleep", true, true, "", "wait for the event itself, with a deadline"},
    {"nanosleep", true, true, "", "wait for the event itself, with a deadline"},
    {"sleep_for", true, true, "src/base/", "wait for the event itself, with a deadline"},
    {"sleep_until", true, true, "src/base/", "wait for the event itself, with a deadline"},
    {"system", true, true, "", "call the library, or start the process by its argument list"},
    {"popen", true, true, "", "call the library, or start the process by its argument list"},
    {"strcpy", true, true, "", "std::string or a span"},
    {"strcat", true, true, "", "std::string or a span"},
    {"sprintf", true, true, "", "fmt::format or std::to_string"},
    {"vsprintf", true, true, "", "fmt::format or std::to_string"},
    {"strtok", true, true, "", "std::string_view and find"},
    {"gets", true, true, "", "std::getline"},
    {"malloc", true, true, "src/base/", "std::vector, or an arena of base"},
    {"free", true, true, "src/base/", "a type that owns what it frees"},
    {"thread", false, false, "src/base/", "base's executor, or a waiver that names the owner"},
    {"jthread", false, false, "src/base/", "base's executor, or a waiver that names the owner"},
    {"async", true, false, "src/base/", "base's executor"},
    {"pthread_create", true, true, "src/base/", "base's executor"},
    {"new", false, true, "", "std::make_unique, or a container"},
    {"delete", false, true, "", "a type that owns what it frees"},
};

// Who else may, and why. For one odd line a waiver beside it (source.h) is better.
struct Owner {
    std::string_view word;
    std::string_view path;  // prefix
    std::string_view reason;
};
constexpr Owner kOwners[] = {
    {"thread", "src/cache/storer.",
     "one low-priority thread seals slabs; joined by its destructor"},
    {"thread", "src/tier/disk/", "a store owns its reader and its writer; joined when it closes"},
    {"thread", "src/tier/host/", "a pool owns its copy workers; joined when it closes"},
    {"thread", "src/engine/", "the engine owns the thread that owns the cache"},
    {"thread", "src/server/", "the server owns its I/O thread and workers"},
    {"random_device", "src/server/", "ids that a client cannot guess, unlike any seeded ones"},
};

bool is_owner(std::string_view word, std::string_view path) {
    return std::any_of(std::begin(kOwners), std::end(kOwners), [&](const Owner& owner) {
        return owner.word == word && path.starts_with(owner.path);
    });
}

bool is_word(char c) {
    return isalnum(static_cast<unsigned char>(c)) || c == '_';
}

char next_char(std::string_view line, size_t at) {
    while (at < line.size() && line[at] == ' ') ++at;
    return at < line.size() ? line[at] : '\0';
}

char previous_char(std::string_view line, size_t at) {
    while (at > 0 && line[at - 1] == ' ') --at;
    return at > 0 ? line[at - 1] : '\0';
}

// Placement is fine, and so is a private constructor's object that goes straight to its owner.
bool is_owning_new(std::string_view head, char after) {
    const bool owned = head.ends_with("(") && head.find("unique_ptr<") != head.npos;
    return after != '(' && !owned && !head.ends_with("operator ");
}

// Whether the word at `at` is the banned thing, and not a member, a declaration or `= delete`.
bool matches(const Banned& banned, std::string_view line, size_t at) {
    const size_t end = at + banned.word.size();
    if ((at > 0 && is_word(line[at - 1])) || (end < line.size() && is_word(line[end])))
        return false;
    const char before = previous_char(line, at);
    const char after = next_char(line, end);
    if (banned.call && after != '(') return false;
    const std::string_view head = line.substr(0, at);
    if (head.ends_with(".") || head.ends_with("->")) return false;
    if (banned.word == "thread" || banned.word == "jthread" || banned.word == "cout" ||
        banned.word == "cerr" || banned.word == "async" || banned.word == "random_device") {
        const bool type_use = after == ':';  // std::thread::id, hardware_concurrency
        return head.ends_with("std::") && !type_use;
    }
    if (banned.word == "new") return is_owning_new(head, after);
    if (banned.word == "delete") return before != '=' && !head.ends_with("operator ");
    // `Status exit(...)` declares something of ours; `return exit(...)` and `std::exit(...)` call.
    const bool qualified = head.ends_with("::");
    if (qualified) return head.ends_with("std::") || head == "::" || head.ends_with(" ::");
    const bool after_word = before != '\0' && (is_word(before) || before == '>' || before == '*');
    return !after_word || head.ends_with("return ");
}

}  // namespace

std::vector<Finding> check_calls(const Source& source) {
    std::vector<Finding> findings;
    if (source.language != Language::cpp) return findings;
    const bool program = source.path.starts_with("apps/") || source.path.starts_with("tools/") ||
                         source.path.starts_with("bench/");
    for (const Banned& banned : kBanned) {
        if (is_test(source.path) && !banned.in_tests) continue;
        if (!banned.allowed.empty() && source.path.starts_with(banned.allowed)) continue;
        if (banned.allowed == "apps/" && program) continue;
        if (is_owner(banned.word, source.path)) continue;
        for (size_t i = 0; i < source.code.size(); ++i) {
            const std::string_view line = source.code[i];
            for (size_t at = line.find(banned.word); at != line.npos;
                 at = line.find(banned.word, at + 1)) {
                const int number = static_cast<int>(i) + 1;
                if (!matches(banned, line, at) || waived(source, number, banned.word)) continue;
                findings.push_back({source.path, number, std::string(banned.word),
                                    "`" + std::string(banned.word) +
                                        "` does not belong here: " + std::string(banned.instead)});
                break;
            }
        }
    }
    return findings;
}

}  // namespace quire::tidy
