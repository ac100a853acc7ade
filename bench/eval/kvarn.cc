// A tile of one KV head is rotated along its dimensions; then rows and columns are divided by their
// deviations in turns, eight times, and the most even state is kept; each row is rounded between
// its minimum and maximum. Rows of K are channels, those of V are tokens. Scales are float16: two a
// row (step and minimum, the row's deviation in both), one a column.
#include "bench/eval/kvarn.h"

#include <algorithm>
#include <cmath>

#include <ggml.h>

#include "codec/hot/rotate.h"

namespace quire::bench {
namespace {

constexpr uint32_t kTileTokens = 64;
constexpr int kRounds = 8;
// Of a deviation, and of the logarithm of a scale.
constexpr float kLeast = 1e-3f, kMost = 1e3f;
constexpr float kLogLeast = -0.3f, kLogMost = 10;

float as_half(float x) {
    return ggml_fp16_to_fp32(ggml_fp32_to_fp16(x));
}

// [rows][columns] and what it is divided by.
struct Tile {
    uint32_t rows, columns;
    std::vector<float> numbers;
    std::vector<float> row_scales = std::vector<float>(rows, 1.0f);
    std::vector<float> column_scales = std::vector<float>(columns, 1.0f);

    float normal(uint32_t r, uint32_t c) const {
        return numbers[size_t{r} * columns + c] / (row_scales[r] * column_scales[c]);
    }
    float deviation(uint32_t n, const auto& at) const {
        double sum = 0, squares = 0;
        for (uint32_t i = 0; i < n; ++i) sum += double{at(i)};
        for (uint32_t i = 0; i < n; ++i) squares += std::pow(double{at(i)} - sum / n, 2);
        return static_cast<float>(std::sqrt(squares / n));
    }
    std::vector<float> row_deviations() const {
        std::vector<float> out;
        for (uint32_t r = 0; r < rows; ++r)
            out.push_back(deviation(columns, [&](uint32_t c) { return normal(r, c); }));
        return out;
    }
    std::vector<float> column_deviations() const {
        std::vector<float> out;
        for (uint32_t c = 0; c < columns; ++c)
            out.push_back(deviation(rows, [&](uint32_t r) { return normal(r, c); }));
        return out;
    }
    // Largest over smallest deviation, along both ways.
    float imbalance() const {
        const auto spread = [](const std::vector<float>& deviations) {
            const auto [low, high] = std::ranges::minmax(deviations);
            return high / std::max(low, kLeast);
        };
        return spread(column_deviations()) + spread(row_deviations());
    }
    static void divide(const std::vector<float>& deviations, std::vector<float>* scales) {
        for (size_t i = 0; i < scales->size(); ++i) {
            const float scale = (*scales)[i] * std::clamp(deviations[i], kLeast, kMost);
            (*scales)[i] = std::exp(std::clamp(std::log(scale), kLogLeast, kLogMost));
        }
    }

    void normalise() {
        std::vector<float> best_rows = row_scales, best_columns = column_scales;
        float best = imbalance();
        for (int i = 0; i < kRounds; ++i) {
            divide(column_deviations(), &column_scales);
            divide(row_deviations(), &row_scales);
            const float now = imbalance();
            if (now >= best) continue;
            best = now, best_rows = row_scales, best_columns = column_scales;
        }
        row_scales = best_rows, column_scales = best_columns;
    }

    void round(int bits) {
        const auto top = static_cast<float>((1 << bits) - 1);
        std::vector<float> row(columns);
        for (uint32_t r = 0; r < rows; ++r) {
            for (uint32_t c = 0; c < columns; ++c) row[c] = normal(r, c);
            const auto [low, high] = std::ranges::minmax(row);
            const float step = std::max((high - low) / top, 1e-8f);
            const float stored_step = as_half(step * row_scales[r]);
            const float stored_low = as_half(low * row_scales[r]);
            for (uint32_t c = 0; c < columns; ++c) {
                const float code = std::clamp(std::nearbyint((row[c] - low) / step), 0.0f, top);
                numbers[size_t{r} * columns + c] =
                    (code * stored_step + stored_low) * as_half(column_scales[c]);
            }
        }
    }
};

// Rows [tokens][head_dim] of one side, in place; `channels`: the tile's rows are dimensions.
void code_tile(float* rows, uint32_t head_dim, int bits, bool channels) {
    for (uint32_t t = 0; t < kTileTokens; ++t)
        codec::hot::ref_rotate(rows + size_t{t} * head_dim, head_dim);
    Tile tile{.rows = channels ? head_dim : kTileTokens,
              .columns = channels ? kTileTokens : head_dim,
              .numbers = std::vector<float>(size_t{kTileTokens} * head_dim)};
    const auto place = [&](uint32_t t, uint32_t d) {
        return channels ? size_t{d} * kTileTokens + t : size_t{t} * head_dim + d;
    };
    for (uint32_t t = 0; t < kTileTokens; ++t)
        for (uint32_t d = 0; d < head_dim; ++d)
            tile.numbers[place(t, d)] = rows[size_t{t} * head_dim + d];
    tile.normalise();
    tile.round(bits);
    for (uint32_t t = 0; t < kTileTokens; ++t)
        for (uint32_t d = 0; d < head_dim; ++d)
            rows[size_t{t} * head_dim + d] = tile.numbers[place(t, d)];
    for (uint32_t t = 0; t < kTileTokens; ++t)
        codec::hot::ref_rotate(rows + size_t{t} * head_dim, head_dim);
}

class Kvarn final : public Candidate {
 public:
    Kvarn(int k_bits, int v_bits) : k_bits_(k_bits), v_bits_(v_bits) {}
    std::string name() const override {
        return "kvarn_k" + std::to_string(k_bits_) + "v" + std::to_string(v_bits_);
    }
    double bits(uint32_t head_dim) const override {
        return (k_bits_ + v_bits_ + 48.0 / kTileTokens + 48.0 / head_dim) / 2;
    }
    bool reference() const override { return true; }
    // An open tile stays exact.
    void apply(const KvSpan& s) const override {
        for (uint32_t t = 0; t + kTileTokens <= s.tokens; t += kTileTokens) {
            code_tile(s.k + size_t{t} * s.head_dim, s.head_dim, k_bits_, true);
            code_tile(s.v + size_t{t} * s.head_dim, s.head_dim, v_bits_, false);
        }
    }

 private:
    int k_bits_, v_bits_;
};

}  // namespace

std::unique_ptr<Candidate> kvarn_candidate(int k_bits, int v_bits) {
    return std::make_unique<Kvarn>(k_bits, v_bits);
}

}  // namespace quire::bench
