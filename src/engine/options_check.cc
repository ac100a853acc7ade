#include "engine/options_check.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "base/writable_place.h"
#include "codec/codec_names.h"
#include "codec/sidecar.h"
#include "engine/model/cold_packing.h"
#include "engine/model/schedule_file.h"

namespace quire {
namespace {

Status about(const std::string& option, Status status) {
    if (status.ok()) return status;
    Error error = std::move(status).error();
    error.message = option + ": " + error.message;
    return error;
}

Status check_names(const EngineOptions& options) {
    QUIRE_TRY(about("--kv-codec", codec::check_page_codec(options.kv_codec)));
    for (const std::string& name : options.kv_codecs_allowed)
        QUIRE_TRY(about("--kv-codec-allow", codec::check_page_codec(name)));
    QUIRE_TRY(about("--kv-codec-host", codec::check_packing(options.kv_codec_host)));
    return about("--kv-codec-cold", codec::check_packing(options.kv_codec_cold));
}

Status check_sidecar_file(const EngineOptions& options) {
    if (options.kv_sidecar.empty()) return {};
    std::error_code unknown;
    const bool to_be_learned = options.kv_learn_tokens > 0 &&
                               !std::filesystem::exists(options.kv_sidecar, unknown) && !unknown;
    if (to_be_learned)
        return about("--kv-sidecar learn:" + options.kv_sidecar,
                     check_writable_place(options.kv_sidecar));
    const auto read = codec::read_sidecar(options.kv_sidecar);
    return read.ok() ? Status() : about("--kv-sidecar", read.error());
}

}  // namespace

Status check_options(const EngineOptions& options) {
    QUIRE_TRY(check_names(options));
    QUIRE_TRY(check_sidecar_file(options));
    if (options.kv_schedule.empty()) return {};
    const auto read = read_schedule(options.kv_schedule, std::nullopt);
    return read.ok() ? Status() : about("--kv-schedule", read.error());
}

}  // namespace quire
