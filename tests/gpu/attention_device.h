// An attention_world.h World on the device, and decode and prefill over it.
#pragma once

#include <cmath>

#include "attention_world.h"
#include "device_memory.h"
#include "kernels/cuda/attn/decode.h"
#include "kernels/cuda/attn/prefill.h"

namespace quire::gpu_testing {

class DeviceWorld {
 public:
    // lengths, tables: the world's, or what a test makes of them.
    DeviceWorld(const World& w, const std::vector<int32_t>& lengths,
                const std::vector<int32_t>& tables)
        : q_(w.q()),
          v_mean_(w.v_mean()),
          out_(std::vector<float>(w.q().size(), NAN)),
          lse_(std::vector<float>(w.n_rows(), NAN)),
          lengths_(lengths),
          tables_(tables),
          pages_(w.pages()) {}
    DeviceWorld(const World& w, const Case& c) : DeviceWorld(w, c.lengths, w.tables()) {}

    // Params of decode or prefill, but for the workspace.
    template <class Params>
    void point(Params& p) const {
        p.q = q_.data();
        p.out = out_.data();
        p.lse = lse_.data();
        p.lengths = lengths_.data();
        p.blocks = tables_.data();
        p.pages = pages_.data();
        p.v_mean = v_mean_.data();
    }
    Got got() const { return {out_.read(), lse_.read()}; }

 private:
    DeviceArray<float> q_, v_mean_, out_, lse_;
    DeviceArray<int32_t> lengths_, tables_;
    DeviceArray<std::byte> pages_;
};

// Bytes that are no numbers, for what a kernel must write before it reads.
inline DeviceArray<std::byte> spoiled_workspace(size_t bytes) {
    return DeviceArray<std::byte>(std::vector<std::byte>(bytes, std::byte{0xff}));
}

inline int32_t device_blocks() {
    const int32_t blocks = kernels::cuda::decode_blocks();
    CHECK(blocks > 0, "decode_blocks: " << blocks);
    return blocks;
}

inline Got run_decode(const World& w, const Case& c) {
    const DeviceWorld on_device(w, c);
    const DeviceArray<float> head_scales(w.head_scales());
    const int32_t workers = device_blocks();
    auto p = w.params<kernels::cuda::DecodeParams>();
    on_device.point(p);
    p.n_queries = c.n_queries;
    p.all_keys = !c.causal;
    p.scaling = c.scaling;
    p.k_scales = head_scales.data();
    p.v_scales = p.k_scales + c.kv_heads;
    const auto workspace = spoiled_workspace(kernels::cuda::decode_workspace_bytes(p, workers));
    p.workspace = workspace.data();
    const char* why = kernels::cuda::decode_supports(p);
    CHECK(why == nullptr, describe(c) << ": " << why);
    check_cuda(kernels::cuda::decode(p, workers, nullptr), "decode");
    return on_device.got();
}

inline Got run_prefill(const World& w, const Case& c) {
    const DeviceWorld on_device(w, c);
    const DeviceArray<int32_t> first(c.first_tokens());
    const int32_t workers = device_blocks();
    auto p = w.params<kernels::cuda::PrefillParams>();
    on_device.point(p);
    p.n_tokens = c.first_tokens().back();
    p.first_tokens = first.data();
    p.causal = c.causal;
    const auto workspace = spoiled_workspace(kernels::cuda::prefill_workspace_bytes(p, workers));
    p.workspace = workspace.data();
    const char* why = kernels::cuda::prefill_supports(p);
    CHECK(why == nullptr, describe(c) << ": " << why);
    check_cuda(kernels::cuda::prefill(p, workers, nullptr), "prefill");
    return on_device.got();
}

}  // namespace quire::gpu_testing
