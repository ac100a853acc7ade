// Is a configuration valid, before a server is started with it?
#include <fmt/format.h>

#include "apps/quire/commands/doctor/checks.h"
#include "base/machine.h"
#include "base/options.h"

namespace quire::doctor {

Findings check_config(const std::string& file, const char* const* environ) {
    ConfigSources sources;
    sources.environment = quire_environment(environ);
    sources.file_name = file;
    const std::string subject =
        file.empty() ? fmt::format("{} QUIRE_ variables", sources.environment.size()) : file;
    if (!file.empty()) {
        auto text = read_config_file(file);
        if (!text.ok())
            return {failure("configuration", text.error().message, "give its path with --config")};
        sources.file_text = std::move(text).value();
    }
    auto config = Config::load(serve_option_table(), sources);
    if (!config.ok())
        return {
            failure("configuration", config.error().message, "all options: quire serve --help")};
    auto options = serve_options(*config, machine_memory_bytes());
    if (options.ok()) return {good("configuration", subject + ": valid")};
    // A model may still come from the command line.
    if (config->text("model").empty() && options.error().message.find('\n') == std::string::npos &&
        options.error().message.find("model") != std::string::npos)
        return {good("configuration", subject + ": valid, the model is left to the command line")};
    return {failure("configuration", options.error().message, "all options: quire serve --help")};
}

}  // namespace quire::doctor
