#include "codec/ec/ec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quire::codec::ec {
namespace {

constexpr double kClassesAnOctave = 4;
constexpr int32_t kEscapeMax = 1 << 20;
constexpr int kVarintBytes = 4;

// Below 128 a byte; else seven bits a byte, the lowest first, the top bit says that more follow.
void put_varint(uint32_t value, std::vector<std::byte>* out) {
    for (; value >= 0x80; value >>= 7) out->push_back(static_cast<std::byte>(value | 0x80));
    out->push_back(static_cast<std::byte>(value));
}

class Varints {
 public:
    explicit Varints(std::span<const std::byte> bytes) : bytes_(bytes) {}
    // 0 past the end.
    uint32_t next() {
        uint32_t value = 0;
        for (int i = 0; i < kVarintBytes && at_ < bytes_.size(); ++i) {
            const auto byte = static_cast<uint32_t>(bytes_[at_++]);
            value |= (byte & 0x7f) << (7 * i);
            if (byte < 0x80) break;
        }
        return value;
    }
    size_t used_bytes() const { return at_; }

 private:
    std::span<const std::byte> bytes_;
    size_t at_ = 0;
};

// The components of what was not expected of the rows: [head_dim][tokens].
std::vector<float> project(const HeadModel& head, std::span<const float> rows,
                           std::span<const float> expected, uint32_t* skipped) {
    const uint32_t n = head.head_dim;
    const size_t tokens = rows.size() / n;
    std::vector<float> out(rows.size());
    std::vector<float> centred(n);
    for (size_t t = 0; t < tokens; ++t) {
        const float* row = rows.data() + t * n;
        const bool finite = std::all_of(row, row + n, [](float x) { return std::isfinite(x); });
        *skipped += !finite;
        for (uint32_t d = 0; d < n; ++d) centred[d] = finite ? row[d] - expected[t * n + d] : 0;
        for (uint32_t c = 0; c < n; ++c) {
            const float* component = head.components.data() + size_t{c} * n;
            float sum = 0;
            for (uint32_t d = 0; d < n; ++d) sum += component[d] * centred[d];
            out[c * tokens + t] = sum;
        }
    }
    return out;
}

float value_of(const ClassModel& model, int32_t integer, float step) {
    const int32_t size = std::abs(integer);
    if (size == 0) return 0;
    const float shrink = size == 1 ? model.shrink_one : model.shrink_more;
    return std::copysign((static_cast<float>(size) - shrink) * step, static_cast<float>(integer));
}

}  // namespace

uint32_t class_of(double deviation, double step) {
    const double octaves = std::log2(std::max(deviation, 1e-30) / step) - kLowestClass;
    return static_cast<uint32_t>(
        std::clamp(std::round(octaves * kClassesAnOctave), 0.0, double{kClasses - 1}));
}

Coder::Coder(const Model& model) : model_(model) {
    for (const ClassModel& one : model.classes) tables_.emplace_back(one.frequencies);
}

double Coder::bits(double step) const {
    double sum = 0, numbers = 0;
    std::array<double, kClasses> entropy;
    for (uint32_t c = 0; c < kClasses; ++c) {
        const double escapes = tables_[c].frequency(0) + tables_[c].frequency(kSymbols - 1);
        entropy[c] = tables_[c].entropy_bits() + 8 * escapes / kProbabilities;
    }
    for (const auto* side : {&model_.k, &model_.v})
        for (const std::vector<HeadModel>& layer : *side)
            for (const HeadModel& head : layer)
                for (const float deviation : head.deviations) {
                    sum += entropy[class_of(double{deviation}, step * double{head.step})];
                    ++numbers;
                }
    return sum / numbers;
}

double Coder::step_for(double wanted) const {
    double largest = 1e-20;
    for (const auto* side : {&model_.k, &model_.v})
        for (const std::vector<HeadModel>& layer : *side)
            for (const HeadModel& head : layer)
                for (const float deviation : head.deviations)
                    largest = std::max(largest, double{deviation} / double{head.step});
    // From where the widest component has the highest class to where all are zeros.
    double low = largest / 128, high = largest * 64;
    for (int i = 0; i < 60; ++i) {
        const double middle = std::sqrt(low * high);
        (bits(middle) > wanted ? low : high) = middle;
    }
    return std::sqrt(low * high);
}

