// The rules. Each is a pure function from sources to findings, tested on snippets in rules_test.cc.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "source.h"

namespace quire::tidy {

inline constexpr int kMaxColumns = 100;
inline constexpr int kMaxFileLines = 800;
inline constexpr int kMaxFunctionLines = 70;

// columns, tabs, trailing blanks, file length, `#pragma once`.
std::vector<Finding> check_layout(const Source& source);
// Functions over kMaxFunctionLines, from the line of their opening brace's statement to the closing
// one.
std::vector<Finding> check_functions(const Source& source);
// Includes that point down the layer list, frameworks outside their layer, and foo.cc not including
// its own foo.h first (that order is what proves that foo.h compiles alone). `has_header(stem.h)`
// is asked through `paths`, every path in the repository.
std::vector<Finding> check_includes(const Source& source, std::span<const std::string> paths);
// Calls that belong to one place or to nobody; see the table in calls.cc.
std::vector<Finding> check_calls(const Source& source);
// Left-over review marks, paths of one machine, hosts of package registries.
std::vector<Finding> check_words(const Source& source);
// Paths in backticks in a document that do not exist.
std::vector<Finding> check_paths(const Source& source, std::span<const std::string> paths);
// A C++ source that no CMakeLists.txt names. Looks at all sources together.
std::vector<Finding> check_targets(std::span<const Source> sources);

}  // namespace quire::tidy
