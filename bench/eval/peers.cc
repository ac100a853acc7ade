// Caches of other engines, as their own code or papers define them, on the same spans. Formulas:
// llama.cpp's block formats through ggml's quantisers; KIVI (arXiv 2402.02750): keys per channel
// over groups of 32 tokens, values per token over groups of 32 numbers, both with a minimum;
// per-token-head integers without rotation; NVFP4: 4-bit floats (0, .5, 1, 1.5, 2, 3, 4, 6) in
// groups of 16 with an e4m3 scale, and its variant that tries 4 as the largest number too; vLLM's
// TurboQuant presets: keys rotated and coded with Lloyd-Max levels at the key's norm, values per
// token with a minimum.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include <ggml-cpu.h>
#include <ggml.h>

#include "bench/eval/candidate.h"

namespace quire::bench {
namespace {

// `row` of n numbers, in place.
using RowCoder = std::function<void(float* row, uint32_t n)>;

void hadamard(float* row, uint32_t n) {
    const uint32_t block = n & (0 - n);  // the largest power of two that divides n
    for (uint32_t h = 1; h < block; h *= 2)
        for (uint32_t i = 0; i < n; i += 2 * h)
            for (uint32_t j = i; j < i + h; ++j) {
                const float a = row[j];
                const float b = row[j + h];
                row[j] = a + b;
                row[j + h] = a - b;
            }
    const float scale = 1.0f / std::sqrt(static_cast<float>(block));
    for (uint32_t i = 0; i < n; ++i) row[i] *= scale;
}

RowCoder rotated(RowCoder inner) {
    return [inner](float* row, uint32_t n) {
        hadamard(row, n);
        inner(row, n);
        hadamard(row, n);
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

float e2m1(float x) {
    constexpr float kLevels[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    const float size = std::fabs(x);
    float best = 0;
    for (const float level : kLevels)
        if (std::fabs(size - level) < std::fabs(size - best)) best = level;
    return std::copysign(best, x);
}

float e4m3(float x) {
    if (!(x > 0)) return 0;
    x = std::min(x, 448.0f);
    const int exponent = std::max(static_cast<int>(std::floor(std::log2(x))), -6);
    const float step = std::ldexp(1.0f, exponent - 3);
    return std::min(std::nearbyint(x / step) * step, 448.0f);
}

// Groups of 16; the row's own scale in float32 brings group scales into e4m3's range.
RowCoder nvfp4(bool four_over_six) {
    return [four_over_six](float* row, uint32_t n) {
        float largest = 0;
        for (uint32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(row[i]));
        const float whole = std::max(largest / (6.0f * 448.0f), 1e-20f);
        for (uint32_t g = 0; g < n; g += 16) {
            float top = 0;
            for (uint32_t i = g; i < g + 16; ++i) top = std::max(top, std::fabs(row[i]));
            float best[16] = {};
            float best_error = INFINITY;
            for (const float divisor : {6.0f, 4.0f}) {
                if (divisor < 6 && !four_over_six) continue;
                const float scale = std::max(e4m3(top / divisor / whole), 0x1p-9f) * whole;
                float coded[16];
                float error = 0;
                for (uint32_t i = 0; i < 16; ++i) {
                    coded[i] = e2m1(row[g + i] / scale) * scale;
                    error += (coded[i] - row[g + i]) * (coded[i] - row[g + i]);
                }
                if (error < best_error) {
                    best_error = error;
                    std::memcpy(best, coded, sizeof best);
                }
            }
            std::memcpy(row + g, best, sizeof best);
        }
    };
}

// Lloyd-Max levels of the normal distribution (positive half), as vLLM's codebooks.
RowCoder lloyd_norm(int bits) {
    static const std::vector<float> kThree = {.245094f, .756005f, 1.343909f, 2.151946f};
    static const std::vector<float> kFour = {.128395f,  .388048f,  .656759f,  .942340f,
                                             1.256231f, 1.618046f, 2.069017f, 2.732590f};
    const std::vector<float>& levels = bits == 3 ? kThree : kFour;
    return [&levels](float* row, uint32_t n) {
        double norm = 0;
        for (uint32_t i = 0; i < n; ++i) norm += double{row[i]} * row[i];
        norm = std::sqrt(norm);
        if (norm == 0) return;
        const auto unit = static_cast<float>(std::sqrt(static_cast<double>(n)) / norm);
        double coded_norm = 0;
        for (uint32_t i = 0; i < n; ++i) {
            const float size = std::fabs(row[i] * unit);
            float best = levels[0];
            for (const float level : levels)
                if (std::fabs(size - level) < std::fabs(size - best)) best = level;
            row[i] = std::copysign(best, row[i]);
            coded_norm += double{best} * best;
        }
        // "nc": the coded row gets the key's own norm, kept in float16.
        const auto scale =
            static_cast<float>(double{half(static_cast<float>(norm))} / std::sqrt(coded_norm));
        for (uint32_t i = 0; i < n; ++i) row[i] *= scale;
    };
}

RowCoder with_row_minimum(int bits) {
    return [bits](float* row, uint32_t n) { with_minimum(row, n, 1, bits); };
}

RowCoder fp8_plain() {
    return [](float* row, uint32_t n) {
        for (uint32_t i = 0; i < n; ++i) row[i] = std::copysign(e4m3(std::fabs(row[i])), row[i]);
    };
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
        both("nvfp4", 4.5, 0, [] { return nvfp4(false); }),
        both("nvfp4_4over6", 4.5, 0, [] { return nvfp4(true); }),
        {"tq:k8v4", 6, 16, [] { return fp8_plain(); }, [] { return with_row_minimum(4); }},
        {"tq:4bit_nc", 4, 24, [] { return rotated(lloyd_norm(4)); },
         [] { return with_row_minimum(4); }},
        {"tq:k3v4_nc", 3.5, 24, [] { return rotated(lloyd_norm(3)); },
         [] { return with_row_minimum(4); }},
        {"tq:3bit_nc", 3, 24, [] { return rotated(lloyd_norm(3)); },
         [] { return with_row_minimum(3); }},
    };
    return kTable;
}

}  // namespace

std::unique_ptr<Candidate> peer_candidate(const std::string& name) {
    if (name == "kivi4") return std::make_unique<Kivi>(4);
    if (name == "kivi2") return std::make_unique<Kivi>(2);
    for (const PeerRow& row : peer_table())
        if (name == row.name)
            return std::make_unique<RowPeer>(row.name, row.bits, row.row_bits, row.k(), row.v());
    return nullptr;
}

std::vector<std::string> peer_names() {
    std::vector<std::string> names = {"kivi4", "kivi2"};
    for (const PeerRow& row : peer_table()) names.emplace_back(row.name);
    return names;
}

}  // namespace quire::bench
