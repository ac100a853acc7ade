#include <algorithm>
#include <array>

#include "rules.h"

namespace quire::tidy {
namespace {

// Top first. A layer may include itself and those before it, never those after it.
constexpr std::array<std::string_view, 14> kLayers = {
    "base", "core",     "codec", "kernels", "format", "index",  "policy",
    "tier", "transfer", "cache", "engine",  "router", "server", "sim"};

// Libraries that only some layers may see; others get what they need through a seam.
struct Framework {
    std::string_view include;                // prefix of the included name
    std::array<std::string_view, 2> layers;  // where it may appear
    std::string_view why;
};
constexpr Framework kFrameworks[] = {
    {"ggml", {"engine", ""}, "ggml is the engine's: kernels see pointers, strides and counts"},
    {"gguf", {"engine", ""}, "ggml is the engine's: kernels see pointers, strides and counts"},
    {"llama", {"engine", ""}, "libllama is the engine's, for tokenizers and chat templates"},
    {"boost/beast", {"server", ""}, "HTTP is the server's"},
    {"liburing", {"base", ""}, "io_uring is used through base's executor"},
    {"yaml-cpp", {"base", ""}, "configuration has one source of truth, in base"},
};

int layer_number(std::string_view name) {
    auto at = std::find(kLayers.begin(), kLayers.end(), name);
    return at == kLayers.end() ? -1 : static_cast<int>(at - kLayers.begin());
}

std::string_view first_folder(std::string_view path) {
    return path.substr(0, path.find('/'));
}

// The name in an #include line, without its quotes or brackets; empty for other lines.
std::string_view included_name(std::string_view line) {
    if (!line.starts_with("#include ")) return {};
    size_t open = line.find_first_of("\"<");
    if (open == line.npos) return {};
    size_t close = line.find_first_of("\">", open + 1);
    return line.substr(open + 1, close == line.npos ? line.npos : close - open - 1);
}

void check_framework(const Source& source, std::string_view layer, std::string_view name, int line,
                     std::vector<Finding>& findings) {
    for (const Framework& framework : kFrameworks) {
        if (!name.starts_with(framework.include)) continue;
        bool allowed = std::find(framework.layers.begin(), framework.layers.end(), layer) !=
                       framework.layers.end();
        if (!allowed && !waived(source, line, "framework")) {
            findings.push_back({source.path, line, "framework",
                                std::string(name) + " in src/" + std::string(layer) + ": " +
                                    std::string(framework.why)});
        }
    }
}

void check_own_header(const Source& source, std::string_view first_include,
                      std::span<const std::string> paths, std::vector<Finding>& findings) {
    if (!source.path.ends_with(".cc") || !source.path.starts_with("src/")) return;
    std::string header = source.path.substr(0, source.path.size() - 2) + "h";
    if (std::find(paths.begin(), paths.end(), header) == paths.end()) return;
    std::string wanted = header.substr(std::string_view("src/").size());
    if (first_include == wanted) return;
    findings.push_back({source.path, 0, "own-header",
                        "include \"" + wanted + "\" first: that proves that it compiles alone"});
}

}  // namespace

std::vector<Finding> check_includes(const Source& source, std::span<const std::string> paths) {
    std::vector<Finding> findings;
    if (source.language != Language::cpp || !source.path.starts_with("src/")) return findings;
    const std::string_view layer = first_folder(std::string_view(source.path).substr(4));
    const int own = layer_number(layer);
    if (own < 0) {
        findings.push_back(
            {source.path, 0, "layer", "src/" + std::string(layer) + " is not in the layer list"});
        return findings;
    }
    std::string_view first_include;
    for (size_t i = 0; i < source.lines.size(); ++i) {
        const std::string_view name = included_name(source.lines[i]);
        if (name.empty()) continue;
        if (first_include.empty()) first_include = name;
        const int number = static_cast<int>(i) + 1;
        const int other = layer_number(first_folder(name));
        const bool ours = other >= 0 && name.find('/') != name.npos;
        if (ours && other > own) {
            findings.push_back({source.path, number, "layer",
                                std::string(name) + " is below src/" + std::string(layer) +
                                    ": includes point up the list only; move the type up or the "
                                    "code down"});
        }
        if (!is_test(source.path)) check_framework(source, layer, name, number, findings);
    }
    check_own_header(source, first_include, paths, findings);
    return findings;
}

}  // namespace quire::tidy
