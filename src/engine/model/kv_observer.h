// Lets somebody see keys and values as a step computes them, before they are coded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

// Consecutive new rows of one KV head of a layer, in one sequence of the step.
struct KvRows {
    uint32_t layer = 0;
    uint32_t kv_head = 0;
    size_t sequence = 0;
    int32_t position = 0;  // of the first row
    int32_t n_rows = 0;
    const float* k = nullptr;  // after norms and RoPE, [n_rows][head_dim], row stride `stride`
    const float* v = nullptr;  // the same stride
    int64_t stride = 0;
    const float* rope = nullptr;  // RopeTable::fill's numbers of the first row's position
    int64_t rope_stride = 0;      // to those of the next
};

class KvObserver {
 public:
    virtual ~KvObserver() = default;
    // Of every layer, KV head and new token of a step, once; by all of the step's threads at the
    // same time, each with its own number. They compute on when it returns: it must not wait, nor
    // change what it sees. What it is given is borrowed for the call.
    virtual void see(const KvRows& rows, int thread) = 0;
};

}  // namespace quire
