#include "base/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/machine.h"
#include "base/regular_file.h"
#include "base/units.h"

namespace quire {
namespace {

constexpr std::string_view kLearn = "learn:";
constexpr std::string_view kDefaultTenant = "default";
constexpr size_t kTenantMax = 64;
constexpr uint64_t kKeyFileBytesMax = uint64_t{1} << 20;
constexpr uint32_t kThreadsPerCoreMax = 4;
constexpr uint32_t kCodedBlockTokens = 64;

IsaChoice isa_of(std::string_view name) {
    if (name == "ref") return IsaChoice::ref;
    if (name == "avx2") return IsaChoice::avx2;
    return name == "avx512" ? IsaChoice::avx512 : IsaChoice::automatic;
}

bool is_tenant(std::string_view name) {
    return !name.empty() && name.size() <= kTenantMax &&
           std::ranges::all_of(name, [](unsigned char c) {
               return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
           });
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())))
            line.pop_back();
        if (!line.empty() && line.front() != '#') lines.push_back(line);
    }
    return lines;
}

// Fills a ServeOptions and notes what does not fit.
class Builder {
 public:
    Builder(const Config& config, uint64_t machine_bytes, std::string_view command)
        : config_(config), machine_(machine_bytes), command_(command) {}

    Result<ServeOptions> build() {
        copy_plain();
        check_memory();
        take_disk();
        take_keys();
        if (out_.model_path.empty())
            note(fmt::format("no model given; name a GGUF file: quire {} MODEL.gguf", command_));
        check_threads();
        if (out_.block_tokens % 16 != 0)
            note(fmt::format("block-tokens must be a multiple of 16, not {}", out_.block_tokens));
        check_codec();
        if (!is_loopback(out_.host) && out_.api_keys.empty())
            note(fmt::format(
                "listening on {} without a key would open the server to the network; give "
                "--api-keys KEY=TENANT, or use --host 127.0.0.1",
                out_.host));
        if (!problems_.empty())
            return make_error(Code::invalid, fmt::format("{}", fmt::join(problems_, "\n")));
        return std::move(out_);
    }

 private:
    uint32_t small(std::string_view key) const {
        return static_cast<uint32_t>(config_.integer(key));
    }

    void copy_plain() {
        out_.model_path = config_.text("model");
        out_.model_name = config_.text("model_name");
        out_.host = config_.text("host");
        out_.port = static_cast<uint16_t>(config_.integer("port"));
        out_.metrics_key = config_.boolean("metrics_key");
        out_.cache = config_.boolean("cache");
        out_.kv_memory_bytes = config_.size("kv_memory");
        out_.host_memory_bytes = config_.size("host_memory");
        out_.block_tokens = small("block_tokens");
        out_.kv_codec = config_.text("kv_codec");
        out_.kv_codecs_allowed = config_.list("kv_codec_allow");
        out_.kv_sinks = small("kv_sinks");
        out_.kv_recent_tokens = small("kv_recent_tokens");
        copy_skip_layers();
        copy_dtype();
        out_.kv_schedule = config_.text("kv_schedule");
        copy_sidecar();
        out_.kv_codec_host = config_.text("kv_codec_host");
        out_.kv_codec_cold = config_.text("kv_codec_cold");
        out_.cold_cpu_percent = small("cold_cpu");
        out_.unpack_threads = small("cold_unpack_threads");
        out_.evict = config_.text("evict");
        out_.admit_host = config_.text("admit_host");
        out_.admit_disk = config_.text("admit_disk");
        out_.write_through_host = config_.boolean("write_through_host");
        out_.write_through_disk = config_.boolean("write_through_disk");
        out_.threads = small("threads") == 0 ? machine_cores() : small("threads");
        out_.context_tokens = small("context");
        out_.step_tokens = small("step_tokens");
        out_.max_running = small("max_running");
        out_.max_queue = small("max_queue");
        out_.isa = isa_of(config_.text("isa"));
        out_.request_timeout_ns = config_.duration_ns("request_timeout");
        out_.drain_timeout_ns = config_.duration_ns("drain_timeout");
        out_.body_limit_bytes = config_.size("body_limit");
        out_.header_limit_bytes = config_.size("header_limit");
        out_.log_level = *log::parse_level(config_.text("log_level"));
        out_.log_json = config_.boolean("log_json");
    }

    void copy_dtype() {
        const std::string& name = config_.text("kv_dtype");
        out_.kv_bf16 = name == "bf16";
        if (name != "f16" && name != "bf16")
            note(fmt::format("kv-dtype is f16 or bf16, not '{}'", name));
    }

    void copy_sidecar() {
        out_.kv_sidecar = config_.text("kv_sidecar");
        const bool learn = out_.kv_sidecar.starts_with(kLearn);
        if (!learn && !config_.is_default("kv_learn_tokens"))
            note("kv-learn-tokens is of use with kv-sidecar learn:FILE only");
        if (!learn) return;
        out_.kv_sidecar.erase(0, kLearn.size());
        out_.kv_learn_tokens = small("kv_learn_tokens");
        if (out_.kv_sidecar.empty()) note("kv-sidecar learn: names no file; give learn:FILE");
    }

