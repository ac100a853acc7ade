// A message that names a flag nobody takes sends people searching: every --flag in a string of the
// program is an option of `quire serve` or of a subcommand.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/config.h"
#include "base/options.h"

namespace quire {
namespace {

struct Literal {
    std::string text;
    std::string before;  // the code before it, back to the statement's or argument's start
    int line = 0;
};

// The string literals of a C++ source, neighbours apart; comments and character literals skipped.
std::vector<Literal> literals_of(const std::string& code) {
    std::vector<Literal> found;
    int line = 1;
    for (size_t at = 0; at < code.size(); ++at) {
        if (code[at] == '\n') ++line;
        if (code.compare(at, 2, "//") == 0) {
            while (at + 1 < code.size() && code[at + 1] != '\n') ++at;
        } else if (code[at] == '\'' && (at == 0 || !std::isalnum(code[at - 1]))) {
            for (++at; at < code.size() && code[at] != '\''; ++at) at += code[at] == '\\';
        } else if (code.compare(at, 3, "R\"(") == 0) {
            const size_t end = std::min(code.find(")\"", at), code.size() - 1);
            found.push_back({code.substr(at + 3, end - at - 3), "", line});
            line += static_cast<int>(std::count(&code[at], &code[end], '\n'));
            at = end + 1;
        } else if (code[at] == '"') {
            const size_t from = at + 1;
            for (++at; at < code.size() && code[at] != '"'; ++at) at += code[at] == '\\';
            const size_t back = std::min<size_t>(from - 1, 40);
            found.push_back(
                {code.substr(from, at - from), code.substr(from - 1 - back, back), line});
        }
    }
    return found;
}

std::vector<std::string> flags_in(const std::string& text) {
    std::vector<std::string> flags;
    for (size_t at = text.find("--"); at != text.npos; at = text.find("--", at + 2)) {
        size_t end = at + 2;
        const auto in_name = [&](char c) { return std::islower(c) || std::isdigit(c) || c == '-'; };
        while (end < text.size() && in_name(text[end])) ++end;
        const bool inside = at > 0 && (std::isalnum(text[at - 1]) || text[at - 1] == '-');
        if (end - at > 3 && !inside && text[end - 1] != '-')
            flags.push_back(text.substr(at, end - at));
    }
    return flags;
}

// An argument for a program that is run, or to compare one with: a flag alone or with its value.
bool is_argument(const std::string& text) {
    return text.starts_with("--") && text.find(' ') == text.npos;
}

std::string trimmed(std::string text) {
    while (!text.empty() && std::isspace(text.back())) text.pop_back();
    return text;
}

struct Named {
    std::string flag, where;
};

// What the program takes, and what its messages name.
struct Program {
    std::set<std::string> known = {"--help", "--version"};
    std::vector<Named> named;
};

std::string read_file(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

void scan(const std::string& path, Program& into) {
    for (const Literal& literal : literals_of(read_file(path))) {
        const std::string before = trimmed(literal.before);
        const bool declares = before.ends_with("add_option(") || before.ends_with("add_flag(") ||
                              before.ends_with("strcmp(argv[i],");
        for (const std::string& flag : flags_in(literal.text)) {
            if (declares) into.known.insert(flag);
            if (!is_argument(literal.text))
                into.named.push_back({flag, path + ":" + std::to_string(literal.line)});
        }
    }
}

Program scan_program() {
    Program program;
    for (const OptionSpec& spec : serve_option_table()) {
        program.known.insert(option_flag(spec));
        program.known.insert("--no-" + option_flag(spec).substr(2));
    }
    for (const char* folder : {"src", "apps", "bench"}) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
            const std::string path = entry.path().string();
            if (!path.ends_with(".cc") && !path.ends_with(".h")) continue;
            if (path.ends_with("_test.cc") || path.ends_with("_fuzz.cc")) continue;
            scan(path, program);
        }
    }
    return program;
}

TEST(Flags, EveryFlagThatAMessageNamesExists) {
    const Program program = scan_program();
    EXPECT_GT(program.named.size(), 40u) << "the sources were not found";
    for (const Named& name : program.named)
        EXPECT_TRUE(program.known.contains(name.flag)) << name.where << " names " << name.flag;
}

TEST(Flags, EveryFlagThatTheReadmeNamesExists) {
    const Program program = scan_program();
    const std::set<std::string> of_tools = {"--only", "--long"};
    for (const std::string& flag : flags_in(read_file("README.md")))
        EXPECT_TRUE(program.known.contains(flag) || of_tools.contains(flag))
            << "README.md names " << flag;
}

}  // namespace
}  // namespace quire
