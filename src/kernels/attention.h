// Paged attention over slabs: what an engine passes to a kernel, and the table of kernels.
//
// POD parameters only: pointers, strides, counts, a slice of threads. No allocation, no framework,
// no global state. Queries, scores, sums and outputs are float32; pages are 16 bit
// (core/kv_layout.h).
//
// Determinism: an output row depends only on its query, its position and the bytes of the pages it
// sees. Never on which other rows are in the batch, on the number of threads, on where a chunk
// starts, or on whether the row ran in a prefill or a decode: keys are taken in tiles of 64 and
// partitions of kPartitionTokens aligned to position 0, each partition is reduced from nothing with
// one fixed order of operations (ref/attention.cc is that order, readable), and partitions are
// merged in ascending order. All ISAs use the same order and fused multiply-adds, so they agree bit
// for bit on finite input. Slots that a row does not see may hold anything, NaN included.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/isa.h"
#include "core/kv_layout.h"

namespace quire::kernels {

inline constexpr int32_t kKeyTileTokens = 64;
inline constexpr int32_t kPartitionTokens = 512;

using quire::Isa;

// One pair of dimensions that RoPE turns, and a head's mean in it before RoPE.
struct AttnPairMean {
    int16_t x = 0, y = 0;  // dimensions of the head
    int32_t angle = 0;     // of AttnTurns' tables
    float mean_x = 0.0f, mean_y = 0.0f;
};

// The part of keys' mean before RoPE that was taken from coded keys, turned to each key's own
// position: in a few strong pairs, or in all. What is missing from the score of key j,
//   sum over pairs of (qx mx + qy my) cos(j a) + (qy mx - qx my) sin(j a)
// is added to it; the angle's addition theorem leaves one table of a tile and one of tiles' starts.
struct AttnTurns {
    int32_t n_pairs = 0;                  // of each KV head, at most head_dim / 2; 0: none
    int32_t n_angles = 0;                 // of the tables
    const AttnPairMean* pairs = nullptr;  // [n_kv_heads][n_pairs]
    const float* near = nullptr;          // [n_angles][cos, sin][kKeyTileTokens], of j = 0..63
    const float* far = nullptr;           // [tiles][n_angles][cos, sin], of j = 64 tile
};

// Compressed pages of a layer: the hot family of codecs (codec/hot/README.md).
//
// A query at position p reads exact, 16-bit pages for keys in [0, sink_tokens) and in p's own span,
// [p / span_tokens * span_tokens, p]; keys between them it reads as codes. So what it sees depends
// on its position alone. Exact pages hold K and V in the codec's space too, rotated and with the
// mean removed: one rotated query serves both kinds. With a soft cap K must keep its mean, which
// then does not cancel. What `turns` adds is missing from codes only, not from exact pages.
struct AttnCodes {
    int32_t k_bits = 0;  // 2 to 8; 0 (both): every page is exact, and nothing below matters
    int32_t v_bits = 0;
    int32_t sink_tokens = 0;        // a multiple of block_tokens
    int32_t span_tokens = 64;       // a multiple of block_tokens and of kKeyTileTokens
    int64_t layer_offset = 0;       // bytes from a coded slab's start to this layer's first page
    int64_t page_bytes = 0;         // from one KV head's coded page to the next, a multiple of 32
    const float* v_mean = nullptr;  // [n_kv_heads][head_dim], added to the output; null: zero
    AttnTurns turns;

