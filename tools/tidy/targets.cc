#include <cctype>
#include <filesystem>
#include <set>

#include "rules.h"

namespace fs = std::filesystem;

namespace quire::tidy {
namespace {

bool is_path_char(char c) {
    return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' || c == '-';
}

std::string folder_of(const std::string& path) {
    size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// Every path-like word of a CMakeLists.txt, made relative to the repository.
void collect(const Source& source, std::set<std::string>& named) {
    const std::string folder = folder_of(source.path);
    for (const std::string& line : source.lines) {
        const std::string_view text = std::string_view(line).substr(0, line.find('#'));
        for (size_t i = 0; i < text.size();) {
            size_t end = i;
            while (end < text.size() && is_path_char(text[end])) ++end;
            const fs::path named_path = folder + std::string(text.substr(i, end - i));
            if (end > i) named.insert(named_path.lexically_normal().generic_string());
            i = end + 1;
        }
    }
}

}  // namespace

std::vector<Finding> check_targets(std::span<const Source> sources) {
    std::set<std::string> named;
    for (const Source& source : sources) {
        if (source.language == Language::cmake) collect(source, named);
    }
    std::vector<Finding> findings;
    for (const Source& source : sources) {
        const bool compiled = source.path.ends_with(".cc") || source.path.ends_with(".cu") ||
                              source.path.ends_with(".c");
        if (!compiled || named.contains(source.path)) continue;
        findings.push_back({source.path, 0, "no-target",
                            "no CMakeLists.txt names it: add it to a target, or delete it"});
    }
    return findings;
}

}  // namespace quire::tidy
