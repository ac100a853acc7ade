// The arithmetic of a block, as plain functions over the caller's buffers: one table for each
// instruction set, all with the same bits as the first, which is written to be read (ref.cc).
//
// Numbers of a block are *columns* inside: [n][stride], of each number all tokens, padded to
// kLanes; what stands in padding is zero or never looked at, and is no trap. Products add up in the
// order of their inputs, each multiply-add fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/ec/rans.h"

namespace quire::codec::ec {

// Outputs whose weights lie beside each other.
inline constexpr uint32_t kPanel = 4;
// Inputs that one 32-bit lane of history has.
inline constexpr uint32_t kQuad = 4;
inline constexpr int32_t kHistoryZero = 128;

// What is going to be read next; fetched into the caches meanwhile.
struct Upcoming {
    const void* bytes = nullptr;
    size_t n = 0;
};

// out[o] += the sum of matrix[i][o] x[i], over the inputs that are named, in their order.
struct Product {
    const float* matrix;   // [outputs / kPanel][inputs][kPanel]
    uint32_t inputs;       // rows of it
    uint32_t outputs;      // a multiple of kPanel
    const uint16_t* used;  // [used_count] inputs, ascending
    uint32_t used_count;
    const float* x;   // [inputs][stride]
    float* out;       // [outputs][stride]
    uint32_t stride;  // tokens, a multiple of kLanes
    Upcoming upcoming;
};

// Numbers of one head, eight bits each: what they stand for is (byte - kHistoryZero) times the
// scale of the token, times that of the number, which weights have in them.
struct HistoryView {
    const uint8_t* bytes;  // [dims / kQuad][stride][kQuad]
    const float* scales;   // [stride]
};
// out[o] += of one head's history: the exact sum of weights times (byte - kHistoryZero), times
// weight_scales[o], then times the token's scale, the latter fused with the addition.
struct Prediction {
    const int8_t* weights;       // [outputs / kPanel][dims / kQuad][kPanel][kQuad]
    const int32_t* offsets;      // [outputs]: -kHistoryZero times the sum of an output's weights
    const float* weight_scales;  // [outputs]
    HistoryView history;
    uint32_t dims;
    uint32_t outputs;
    float* out;  // [outputs][stride]
    uint32_t stride;
    Upcoming upcoming;
};

// history = columns times `inverse` of each number, as bytes: the largest of a token becomes 127.
struct Remember {
    const float* columns;  // [dims][stride]
    const float* inverse;  // [dims]
    uint32_t dims;
    uint32_t stride;
    uint8_t* bytes;
    float* scales;
};

// How integers become numbers.
struct Shrink {
    float one = 0;   // a size of 1 comes back as so much less, in steps
    float more = 0;  // and of 2 or more
};
// Components of one head: [dims][stride] numbers and symbols.
struct Components {
    float step;
    float inverse;          // of step
    const Shrink* shrinks;  // by class
    const uint8_t* classes;  // [dims]
    uint32_t dims;
    uint32_t stride;
};
// What a component's symbols are.
enum Seen : uint8_t { kSeenNone = 0, kSeenNumber = 1, kSeenEscape = 2 };

// Symbols of a layer's components, [components][stride], in the order in which they are coded:
// those of one class together, so that its table stays near.
struct SymbolRows {
    const RansTable* tables;  // by class
    const uint8_t* classes;   // by component
    const uint32_t* order;    // components
    uint32_t components;
    uint32_t tokens;
    uint32_t stride;
};

struct SymbolReader {
    uint32_t states[kStates];
    const std::byte* words = nullptr;
    size_t left_words = 0;
    uint32_t turn = 0;    // group of the next run
    bool short_ = false;  // a word was missing
};

struct SymbolWriter {
    uint32_t states[kStates];
    std::byte* end = nullptr;  // words grow down from here
    uint32_t turn = 0;         // runs that are still to be written
};

struct Kernels {
    const char* name;
    bool (*cpu_has_it)();
    // rows [tokens][dims] and columns; the padding becomes zero.
    void (*to_columns)(const float* rows, uint32_t tokens, uint32_t dims, uint32_t stride,
                       float* columns);
    void (*to_rows)(const float* columns, uint32_t tokens, uint32_t dims, uint32_t stride,
                    float* rows);
    // Each of `dims` numbers becomes a whole column.
    void (*repeat)(const float* numbers, uint32_t dims, uint32_t stride, float* columns);
    // Each column less its number; of a token with a number that is not finite, all become 0.
    // Returns how many tokens those were.
    uint32_t (*subtract)(float* columns, const float* numbers, uint32_t dims, uint32_t stride);
    void (*multiply)(const Product& job);
    void (*predict)(const Prediction& job);
    void (*remember)(const Remember& job);
    // x less what was expected of them become symbols, of integer_of(), and the numbers that are
    // decoded. expected: null: zeros. seen [dims]: Seen, together.
    void (*quantise)(const Components& head, const float* expected, const float* x,
                     uint8_t* symbols, float* numbers, uint8_t* seen);
    // Symbols become numbers, and what was expected is added; escapes as if they were none.
    void (*dequantise)(const Components& head, const float* expected, const uint8_t* symbols,
                       float* x, uint8_t* seen);
    // `tokens` symbols of each component, kLanes a run; the padding becomes kZeroSymbol.
    void (*read)(SymbolReader* reader, const SymbolRows& rows, uint8_t* symbols);
    // The same backwards: what is coded last first. Room before `end` for a word a symbol.
    void (*write)(SymbolWriter* writer, const SymbolRows& rows, const uint8_t* symbols);
};

inline constexpr int32_t kIntegerMax = 1 << 20;

// x over the step, halves to even, at most kIntegerMax; what is no number is that too.
int32_t integer_of(float inverse, float x);
// What the integer becomes.
float number_of(float step, const Shrink& shrink, int32_t integer);

// Slowest first; the first is the oracle.
std::span<const Kernels> all_kernels();
// The fastest that this CPU has.
const Kernels& best_kernels();

}  // namespace quire::codec::ec
