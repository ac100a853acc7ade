// Caches of other engines, as their own code or papers define them, on the same spans. Formulas:
// llama.cpp's block formats through ggml's quantisers; KIVI (arXiv 2402.02750): keys per channel
// over groups of 32 tokens, values per token over groups of 32 numbers, both with a minimum;
// per-token-head integers without rotation. Formats of others that are codecs of ours are those
// codecs.
#include <algorithm>
#include <cmath>
#include <functional>

#include <ggml-cpu.h>
#include <ggml.h>

#include "bench/eval/candidate.h"
#include "bench/eval/kvarn.h"
#include "codec/hot/rotate.h"

namespace quire::bench {
namespace {

// `row` of n numbers, in place.
using RowCoder = std::function<void(float* row, uint32_t n)>;

RowCoder rotated(RowCoder inner) {
    return [inner](float* row, uint32_t n) {
        codec::hot::ref_rotate(row, n);
        inner(row, n);
        codec::hot::ref_rotate(row, n);
    };
}

RowCoder by_ggml(ggml_type type) {
    return [type](float* row, uint32_t n) {
        std::vector<std::byte> coded(ggml_row_size(type, n));
        ggml_get_type_traits_cpu(type)->from_float(row, coded.data(), n);
        ggml_get_type_traits(type)->to_float(coded.data(), row, n);
    };
}

float half(float x) {
    return ggml_fp16_to_fp32(ggml_fp32_to_fp16(x));
}

RowCoder symmetric(int bits) {
    return [bits](float* row, uint32_t n) {
        const auto top = static_cast<float>((1 << (bits - 1)) - 1);
        float largest = 0;
        for (uint32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(row[i]));
        const float scale = std::max(half(largest / top), 1e-7f);
        for (uint32_t i = 0; i < n; ++i)
            row[i] = std::clamp(std::nearbyint(row[i] / scale), -top - 1, top) * scale;
    };
}

// Minimum and step in float16, over `count` numbers `stride` apart.
void with_minimum(float* at, uint32_t count, uint32_t stride, int bits) {
    float low = at[0];
    float high = at[0];
    for (uint32_t i = 1; i < count; ++i) {
        low = std::min(low, at[i * stride]);
        high = std::max(high, at[i * stride]);
    }
    const auto top = static_cast<float>((1 << bits) - 1);
    const float step = std::max(half((high - low) / top), 1e-8f);
    low = half(low);
    for (uint32_t i = 0; i < count; ++i) {
        float& x = at[i * stride];
        x = std::clamp(std::floor((x - low) / step + 0.5f), 0.0f, top) * step + low;
    }
}

class RowPeer final : public Candidate {
 public:
    RowPeer(std::string name, double bits, double row_bits, RowCoder k, RowCoder v)
        : name_(std::move(name)), bits_(bits), row_bits_(row_bits), k_(k), v_(v) {}
    std::string name() const override { return name_; }
    double bits(uint32_t head_dim) const override { return bits_ + row_bits_ / head_dim; }
    bool reference() const override { return true; }
    void apply(const KvSpan& s) const override {
        for (uint32_t t = 0; t < s.tokens; ++t) {
            k_(s.k + size_t{t} * s.head_dim, s.head_dim);
            v_(s.v + size_t{t} * s.head_dim, s.head_dim);
        }
    }

 private:
    std::string name_;
    double bits_, row_bits_;
    RowCoder k_, v_;
};

class Kivi final : public Candidate {
 public:
    explicit Kivi(int bits) : width_(bits) {}
    std::string name() const override { return "kivi" + std::to_string(width_); }
    double bits(uint32_t) const override { return width_ + 32.0 / kGroup; }
    bool reference() const override { return true; }
    void apply(const KvSpan& s) const override {
        for (uint32_t t = 0; t + kGroup <= s.tokens; t += kGroup)
            for (uint32_t d = 0; d < s.head_dim; ++d)
                with_minimum(s.k + size_t{t} * s.head_dim + d, kGroup, s.head_dim, width_);
        for (size_t i = 0; i + kGroup <= size_t{s.tokens} * s.head_dim; i += kGroup)
            with_minimum(s.v + i, kGroup, 1, width_);
    }

 private:
    static constexpr uint32_t kGroup = 32;
    int width_;
};

struct PeerRow {
    const char* name;
    double bits;      // of a number
    double row_bits;  // of a row's own scales
    std::function<RowCoder()> k, v;
};

const std::vector<PeerRow>& peer_table() {
    const auto both = [](const char* name, double bits, double row_bits,
                         std::function<RowCoder()> f) {
        return PeerRow{name, bits, row_bits, f, f};
    };
    static const std::vector<PeerRow> kTable = {
        both("q8_0", 8.5, 0, [] { return by_ggml(GGML_TYPE_Q8_0); }),
        both("q8_0:rotated", 8.5, 0, [] { return rotated(by_ggml(GGML_TYPE_Q8_0)); }),
        both("q5_1", 6, 0, [] { return by_ggml(GGML_TYPE_Q5_1); }),
        both("q4_0", 4.5, 0, [] { return by_ggml(GGML_TYPE_Q4_0); }),
        both("q4_0:rotated", 4.5, 0, [] { return rotated(by_ggml(GGML_TYPE_Q4_0)); }),
        both("int8_token", 8, 16, [] { return symmetric(8); }),
        both("int4_token", 4, 16, [] { return symmetric(4); }),
    };
    return kTable;
}

// Codecs of ours that are others' formats.
constexpr const char* kFormats[] = {"nvfp4",
                                    "nvfp4_4over6",
                                    "mxfp4",
                                    "turboquant_k8v4",
                                    "turboquant_4bit_nc",
                                    "turboquant_k3v4_nc",
                                    "turboquant_3bit_nc"};

}  // namespace

std::unique_ptr<Candidate> peer_candidate(const std::string& name) {
    for (const char* format : kFormats)
        if (name == format) return format_candidate(name);
    if (name == "kivi4") return std::make_unique<Kivi>(4);
    if (name == "kivi2") return std::make_unique<Kivi>(2);
    if (name == "kvarn_k4v4") return kvarn_candidate(4, 4);
    if (name == "kvarn_k4v2") return kvarn_candidate(4, 2);
    for (const PeerRow& row : peer_table())
        if (name == row.name)
            return std::make_unique<RowPeer>(row.name, row.bits, row.row_bits, row.k(), row.v());
    return nullptr;
}

std::vector<std::string> peer_names() {
    std::vector<std::string> names = {"kivi4", "kivi2", "kvarn_k4v4", "kvarn_k4v2"};
    for (const PeerRow& row : peer_table()) names.emplace_back(row.name);
    names.insert(names.end(), std::begin(kFormats), std::end(kFormats));
    return names;
}

}  // namespace quire::bench
