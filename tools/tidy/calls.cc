#include <algorithm>
#include <cctype>

#include "banned.h"
#include "rules.h"

namespace quire::tidy {
namespace {

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
// `statement` is the code before the word, from the line above on.
bool is_owning_new(std::string_view statement, char after) {
    const bool owned = statement.ends_with("(") && statement.find("unique_ptr<") != statement.npos;
    return after != '(' && !owned && !statement.ends_with("operator ");
}

std::string statement_before(const Source& source, size_t line, size_t at) {
    std::string text = line > 0 ? source.code[line - 1] : "";
    const std::string head = source.code[line].substr(0, at);
    const size_t first = head.find_first_not_of(' ');
    return text + (first == head.npos ? "" : head.substr(first));
}

// Whether the word at `at` is the banned thing, and not a member, a declaration or `= delete`.
bool matches(const Banned& banned, const Source& source, size_t number, size_t at) {
    const std::string_view line = source.code[number];
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
    const std::string statement = statement_before(source, number, at);
    if (banned.word == "new") return is_owning_new(statement, after);
    // A deleter is the type that owns what it frees.
    if (banned.word == "free" && statement.find("operator()") != statement.npos) return false;
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
                         source.path.starts_with("bench/") || source.path.ends_with("_main.cc");
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
                if (!matches(banned, source, i, at) || waived(source, number, banned.word))
                    continue;
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