void Decoded::add(const HeadModel& head, std::span<const float> rows) {
    const uint32_t n = head.head_dim;
    for (size_t t = 0; t < rows_.size(); ++t)
        for (uint32_t d = 0; d < n; ++d) rows_[t].push_back(rows[t * n + d] - head.mean[d]);
}

std::vector<float> Decoded::expect(const HeadModel& head) const {
    const size_t n = head.head_dim;
    const size_t inputs = head.weights.size() / n;
    std::vector<float> out;
    for (size_t t = 0; t < rows_.size(); ++t)
        out.insert(out.end(), head.mean.begin(), head.mean.end());
    if (inputs > width()) return out;
    for (size_t t = 0; t < rows_.size(); ++t) {
        const float* numbers = rows_[t].data() + (width() - inputs);
        float* row = out.data() + t * n;
        for (size_t i = 0; i < inputs; ++i) {
            const float* weights = head.weights.data() + i * n;
            for (size_t d = 0; d < n; ++d) row[d] += numbers[i] * weights[d];
        }
    }
    return out;
}

uint32_t Coder::encode(const HeadModel& head, double step, std::span<const float> rows,
                       std::span<const float> expected, std::vector<std::byte>* out) const {
    uint32_t skipped = 0;
    const std::vector<float> components = project(head, rows, expected, &skipped);
    const size_t tokens = rows.size() / head.head_dim;
    const double own_step = step * double{head.step};
    std::vector<CodedSymbol> symbols(components.size());
    std::vector<std::byte> escapes;
    for (size_t i = 0; i < components.size(); ++i) {
        const double scaled = double{components[i]} / own_step;
        const auto integer = static_cast<int32_t>(
            std::clamp(std::round(scaled), double{-kEscapeMax}, double{kEscapeMax}));
        const int32_t inside = std::clamp(integer, -kLargest, kLargest);
        if (std::abs(integer) >= kLargest)
            put_varint(static_cast<uint32_t>(std::abs(integer) - kLargest), &escapes);
        const uint32_t cls = class_of(double{head.deviations[i / tokens]}, own_step);
        symbols[i] = {static_cast<uint8_t>(inside + kLargest), &tables_[cls]};
    }
    rans_encode(symbols, out);
    out->insert(out->end(), escapes.begin(), escapes.end());
    return skipped;
}

bool Coder::decode(const HeadModel& head, double step, std::span<const std::byte> bytes,
                   std::span<const float> expected, std::span<float> rows) const {
    const uint32_t n = head.head_dim;
    const size_t tokens = rows.size() / n;
    const double own_step = step * double{head.step};
    RansReader reader(bytes);
    std::vector<int32_t> integers(rows.size());
    for (size_t i = 0; i < integers.size(); ++i) {
        const uint32_t cls = class_of(double{head.deviations[i / tokens]}, own_step);
        integers[i] = static_cast<int32_t>(reader.next(tables_[cls])) - kLargest;
    }
    Varints escapes(bytes.subspan(reader.used_bytes()));
    std::ranges::copy(expected, rows.begin());
    for (uint32_t c = 0; c < n; ++c) {
        const ClassModel& model = model_.classes[class_of(double{head.deviations[c]}, own_step)];
        const float* restore = head.restore.data() + size_t{c} * n;
        for (size_t t = 0; t < tokens; ++t) {
            int32_t integer = integers[c * tokens + t];
            if (std::abs(integer) == kLargest) {
                const auto more = static_cast<int32_t>(escapes.next() & (2 * kEscapeMax - 1));
                integer += integer > 0 ? more : -more;
            }
            const float x = value_of(model, integer, static_cast<float>(own_step));
            if (x == 0) continue;
            float* row = rows.data() + t * n;
            for (uint32_t d = 0; d < n; ++d) row[d] += x * restore[d];
        }
    }
    return reader.ended_well() && reader.used_bytes() + escapes.used_bytes() == bytes.size();
}

}  // namespace quire::codec::ec
