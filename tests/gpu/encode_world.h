// What tests of encoders share: pages that the GPU and a codec's oracle fill with the same rows,
// compared byte for byte.
//
// A Case of a codec derives from EncodeCase and has:
//   using Params                      of its encoder
//   size_t page_bytes() const
//   std::vector<float> side(rng)      what the codec knows of K, or of V: [kv_heads][any]
//   codec::EncodePage job(k_side, v_side, head) const     spec, geometry and sidecar
//   uint32_t by_oracle(job) const
//   void complete(Params&, k_side, v_side) const          all that EncodeCase does not say
//   static const char* supports(const Params&), static int encode(const Params&)
//   std::string describe() const
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "codec/codec.h"
#include "device_memory.h"
#include "new_rows.h"

namespace quire::gpu_testing {

struct EncodeCase {
    int32_t head_dim, kv_heads, block_tokens;
    kernels::cuda::Numbers element;
    int64_t gap = 0;  // after every row, in numbers

    std::string describe() const {
        return "D " + std::to_string(head_dim) + " heads " + std::to_string(kv_heads) + " block " +
               std::to_string(block_tokens) + " element " +
               std::to_string(static_cast<int>(element));
    }
    size_t row_numbers() const { return static_cast<size_t>(head_dim + gap); }
};

// Of a number a head, for codecs with scales: 10 octaves from `lowest` on.
inline std::vector<float> scales_of_heads(int32_t kv_heads, float lowest, std::mt19937_64& rng) {
    std::vector<float> scales;
    for (int32_t h = 0; h < kv_heads; ++h)
        scales.push_back(std::exp2(static_cast<float>(rng() % 1000) * 0.01f + lowest));
    return scales;
}

template <class Case>
struct EncodeWorld {
    EncodeWorld(const Case& of, uint64_t seed, size_t blocks = 5)
        : c(of), rng(seed), n_blocks(blocks) {
        head_stride = (c.page_bytes() + 63) / 32 * 32;  // a gap that must stay as it is
        block_stride = head_stride * static_cast<size_t>(c.kv_heads) + 64;
        pages.assign(block_stride * n_blocks, std::byte{0});
        k_side = c.side(rng);
        v_side = c.side(rng);
    }

    Rows make_rows() {
        return gpu_testing::make_rows(c.element, c.row_numbers(),
                                      slots.size() * static_cast<size_t>(c.kv_heads), rng);
    }

    // Returns how many rows were not finite.
    uint32_t encode_by_oracle(const Rows& k, const Rows& v) {
        const auto heads = static_cast<size_t>(c.kv_heads);
        uint32_t not_finite = 0;
        for (size_t i = 0; i < slots.size() * heads; ++i) {
            const int64_t slot = slots[i / heads];
            if (slot < 0) continue;
            codec::EncodePage job = c.job(k_side.data(), v_side.data(), i % heads);
            job.k_stride = job.v_stride = c.row_numbers();
            job.first = static_cast<uint32_t>(slot % c.block_tokens);
            job.last = job.first + 1;
            job.k = k.numbers.data() + (i - job.first) * job.k_stride;
            job.v = v.numbers.data() + (i - job.first) * job.v_stride;
            job.page = pages.data() + static_cast<size_t>(slot / c.block_tokens) * block_stride +
                       i % heads * head_stride;
            not_finite += c.by_oracle(job);
        }
        return not_finite;
    }

    // `at`, `slots_at`, sides: device memory, or any where nothing is launched.
    typename Case::Params params(const void* k, const void* v, std::byte* at,
                                 const int64_t* slots_at, const float* k_side_at,
                                 const float* v_side_at) const {
        typename Case::Params p;
        p.k.rows = k;
        p.v.rows = v;
        p.k.head_stride = p.v.head_stride = static_cast<int64_t>(c.row_numbers());
        p.k.token_stride = p.v.token_stride = p.k.head_stride * c.kv_heads;
        p.element = c.element;
        p.n_tokens = static_cast<int32_t>(slots.size());
        p.kv_heads = c.kv_heads;
        p.head_dim = c.head_dim;
        p.block_tokens = c.block_tokens;
        p.slots = slots_at;
        p.pages = at;
        p.n_blocks = static_cast<int64_t>(n_blocks);
        p.block_stride = static_cast<int64_t>(block_stride);
        p.head_stride = static_cast<int64_t>(head_stride);
        c.complete(p, k_side_at, v_side_at);
        return p;
    }

