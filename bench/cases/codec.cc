// Encoding on one core over a plain copy of the same numbers as 16-bit bytes.
#include <fmt/format.h>

#include "bench/cases/cases.h"
#include "bench/codec_speed.h"

namespace quire::bench {
namespace {

struct Bar {
    const char* codec;
    double share;
};
constexpr Bar kBars[] = {{"k8v8", 0.1}, {"k4v4", 0.04}, {"k4v3", 0.04}};
constexpr const char* kOthers[] = {"raw16", "fp8_e4m3_token", "k6v4", "k3v2"};

}  // namespace

Result<std::vector<BarRow>> run_codec(const BenchOptions& options) {
    std::vector<BarRow> rows;
    const auto measure = [&](const char* name, uint32_t head_dim) {
        options.progress(fmt::format("encoding {}, head_dim {}", name, head_dim));
        const codec::CodecSpec spec = *codec::find_codec(name);
        return measure_codec(spec, codec::best_ops(codec::row_of(spec)),
                             {.geometry = {.head_dim = head_dim},
                              .repeats = options.repeats,
                              .quick = options.quick});
    };
    for (const uint32_t head_dim : {64u, 128u, 256u})
        for (const Bar& bar : kBars) {
            const auto speed = measure(bar.codec, head_dim);
            if (!speed.ok()) return speed.error();
            rows.push_back(paired_row(
                fmt::format("encode {}, head_dim {} ({})", bar.codec, head_dim, speed->isa), "GB/s",
                speed->encode * 1e-9, speed->copy * 1e-9, speed->encode_share, Comparison::at_least,
                bar.share));
        }
    for (const char* name : kOthers) {
        const auto speed = measure(name, 128);
        if (!speed.ok()) return speed.error();
        rows.push_back(info_row(fmt::format("encode {}, head_dim 128 ({})", name, speed->isa),
                                "GB/s", speed->encode * 1e-9, speed->copy * 1e-9));
    }
    return rows;
}

}  // namespace quire::bench
