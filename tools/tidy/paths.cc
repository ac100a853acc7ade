// Documents name files; a name that leads nowhere is worse than none.
#include <algorithm>
#include <cctype>

#include "rules.h"

namespace quire::tidy {
namespace {

constexpr std::string_view kRoots[] = {"src/",  "apps/",  "bench/", "tests/",
                                       "fuzz/", "tools/", "docs/"};

bool is_plain_path(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/';
    });
}

bool exists(std::string_view path, std::span<const std::string> paths) {
    return std::any_of(paths.begin(), paths.end(), [&](const std::string& known) {
        if (!known.starts_with(path)) return false;
        return path.ends_with('/') || known.size() == path.size() || known[path.size()] == '/';
    });
}

}  // namespace

std::vector<Finding> check_paths(const Source& source, std::span<const std::string> paths) {
    std::vector<Finding> findings;
    if (!source.path.ends_with(".md")) return findings;
    for (size_t i = 0; i < source.lines.size(); ++i) {
        const std::string_view line = source.lines[i];
        for (size_t open = line.find('`'); open != line.npos; open = line.find('`', open + 1)) {
            const size_t close = line.find('`', open + 1);
            if (close == line.npos) break;
            const std::string_view name = line.substr(open + 1, close - open - 1);
            open = close;
            const bool ours =
                std::any_of(std::begin(kRoots), std::end(kRoots),
                            [&](std::string_view root) { return name.starts_with(root); });
            // Names with blanks or <placeholders> are commands and patterns.
            if (!ours || !is_plain_path(name) || exists(name, paths)) continue;
            findings.push_back({source.path, static_cast<int>(i) + 1, "dead-path",
                                "`" + std::string(name) + "` does not exist"});
        }
    }
    return findings;
}

}  // namespace quire::tidy
