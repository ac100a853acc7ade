// The oracle of a block's arithmetic: one number after the other.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/ec/kernel_sets.h"

namespace quire::codec::ec {
namespace {

void to_columns(const float* rows, uint32_t tokens, uint32_t dims, uint32_t stride,
                float* columns) {
    for (uint32_t d = 0; d < dims; ++d)
        for (uint32_t t = 0; t < stride; ++t)
            columns[size_t{d} * stride + t] = t < tokens ? rows[size_t{t} * dims + d] : 0;
}

void to_rows(const float* columns, uint32_t tokens, uint32_t dims, uint32_t stride, float* rows) {
    for (uint32_t t = 0; t < tokens; ++t)
        for (uint32_t d = 0; d < dims; ++d)
            rows[size_t{t} * dims + d] = columns[size_t{d} * stride + t];
}

void repeat(const float* numbers, uint32_t dims, uint32_t stride, float* columns) {
    for (uint32_t d = 0; d < dims; ++d)
        std::fill_n(columns + size_t{d} * stride, stride, numbers[d]);
}

uint32_t subtract(float* columns, const float* numbers, uint32_t dims, uint32_t stride) {
    uint32_t not_finite = 0;
    for (uint32_t t = 0; t < stride; ++t) {
        bool finite = true;
        for (uint32_t d = 0; d < dims; ++d)
            finite &= std::isfinite(columns[size_t{d} * stride + t]);
        not_finite += !finite;
        for (uint32_t d = 0; d < dims; ++d) {
            const size_t at = size_t{d} * stride + t;
            columns[at] = finite ? columns[at] - numbers[d] : 0;
        }
    }
    return not_finite;
}

void multiply(const Product& job) {
    for (uint32_t o = 0; o < job.outputs; ++o)
        for (uint32_t t = 0; t < job.stride; ++t) {
            float& sum = job.out[size_t{o} * job.stride + t];
            for (uint32_t n = 0; n < job.used_count; ++n) {
                const uint32_t i = job.used[n];
                const size_t panel = size_t{o / kPanel} * job.inputs + i;
                sum = std::fma(job.matrix[panel * kPanel + o % kPanel],
                               job.x[size_t{i} * job.stride + t], sum);
            }
        }
}

void predict(const Prediction& job) {
    const uint32_t quads = job.dims / kQuad;
    for (uint32_t o = 0; o < job.outputs; ++o)
        for (uint32_t t = 0; t < job.stride; ++t) {
            int32_t sum = job.offsets[o];
            for (uint32_t i = 0; i < job.dims; ++i) {
                const size_t panel = size_t{o / kPanel} * quads + i / kQuad;
                const size_t quad = size_t{i / kQuad} * job.stride + t;
                sum += job.weights[(panel * kPanel + o % kPanel) * kQuad + i % kQuad] *
                       job.history.bytes[quad * kQuad + i % kQuad];
            }
            float& out = job.out[size_t{o} * job.stride + t];
            out = std::fma(static_cast<float>(sum) * job.weight_scales[o], job.history.scales[t],
                           out);
        }
}

void remember(const Remember& job) {
    for (uint32_t t = 0; t < job.stride; ++t) {
        const auto number = [&](uint32_t d) {
            return job.columns[size_t{d} * job.stride + t] * job.inverse[d];
        };
        float largest = kHistorySmallest;
        for (uint32_t d = 0; d < job.dims; ++d) {
            const float size = std::fabs(number(d));
            largest = size > largest ? size : largest;
        }
        largest = largest < kHistoryLargest ? largest : kHistoryLargest;
        const float inverse = kHistorySteps / largest;
        job.scales[t] = largest / kHistorySteps;
        for (uint32_t d = 0; d < job.dims; ++d) {
            const size_t quad = size_t{d / kQuad} * job.stride + t;
            float scaled = number(d) * inverse;
            scaled = scaled < kHistorySteps ? scaled : kHistorySteps;
            scaled = scaled > -kHistorySteps ? scaled : -kHistorySteps;
            job.bytes[quad * kQuad + d % kQuad] =
                static_cast<uint8_t>(kHistoryZero + static_cast<int32_t>(std::nearbyint(scaled)));
        }
    }
}

uint8_t seen_of(int32_t integer) {
    if (integer == 0) return kSeenNone;
    return std::abs(integer) < kLargest ? kSeenNumber : kSeenNumber | kSeenEscape;
}

void dequantise(const Components& head, const float* expected, const uint8_t* symbols, float* x,
                uint8_t* seen) {
    for (uint32_t c = 0; c < head.dims; ++c) {
        seen[c] = kSeenNone;
        for (uint32_t t = 0; t < head.stride; ++t, ++symbols, ++x) {
            const int32_t integer = *symbols - kLargest;
            seen[c] |= seen_of(integer);
            *x = number_of(head.step, head.shrinks[head.classes[c]], integer);
            if (expected != nullptr) *x += *expected++;
        }
    }
}

void quantise(const Components& head, const float* expected, const float* x, uint8_t* symbols,
              float* numbers, uint8_t* seen) {
    for (uint32_t c = 0; c < head.dims; ++c) {
        seen[c] = kSeenNone;
        for (uint32_t t = 0; t < head.stride; ++t) {
            const float before = expected == nullptr ? 0 : *expected++;
            const int32_t integer = integer_of(head.inverse, *x++ - before);
            seen[c] |= seen_of(integer);
            *symbols++ = static_cast<uint8_t>(std::clamp(integer, -kLargest, kLargest) + kLargest);
            *numbers++ = number_of(head.step, head.shrinks[head.classes[c]], integer) + before;
        }
    }
}

}  // namespace

void ref_read_runs(SymbolReader* reader, const RansTable& table, uint32_t tokens,
                   uint8_t* symbols) {
    for (uint32_t first = 0; first < tokens; first += kLanes) {
        uint32_t* states = reader->states + size_t{reader->turn} * kLanes;
        reader->turn = (reader->turn + 1) % kGroups;
        std::fill_n(symbols + first, kLanes, kZeroSymbol);
        for (uint32_t lane = 0; lane < std::min(kLanes, tokens - first); ++lane) {
            uint32_t& state = states[lane];
            const uint32_t slot = table.slots()[state % kProbabilities];
            symbols[first + lane] = static_cast<uint8_t>(slot >> RansTable::kSymbolShift);
            state = (slot >> RansTable::kFrequencyShift & RansTable::kFieldMask) *
                        (state >> kProbabilityBits) +
                    (slot & RansTable::kFieldMask);
            if (state >= kStateLow) continue;
            uint16_t word = 0;
            if (reader->left_words == 0) {
                reader->short_ = true;
            } else {
                std::memcpy(&word, reader->words, sizeof(word));
                reader->words += sizeof(word);
                --reader->left_words;
            }
            state = state << 16 | word;
        }
    }
}

void ref_read(SymbolReader* reader, const SymbolRows& rows, uint8_t* symbols) {
    for (uint32_t i = 0; i < rows.components; ++i) {
        const size_t c = rows.order[i];
        ref_read_runs(reader, rows.tables[rows.classes[c]], rows.tokens, symbols + c * rows.stride);
    }
}

namespace {

void write_runs(SymbolWriter* writer, const RansTable& table, uint32_t tokens,
                const uint8_t* symbols) {
    const uint32_t runs = (tokens + kLanes - 1) / kLanes;
    for (uint32_t run = runs; run-- > 0;) {
        writer->turn = (writer->turn + kGroups - 1) % kGroups;
        uint32_t* states = writer->states + size_t{writer->turn} * kLanes;
        for (uint32_t lane = std::min(kLanes, tokens - run * kLanes); lane-- > 0;) {
            uint32_t& state = states[lane];
            const uint8_t symbol = symbols[run * kLanes + lane];
            const uint32_t frequency = table.frequency(symbol);
            if (state >= frequency << kFullShift) {
                const auto word = static_cast<uint16_t>(state);
                writer->end -= sizeof(word);
                std::memcpy(writer->end, &word, sizeof(word));
                state >>= 16;
            }
            state =
                (state / frequency << kProbabilityBits) + state % frequency + table.first(symbol);
        }
    }
}

}  // namespace

void ref_write(SymbolWriter* writer, const SymbolRows& rows, const uint8_t* symbols) {
    for (uint32_t i = rows.components; i-- > 0;) {
        const size_t c = rows.order[i];
        write_runs(writer, rows.tables[rows.classes[c]], rows.tokens, symbols + c * rows.stride);
    }
}

Kernels ref_kernels() {
    return {"ref",   always,   to_columns, to_rows,    repeat, subtract, multiply,
            predict, remember, quantise,   dequantise, ref_read, ref_write};
}

}  // namespace quire::codec::ec