    void copy_skip_layers() {
        for (const std::string& text : config_.list("kv_skip_layers")) {
            uint32_t layer = 0;
            const char* end = text.data() + text.size();
            const auto read = std::from_chars(text.data(), end, layer);
            if (read.ec == std::errc() && read.ptr == end)
                out_.kv_skip_layers.push_back(layer);
            else
                note(fmt::format(
                    "kv-skip-layers takes numbers of layers, such as 0,29; '{}' is none", text));
        }
    }

    void check_memory() {
        const uint64_t wanted = out_.kv_memory_bytes + out_.host_memory_bytes;
        if (wanted <= machine_) return;
        note(fmt::format(
            "kv-memory {} ({}) and host-memory {} ({}) together exceed this machine's memory "
            "of {}; make them smaller",
            exact_size(out_.kv_memory_bytes), config_.origin("kv_memory"),
            exact_size(out_.host_memory_bytes), config_.origin("host_memory"),
            format_bytes(machine_)));
    }

    // Which codecs there are is known below; what they have in common is checked here.
    void check_codec() {
        std::vector<std::string> names = out_.kv_codecs_allowed;
        names.push_back(out_.kv_codec);
        const auto is_plain = [](const std::string& name) {
            return name.empty() || name == "raw16";
        };
        const bool plain = std::ranges::any_of(names, is_plain);
        const bool coded = !std::ranges::all_of(names, is_plain);
        if (!plain && !config_.is_default("block_tokens") && out_.block_tokens != kCodedBlockTokens)
            note(fmt::format("with kv-codec {} a block has {} tokens; give no block-tokens",
                             out_.kv_codec, kCodedBlockTokens));
        if (out_.kv_codec.empty()) note("kv-codec is empty; raw16 writes 16 bits");
        const bool packed_host = out_.kv_codec_host != "none";
        const bool packed = packed_host || out_.kv_codec_cold != "none";
        const bool lossy =
            out_.kv_codec_host.starts_with("ec:") || out_.kv_codec_cold.starts_with("ec:");
        if (!coded && !lossy && !config_.is_default("kv_sinks"))
            note(
                "kv-sinks is of use with a kv-codec, or with ec:BITS as kv-codec-host or "
                "kv-codec-cold, only; name one, such as k8v8");
        if (!coded && !config_.is_default("kv_recent_tokens"))
            note("kv-recent-tokens is of use with a kv-codec only; name one, such as k8v8");
        if (out_.kv_recent_tokens % kCodedBlockTokens != 0)
            note(fmt::format("kv-recent-tokens must be a multiple of {}, not {}", kCodedBlockTokens,
                             out_.kv_recent_tokens));
        if (!coded && !config_.is_default("kv_skip_layers"))
            note("kv-skip-layers is of use with a kv-codec only; name one, such as k8v8");
        if (!out_.kv_schedule.empty() && std::ranges::find(names, "schedule") == names.end())
            note("kv-schedule is of use with kv-codec schedule only; name that");
        if (out_.kv_sinks % kCodedBlockTokens != 0)
            note(fmt::format("kv-sinks must be a multiple of {}, not {}", kCodedBlockTokens,
                             out_.kv_sinks));
        // ec reads its tables once for a block, and a slab has a header of 4 KiB.
        if (lossy && plain && config_.is_default("block_tokens"))
            out_.block_tokens = kCodedBlockTokens;
        if (!coded && !packed && !out_.kv_sidecar.empty())
            note(
                "kv-sidecar is of use with a kv-codec, a kv-codec-host or a kv-codec-cold only; "
                "name one, such as k8v8");
        check_packing(packed_host, packed);
    }

    void check_packing(bool packed_host, bool packed) {
        if (out_.kv_codec_host.empty()) note("kv-codec-host is empty; none packs nothing");
        if (out_.kv_codec_cold.empty()) note("kv-codec-cold is empty; none packs nothing");
        if (packed_host && out_.host_memory_bytes == 0)
            note("kv-codec-host is of host memory, and host-memory is 0; give it some");
        if (out_.kv_codec_cold != "none" && config_.is_default("disk"))
            note("kv-codec-cold is of the disk tier; name its directory with --disk DIR");
        if (!packed && !config_.is_default("cold_unpack_threads"))
            note(
                "cold-unpack-threads is of use with a kv-codec-host or a kv-codec-cold only; name "
                "one, such as zstd");
        if (!packed && !config_.is_default("cold_cpu"))
            note(
                "cold-cpu is of use with a kv-codec-host or a kv-codec-cold only; name one, such "
                "as zstd");
    }