    Case c;
    std::mt19937_64 rng;
    size_t n_blocks, head_stride = 0, block_stride = 0;
    std::vector<std::byte> pages;
    std::vector<float> k_side, v_side;
    std::vector<int64_t> slots;
};

// Encodes rows to w.slots by both, into `pages` as they are. `what`: for messages.
template <class Case>
void check_batch(EncodeWorld<Case>& w, const DeviceArray<std::byte>& pages, const Rows& k,
                 const Rows& v, const std::string& what) {
    const DeviceArray<std::byte> dk(k.stored), dv(v.stored);
    const DeviceArray<int64_t> slots(w.slots);
    const DeviceArray<float> k_side(w.k_side), v_side(w.v_side);
    const DeviceArray<uint32_t> counter(std::vector<uint32_t>{0});
    auto p =
        w.params(dk.data(), dv.data(), pages.data(), slots.data(), k_side.data(), v_side.data());
    p.not_finite = counter.data();
    const char* why = Case::supports(p);
    CHECK(why == nullptr, what << ": " << why);
    check_cuda(Case::encode(p), "encode");
    const uint32_t not_finite = w.encode_by_oracle(k, v);
    const std::vector<std::byte> got = pages.read();
    const auto [a, b] = std::mismatch(got.begin(), got.end(), w.pages.begin());
    CHECK(a == got.end(), what << ": byte " << (a - got.begin()) % static_cast<long>(w.block_stride)
                               << " of a block is " << static_cast<int>(*a) << ", not "
                               << static_cast<int>(*b));
    CHECK(counter.read()[0] == not_finite, what << ": rows that are not finite");
}

// In two batches, so that the second one meets codes that must stay.
template <class Case>
void check_encode(const Case& c, uint64_t seed, size_t n_blocks = 5) {
    EncodeWorld<Case> w(c, seed, n_blocks);
    const DeviceArray<std::byte> pages(w.pages);
    for (int batch = 0; batch < 2; ++batch) {
        w.slots = choose_slots(n_blocks, c.block_tokens, w.rng);
        const Rows k = w.make_rows(), v = w.make_rows();
        check_batch(
            w, pages, k, v,
            c.describe() + " seed " + std::to_string(seed) + " batch " + std::to_string(batch));
    }
}

// What a codec's encoder refuses; memory that nobody reads stands for the device's.
template <class Case>
class EncodeRefusals {
 public:
    using Params = typename Case::Params;

    explicit EncodeRefusals(const Case& c) : world_(c, 1) {
        world_.slots = choose_slots(world_.n_blocks, c.block_tokens, world_.rng);
        good_ = world_.params(memory_, memory_, memory_, world_.slots.data(), numbers_, numbers_);
        CHECK(Case::supports(good_) == nullptr, "a good one: " << Case::supports(good_));
        Params empty = good_;
        empty.n_tokens = 0;
        empty.slots = nullptr;
        empty.pages = nullptr;
        CHECK(Case::supports(empty) == nullptr, "an empty batch");
        CHECK(Case::encode(empty) == 0, "nothing to do needs no GPU");
    }
    // Says why not, with that word in it.
    template <class Spoil>
    void operator()(Spoil spoil, const char* word) const {
        Params p = good_;
        spoil(p);
        const char* why = Case::supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    }
    const void* odd_address() const { return memory_ + 1; }

 private:
    alignas(32) std::byte memory_[64] = {};
    float numbers_[2] = {};
    EncodeWorld<Case> world_;
    Params good_;
};

}  // namespace quire::gpu_testing
