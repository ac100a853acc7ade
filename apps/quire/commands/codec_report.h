// What `quire codec` prints, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "bench/bars.h"
#include "bench/codec_speed.h"
#include "codec/codec_table.h"

namespace quire::commands {

// One codec on one shape; or why it does not fit.
struct CodecLine {
    codec::CodecSpec spec;
    codec::Geometry geometry;
    std::string refusal;  // empty: it fits
};

// What the columns of both lists mean, for --help and the long one.
std::string codec_list_legend();
// A line a family: what its members cost on that shape.
std::string codec_families_text(const codec::Geometry& geometry);
// A line a codec.
std::string codec_list_text(const std::vector<CodecLine>& lines);
std::string codec_list_json(const std::vector<CodecLine>& lines);

struct CodecBenchResult {
    codec::Geometry geometry;
    std::vector<bench::CodecSpeed> speeds;
    std::vector<bench::BarRow> bars;
};
std::string codec_bench_text(const CodecBenchResult& result);
std::string codec_bench_json(const CodecBenchResult& result);

// One set of pages, against one instruction set.
struct CodecCheck {
    std::string codec;
    uint32_t head_dim = 0;
    std::string isa;
    std::string problem;  // empty: byte for byte the same
};
std::string codec_verify_text(const std::vector<CodecCheck>& checks);
std::string codec_verify_json(const std::vector<CodecCheck>& checks);

}  // namespace quire::commands
