// Encoding on one core over a plain copy of the same numbers as 16-bit bytes; the lossless codec
// beside zstd; the cold codec beside computing the same tokens anew.
#include <fmt/format.h>

#include "bench/bx_speed.h"
#include "bench/cases/cases.h"
#include "bench/codec_speed.h"
#include "bench/ec_speed.h"

namespace quire::bench {
namespace {

struct Bar {
    const char* codec;
    double share;
};
constexpr Bar kBars[] = {{"k8v8", 0.1}, {"k4v4", 0.04}, {"k4v3", 0.04}};
constexpr double kBxSpeed = 1.5;  // packing and unpacking over zstd level 1
constexpr const char* kOthers[] = {"raw16", "fp8_e4m3_token", "k6v4", "k3v2"};

// On made-up numbers; `quire eval --caches bx` has its bits on a model's own.
void add_bx(const BxSpeed& speed, uint32_t head_dim, std::vector<BarRow>* rows) {
    const auto name = [&](const char* what) {
        return fmt::format("{}, head_dim {}, over zstd 1 ({})", what, head_dim, speed.isa);
    };
    rows->push_back(paired_row(name("pack bx"), "GB/s", speed.bx.pack * 1e-9,
                               speed.zstd.pack * 1e-9, speed.pack_ratio, Comparison::at_least,
                               kBxSpeed));
    rows->push_back(paired_row(name("unpack bx"), "GB/s", speed.bx.unpack * 1e-9,
                               speed.zstd.unpack * 1e-9, speed.unpack_ratio, Comparison::at_least,
                               kBxSpeed));
    rows->push_back(info_row(name("bits of bx"), "bits", speed.bx.bits, speed.zstd.bits));
}

constexpr double kEcDecodeAlone = 60, kEcDecode = 20, kEcEncode = 20;

Result<std::vector<BarRow>> ec_rows(const BenchOptions& options, const BenchModel& model) {
    options.progress(model.name + ": ec beside prefill");
    const auto speed = measure_ec(options, model);
    if (!speed.ok()) return speed.error();
    std::vector<BarRow> rows;
    const auto add = [&](const char* what, const EcRates& rates, double rate, double ratio,
                         double bar) {
        rows.push_back(paired_row(fmt::format("{}: ec {}, {:.2f} bits, over prefill, one core ({})",
                                              model.name, what, rates.bits, speed->isa),
                                  "tok/s", rate, speed->prefill, ratio, Comparison::at_least, bar));
    };
    const EcRates &alone = speed->alone, &foretold = speed->foretold;
    add("decode, no prediction", alone, alone.decode, alone.decode_ratio, kEcDecodeAlone);
    add("decode, prediction", foretold, foretold.decode, foretold.decode_ratio, kEcDecode);
    add("encode, prediction", foretold, foretold.encode, foretold.encode_ratio, kEcEncode);
    return rows;
}

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
    for (const uint32_t head_dim : {64u, 128u, 256u}) {
        options.progress(fmt::format("bx and zstd, head_dim {}", head_dim));
        const auto speed =
            measure_bx({.head_dim = head_dim, .repeats = options.repeats, .quick = options.quick,
                        .isa = options.attention->isa});
        if (!speed.ok()) return speed.error();
        add_bx(*speed, head_dim, &rows);
    }
    for (const BenchModel& model : options.models)
        append(rows, model.name + ": ec over prefill", ec_rows(options, model));
    return rows;
}

}  // namespace quire::bench
