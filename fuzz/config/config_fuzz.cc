// A configuration file and environment of any text: an error names its place, and what loads prints
// as text that loads back to the same.
//
// The input is the YAML file; lines after one of "---env" are NAME=VALUE of the environment.
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/config.h"
#include "base/options.h"

namespace {

quire::ConfigSources sources_of(std::string_view text) {
    constexpr std::string_view kMark = "---env\n";
    quire::ConfigSources sources;
    sources.file_name = "quire.yaml";
    const size_t mark = text.find(kMark);
    sources.file_text = text.substr(0, mark);
    if (mark == text.npos) return sources;
    text.remove_prefix(mark + kMark.size());
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        const size_t equals = line.find('=');
        if (equals != line.npos) {
            sources.environment.push_back({"QUIRE_" + std::string(line.substr(0, equals)),
                                           std::string(line.substr(equals + 1))});
        }
        text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
    return sources;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const quire::OptionTable table = quire::serve_option_table();
    auto config = quire::Config::load(table, sources_of(text));
    if (!config.ok()) {
        QUIRE_CHECK(!config.error().message.empty(), "an error without a message");
        return 0;
    }
    bool has_secret = false;
    for (const quire::OptionSpec& spec : table) {
        has_secret |= spec.secret && !config->is_default(spec.key);
    }
    if (has_secret) return 0;  // effective() hides them, so it cannot load back
    quire::ConfigSources again;
    again.file_name = "effective.yaml";
    again.file_text = config->effective();
    auto reloaded = quire::Config::load(table, again);
    QUIRE_CHECK(reloaded.ok(), "effective() does not load");
    return 0;
}