    constexpr bool any() const { return k_bits > 0; }
};

// One layer's geometry; constant over a model's layers of one group but for layer_offset.
struct AttnShape {
    int32_t n_heads = 0;  // query heads; a multiple of n_kv_heads
    int32_t n_kv_heads = 0;
    int32_t head_dim = 0;       // multiple of 16, <= 256
    int32_t block_tokens = 16;  // multiple of 16
    Element element = Element::f16;
    int32_t window = 0;        // > 0: a query at p sees keys in (p - window, p]
    float scale = 1.0f;        // multiplies q.k
    float softcap = 0.0f;      // > 0: score = softcap * tanh(score / softcap)
    int64_t layer_offset = 0;  // bytes from a slab's start to this layer's first page
    int64_t page_bytes =
        0;  // one KV head: K [head_dim][block_tokens], then V [block_tokens][head_dim]
    AttnCodes codes;
};

// Some consecutive query rows of one sequence. Row r stands at position first_pos + r and sees keys
// at positions <= its own (its own K and V are already stored).
struct AttnSequence {
    // [ceil(end / block_tokens)]; entries wholly below every row's window may be null, and with
    // codes those that no row reads exact.
    const std::byte* const* slabs = nullptr;
    // The same for codes; entries that no row reads as codes may be null, or the table if it has
    // none others.
    const std::byte* const* coded_slabs = nullptr;
    int32_t first_pos = 0;
    int32_t n_rows = 0;
    const float* q = nullptr;  // [n_rows][n_heads][head_dim], row stride q_row_stride floats
    float* out = nullptr;      // [n_rows][n_heads][head_dim], row stride out_row_stride floats
    int64_t q_row_stride = 0;
    int64_t out_row_stride = 0;
};

// A counter at a cache line of its own.
struct alignas(64) AttnCounter {
    std::atomic<int32_t> n{0};
};

// A step's attention of one layer over all sequences. The same object is seen by every thread.
struct AttnBatch {
    AttnShape shape;
    std::span<const AttnSequence> sequences;
    std::span<std::byte>
        workspace;  // >= attn_workspace_bytes(), 64-byte aligned, shared by the threads
    std::atomic<int32_t>* cursor = nullptr;  // work counter; zero before the first thread enters
    // One per sequence and KV head, [sequences][n_kv_heads], all zero before and after: whoever
    // finishes the last partition of a split head merges it.
    std::span<AttnCounter> finished = {};
};

// K and V rows to be written into pages: row r of `k`/`v` goes to position first_pos + r.
struct StoreSequence {
    std::byte* const* slabs = nullptr;  // block table as above, writable where rows land
    int32_t first_pos = 0;
    int32_t n_rows = 0;
    const float* k = nullptr;  // [n_rows][n_kv_heads][head_dim], row stride k_row_stride floats
    const float* v = nullptr;
    int64_t k_row_stride = 0;
    int64_t v_row_stride = 0;
};

// One row per instruction set. Functions are re-entrant.
struct AttentionOps {
    Isa isa;
    const char* name;
    bool (*cpu_has_it)();
    // nullptr when this kernel can run `shape`, else a static sentence saying why not.
    const char* (*supports)(const AttnShape& shape);
    // Bytes of workspace for a batch; n_threads is what run() will be called with.
    size_t (*workspace_bytes)(const AttnShape& shape, std::span<const AttnSequence> sequences,
                              int n_threads);
    // Called once by each of n_threads threads with its own index, in any order, at the same time
    // or one after the other. Returns when no work is left to take; the batch is complete when all
    // calls have returned. The workspace needs no initialisation, only the counters do.
    void (*run)(const AttnBatch& batch, int thread, int n_threads);
    // Has what this thread's run() will read first travel to its cache, for who waits until the
    // batch is ready. Reads block tables, not pages; needs neither workspace nor counters.
    void (*fetch)(const AttnBatch& batch, int thread, int n_threads);
    // Rounds to nearest even; a NaN stays a NaN. Rows are split over threads by KV head and block.
    void (*store)(const AttnShape& shape, std::span<const StoreSequence> sequences, int thread,
                  int n_threads);
};

// All kernels compiled in, the oracle first.
std::span<const AttentionOps> attention_table();
// The fastest one this CPU has. QUIRE_ISA=ref|avx2|avx512 is read by the caller, not here.
const AttentionOps& best_attention();
// The row of one instruction set, or null where this CPU lacks it.
const AttentionOps* find_attention(Isa isa);

}  // namespace quire::kernels
