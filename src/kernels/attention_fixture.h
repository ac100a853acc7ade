// Sequences in random pages, for the tests of this layer: pages are allocated out of order and
// start full of NaNs, so that a kernel that reads a slot nobody wrote shows it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention.h"

namespace quire::kernels::testing {

struct Geometry {
    int n_heads = 6;
    int n_kv_heads = 2;
    int head_dim = 64;
    int block_tokens = 16;
    Element element = Element::f16;
    int window = 0;
    float softcap = 0.0f;
};

inline AttnShape make_shape(const Geometry& g) {
    AttnShape s;
    s.n_heads = g.n_heads;
    s.n_kv_heads = g.n_kv_heads;
    s.head_dim = g.head_dim;
    s.block_tokens = g.block_tokens;
    s.element = g.element;
    s.window = g.window;
    s.softcap = g.softcap;
    s.scale = 1.0f / std::sqrt(static_cast<float>(g.head_dim));
    s.page_bytes = int64_t{4} * g.head_dim * g.block_tokens;
    s.layer_offset = 4096;
    return s;
}

// One sequence of n tokens: its queries, keys and values as float rows, and its pages.
class World {
 public:
    World(const Geometry& g, int n_tokens, uint64_t seed)
        : shape(make_shape(g)), n_tokens_(n_tokens), rng_(seed) {
        q = random_rows(g.n_heads * g.head_dim, 2.0f);
        k = random_rows(g.n_kv_heads * g.head_dim, 1.0f);
        v = random_rows(g.n_kv_heads * g.head_dim, 1.0f);
        const size_t n_blocks = (n_tokens + g.block_tokens - 1) / g.block_tokens;
        const size_t slab_words = (shape.layer_offset + g.n_kv_heads * shape.page_bytes) / 2;
        memory_.assign(n_blocks * slab_words, g.element == Element::f16 ? 0x7e01 : 0x7fc1);
        std::vector<size_t> order(n_blocks);
        for (size_t i = 0; i < n_blocks; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), rng_);
        for (size_t i : order)
            slabs.push_back(reinterpret_cast<std::byte*>(memory_.data() + i * slab_words));
    }

    int n_tokens() const { return n_tokens_; }
    int q_width() const { return shape.n_heads * shape.head_dim; }
    int kv_width() const { return shape.n_kv_heads * shape.head_dim; }

    StoreSequence store_rows(int first, int n) const {
        return {.slabs = slabs.data(),
                .first_pos = first,
                .n_rows = n,
                .k = k.data() + int64_t{first} * kv_width(),
                .v = v.data() + int64_t{first} * kv_width(),
                .k_row_stride = kv_width(),
                .v_row_stride = kv_width()};
    }
    void store_all(const AttentionOps& ops) const {
        const StoreSequence s = store_rows(0, n_tokens_);
        ops.store(shape, {&s, 1}, 0, 1);
    }
    // Rows [first, first + n); their outputs go to the same rows of `out`.
    AttnSequence rows(int first, int n, std::vector<float>& out) const {
        out.resize(static_cast<size_t>(n_tokens_) * q_width());
        return {.slabs = slabs.data(),
                .first_pos = first,
                .n_rows = n,
                .q = q.data() + int64_t{first} * q_width(),
                .out = out.data() + int64_t{first} * q_width(),
                .q_row_stride = q_width(),
                .out_row_stride = q_width()};
    }

    AttnShape shape;
    std::vector<float> q, k, v;
    std::vector<std::byte*> slabs;

 private:
    std::vector<float> random_rows(int width, float spread) {
        std::normal_distribution<float> normal(0.0f, spread);
        std::vector<float> rows(static_cast<size_t>(n_tokens_) * width);
        for (float& x : rows) x = normal(rng_);
        return rows;
    }

    int n_tokens_;
    std::mt19937_64 rng_;
    std::vector<uint16_t> memory_;
};

// Runs one batch on n_threads threads; the workspace starts full of NaNs.
inline void run_batch(const AttentionOps& ops, const AttnShape& shape,
                      const std::vector<AttnSequence>& sequences, int n_threads) {
    const size_t bytes = ops.workspace_bytes(shape, sequences, n_threads);
    std::vector<std::byte> memory(bytes + 64, std::byte{0xff});
    void* at = memory.data();
    size_t space = memory.size();
    std::align(64, bytes, at, space);
    std::atomic<int32_t> cursor = 0;
    std::vector<AttnCounter> finished(sequences.size() * static_cast<size_t>(shape.n_kv_heads));
    const AttnBatch batch{
        shape, sequences, {static_cast<std::byte*>(at), bytes}, &cursor, finished};
    // tidy: allow(thread): a test's own, joined below
    std::vector<std::thread> threads;
    for (int t = 1; t < n_threads; ++t)
        threads.emplace_back([&, t] {
            ops.fetch(batch, t, n_threads);
            ops.run(batch, t, n_threads);
        });
    ops.run(batch, 0, n_threads);
    for (auto& t : threads) t.join();
    for (const AttnCounter& counter : finished) EXPECT_EQ(counter.n, 0) << "left as it was";
}

// Every row by one prefill of the whole sequence.
template <class Sequence>
std::vector<float> all_rows(const AttentionOps& ops, const Sequence& w, int n_threads = 1) {
    std::vector<float> out;
    run_batch(ops, w.shape, {w.rows(0, w.n_tokens(), out)}, n_threads);
    return out;
}

inline ::testing::AssertionResult same_bits(const std::vector<float>& a,
                                            const std::vector<float>& b, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
        if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
            return ::testing::AssertionFailure()
                   << "element " << i << ": " << a[i] << " and " << b[i] << " differ";
    return ::testing::AssertionSuccess();
}

inline std::string describe(const Geometry& g) {
    return "heads " + std::to_string(g.n_heads) + "/" + std::to_string(g.n_kv_heads) + " dim " +
           std::to_string(g.head_dim) + " block " + std::to_string(g.block_tokens) +
           (g.element == Element::f16 ? " f16" : " bf16") + " window " + std::to_string(g.window) +
           " softcap " + std::to_string(g.softcap);
}

// Every kernel this machine can run.
inline std::vector<const AttentionOps*> runnable_ops() {
    std::vector<const AttentionOps*> ops;
    for (const AttentionOps& o : attention_table())
        if (o.cpu_has_it()) ops.push_back(&o);
    return ops;
}

}  // namespace quire::kernels::testing