    // Threads that compute wait for each other at every step, busily: many more than cores would
    // not slow it down a little but stop it.
    void check_threads() {
        const uint32_t most = kThreadsPerCoreMax * machine_cores();
        if (out_.threads <= most) return;
        note(
            fmt::format("threads {} ({}) is far more than this machine's {} cores; give at most "
                        "{}, or 0 for one per core",
                        out_.threads, config_.origin("threads"), machine_cores(), most));
    }

    void take_disk() {
        if (config_.text("disk").empty()) return;
        const Result<DiskOption> disk = parse_disk_option(config_.text("disk"));
        if (!disk.ok()) return note(config_.origin("disk") + ": " + disk.error().message);
        out_.disk_path = disk->path;
        out_.disk_bytes = disk->bytes;
    }

    void take_keys() {
        std::vector<std::string> entries = config_.list("api_keys");
        if (entries.empty() && given("api_keys")) return note_no_key("api-keys", "api_keys");
        if (given("api_keys_file")) {
            const std::string& path = config_.text("api_keys_file");
            const Result<std::string> text =
                read_regular_file(path, "the API key file", kKeyFileBytesMax);
            if (!text.ok()) return note(text.error().message);
            std::vector<std::string> lines = lines_of(*text);
            if (lines.empty()) return note_no_key("the API key file " + path, "api_keys_file");
            std::ranges::move(lines, std::back_inserter(entries));
        }
        std::set<std::string> seen;
        for (size_t i = 0; i < entries.size(); ++i) {
            const Result<ApiKeyOption> key = parse_api_key_option(entries[i]);
            if (!key.ok())
                note(fmt::format("API key number {}: {}", i + 1, key.error().message));
            else if (!seen.insert(key->key).second)
                note(fmt::format("API key number {} was given before", i + 1));
            else
                out_.api_keys.push_back(*key);
        }
    }

    bool given(std::string_view key) const { return !config_.is_default(key); }

    // Whoever names keys wants them asked for: none is not the same as no such option.
    void note_no_key(const std::string& where, std::string_view key) {
        note(fmt::format("{} ({}) names no key; give at least one KEY=TENANT, or leave it out",
                         where, config_.origin(key)));
    }

    void note(std::string problem) { problems_.push_back(std::move(problem)); }

    const Config& config_;
    uint64_t machine_;
    std::string_view command_;
    ServeOptions out_;
    std::vector<std::string> problems_;
};

}  // namespace

Result<ServeOptions> serve_options(const Config& config, uint64_t machine_bytes,
                                   std::string_view command) {
    return Builder(config, machine_bytes, command).build();
}

std::string config_file_name(const std::vector<ConfigEntry>& flags,
                             const std::vector<ConfigEntry>& environment) {
    for (const ConfigEntry& flag : flags)
        if (flag.key == "config") return flag.value;
    for (const ConfigEntry& variable : environment)
        if (variable.key == "QUIRE_CONFIG") return variable.value;
    return {};
}

Result<DiskOption> parse_disk_option(std::string_view text) {
    DiskOption disk{std::string(text), kDefaultDiskBytes};
    const size_t colon = text.rfind(':');
    if (colon != text.npos && text.find('/', colon) == text.npos) {
        const Result<uint64_t> bytes = parse_size(text.substr(colon + 1));
        if (!bytes.ok())
            return make_error(Code::invalid,
                              fmt::format("disk: {}, or end a folder with that name with '/': {}/",
                                          bytes.error().message, text));
        disk = {std::string(text.substr(0, colon)), *bytes};
    }
    if (disk.path.empty())
        return make_error(Code::invalid, "disk: no folder given; write DIR:64GiB");
    if (disk.path.starts_with("~"))  // shells expand it, but not in files and not behind an =
        return make_error(Code::invalid, "disk: '~' in '" + disk.path +
                                             "' is not expanded here; write the folder in full");
    if (disk.bytes < kMinDiskBytes)
        return make_error(Code::invalid,
                          fmt::format("disk: {} is too small; at least {} is needed",
                                      exact_size(disk.bytes), exact_size(kMinDiskBytes)));
    return disk;
}

Result<ApiKeyOption> parse_api_key_option(std::string_view text) {
    const size_t equals = text.rfind('=');
    const std::string_view key = text.substr(0, equals);
    const std::string_view tenant = equals == text.npos ? kDefaultTenant : text.substr(equals + 1);
    const bool printable =
        std::ranges::all_of(key, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
    if (key.empty() || !printable)
        return make_error(Code::invalid, "a key must be printable ASCII without blanks");
    if (!is_tenant(tenant))
        return make_error(Code::invalid,
                          "the tenant after '=' must be 1 to 64 letters, digits, '.', '_' or '-'");
    return ApiKeyOption{std::string(key), std::string(tenant)};
}

bool is_loopback(std::string_view host) {
    const std::string text(host);
    in_addr v4{};
    if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
    return host == "::1" || host == "localhost";
}

}  // namespace quire
