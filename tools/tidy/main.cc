// quire_tidy ROOT: prints every finding as path:line: [rule] text, and fails if there is any.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "rules.h"

namespace fs = std::filesystem;

namespace quire::tidy {
namespace {

bool is_checked(const std::string& path) {
    for (std::string_view end :
         {".h", ".cc", ".cu", ".cuh", ".c", ".py", ".cmake", ".txt", ".md", ".json", ".yaml",
          ".yml", ".sh", "Makefile", "NOTICE", ".ci/run"}) {
        if (path.ends_with(end)) return true;
    }
    // Programs without an extension.
    return path.starts_with("tools/") && path.find('.') == path.npos;
}

bool is_skipped_folder(const std::string& name) {
    return name == "build" || name == "demo-results" || name == "corpus" || name == "golden" ||
           name == "node_modules" || name == "__pycache__" || (name[0] == '.' && name != ".ci");
}

std::vector<std::string> find_files(const fs::path& root) {
    std::vector<std::string> paths;
    for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
        const std::string name = it->path().filename().string();
        if (it->is_directory() && is_skipped_folder(name)) {
            it.disable_recursion_pending();
        } else if (it->is_regular_file()) {
            paths.push_back(fs::relative(it->path(), root).generic_string());
        }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::vector<Source> read_sources(const fs::path& root, const std::vector<std::string>& paths) {
    std::vector<Source> sources;
    for (const std::string& path : paths) {
        if (!is_checked(path)) continue;
        std::ifstream file(root / path, std::ios::binary);
        std::ostringstream content;
        content << file.rdbuf();
        sources.push_back(make_source(path, content.str()));
    }
    return sources;
}

std::vector<Finding> check_all(const std::vector<Source>& sources,
                               const std::vector<std::string>& paths) {
    std::vector<Finding> findings = check_targets(sources);
    auto take = [&](std::vector<Finding> more) {
        findings.insert(findings.end(), more.begin(), more.end());
    };
    for (const Source& source : sources) {
        take(check_layout(source));
        take(check_functions(source));
        take(check_includes(source, paths));
        take(check_calls(source));
        take(check_words(source));
        take(check_paths(source, paths));
    }
    return findings;
}

}  // namespace
}  // namespace quire::tidy

int main(int argc, char** argv) {
    using namespace quire::tidy;
    if (argc != 2 || !fs::is_directory(argv[1])) {
        std::cerr << "usage: quire_tidy ROOT\n";
        return 2;
    }
    const std::vector<std::string> paths = find_files(argv[1]);
    const std::vector<Source> sources = read_sources(argv[1], paths);
    std::vector<Finding> findings = check_all(sources, paths);
    std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
        return std::tie(a.path, a.line) < std::tie(b.path, b.line);
    });
    for (const Finding& finding : findings) {
        std::cout << finding.path;
        if (finding.line > 0) std::cout << ":" << finding.line;
        std::cout << ": [" << finding.rule << "] " << finding.text << "\n";
    }
    std::cout << sources.size() << " files read, " << findings.size() << " findings\n";
    return findings.empty() ? 0 : 1;
}
