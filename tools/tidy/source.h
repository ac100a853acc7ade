// A source file as the rules see it: its lines, and the same lines with comments, literals and
// preprocessor lines blanked out, so that a rule about code never trips over prose.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire::tidy {

struct Finding {
    std::string path;  // relative to the repository
    int line = 0;      // 1-based; 0: the whole file
    std::string rule;  // short name, as in a waiver
    std::string text;  // what is wrong and what to do
};

enum class Language { cpp, cmake, python, shell, make, text };

struct Source {
    std::string path;  // relative to the repository, '/' separated
    Language language = Language::text;
    std::vector<std::string> lines;
    std::vector<std::string> code;  // as `lines`, blanked; C++ only, else equal to `lines`
};

// The language by the file's name; `first_line` decides for files without an extension.
Language language_of(std::string_view path, std::string_view first_line);

Source make_source(std::string path, std::string_view content);

// A line may waive one rule, with a reason: `// tidy: allow(<rule>): <reason>` on it or just above
// it.
bool waived(const Source& source, int line, std::string_view rule);

// Tests, their fixtures and fakes, fuzzers and benches: not part of what a server runs.
bool is_test(std::string_view path);

}  // namespace quire::tidy
