#include "bench/llama_peer.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "bench/subprocess.h"

namespace fs = std::filesystem;

namespace quire::bench {
namespace {

using Json = nlohmann::json;
constexpr int64_t kPeerWait_ns = int64_t{900} * 1'000'000'000;

Result<double> rate_of(const Json& result, const char* name, const char* program) {
    const double rate = result.is_object() ? result.value(name, 0.0) : 0.0;
    if (rate > 0) return rate;
    return make_error(Code::io, std::string(program) + " printed no " + name);
}

}  // namespace

Result<double> parse_llama_bench(std::string_view json) {
    const Json list = Json::parse(json, nullptr, false);
    const bool any = list.is_array() && !list.empty() && list[0].is_object();
    return rate_of(
        any && list[0].contains("avg_ts") && list[0]["avg_ts"].is_number() ? list[0] : Json(),
        "avg_ts", "llama-bench");
}

Result<double> parse_batched_bench(std::string_view jsonl) {
    while (!jsonl.empty()) {
        const size_t end = std::min(jsonl.find('\n'), jsonl.size());
        const Json line = Json::parse(jsonl.substr(0, end), nullptr, false);
        if (line.is_object() && line.contains("speed_tg") && line["speed_tg"].is_number())
            return rate_of(line, "speed_tg", "llama-batched-bench");
        jsonl.remove_prefix(std::min(end + 1, jsonl.size()));
    }
    return rate_of({}, "speed_tg", "llama-batched-bench");
}

Result<LlamaPeer> LlamaPeer::find(const std::string& llama_bench, uint32_t threads) {
    const std::string path =
        llama_bench.empty() ? std::string(QUIRE_LLAMA_PREFIX) + "/bin/llama-bench" : llama_bench;
    std::error_code error;
    for (const fs::path& file :
         {fs::path(path), fs::path(path).parent_path() / "llama-batched-bench"})
        if (!fs::is_regular_file(file, error))
            return make_error(Code::io,
                              file.string() +
                                  " is missing: run tools/deps llama, or name llama-bench "
                                  "with --llama-bench");
    return LlamaPeer(path, threads);
}

Result<double> LlamaPeer::prefill(const std::string& model, uint32_t n_tokens) const {
    auto output = run_program({bench_, "-m", model, "-p", std::to_string(n_tokens), "-n", "0", "-t",
                               std::to_string(threads_), "-fa", "1", "-r", "1", "-o", "json"},
                              kPeerWait_ns);
    if (!output.ok()) return output.error();
    return parse_llama_bench(*output);
}

Result<double> LlamaPeer::decode(const std::string& model, uint32_t depth, uint32_t n_tokens,
                                 const std::string& cache) const {
    auto output = run_program({bench_,
                               "-m",
                               model,
                               "-p",
                               "0",
                               "-n",
                               std::to_string(n_tokens),
                               "-d",
                               std::to_string(depth),
                               "-t",
                               std::to_string(threads_),
                               "-fa",
                               "1",
                               "-ctk",
                               cache,
                               "-ctv",
                               cache,
                               "-r",
                               "1",
                               "-o",
                               "json"},
                              kPeerWait_ns);
    if (!output.ok()) return output.error();
    return parse_llama_bench(*output);
}

Result<double> LlamaPeer::batched_decode(const std::string& model, uint32_t sequences,
                                         uint32_t depth, uint32_t n_tokens) const {
    const std::string program = (fs::path(bench_).parent_path() / "llama-batched-bench").string();
    const uint64_t context = uint64_t{sequences} * (depth + n_tokens + 16);
    auto output = run_program({program,
                               "-m",
                               model,
                               "-c",
                               std::to_string(context),
                               "-b",
                               "2048",
                               "-ub",
                               "512",
                               "-npp",
                               std::to_string(depth),
                               "-ntg",
                               std::to_string(n_tokens),
                               "-npl",
                               std::to_string(sequences),
                               "-fa",
                               "on",
                               "-t",
                               std::to_string(threads_),
                               "-tb",
                               std::to_string(threads_),
                               "--output-format",
                               "jsonl"},
                              kPeerWait_ns);
    if (!output.ok()) return output.error();
    return parse_batched_bench(*output);
}

}  // namespace quire::bench
