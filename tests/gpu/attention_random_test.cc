// Decode and prefill over shapes drawn at random: whatever they say that they take, they do right.
#include "attention_device.h"

namespace quire {
namespace {

using gpu_testing::Case;
using gpu_testing::check_rows;
using gpu_testing::Got;
using gpu_testing::World;
using kernels::cuda::PagesHold;

constexpr int kCases = 60;

class Draw {
 public:
    explicit Draw(uint64_t seed) : rng_(seed) {}

    int32_t below(int32_t n) { return static_cast<int32_t>(rng_() % static_cast<uint64_t>(n)); }
    template <class T>
    T one_of(std::initializer_list<T> all) {
        return *(all.begin() + below(static_cast<int32_t>(all.size())));
    }
    // What decode and prefill have in common, but for pages and lengths.
    Case shape(std::initializer_list<int32_t> head_dims) {
        Case c;
        c.head_dim = one_of(head_dims);
        c.kv_heads = 1 + below(3);
        c.group = 1 + below(c.head_dim > 128 ? 8 : 16);
        c.block_tokens = one_of({16, 32, 64, 128});
        c.k_bits = 2 + below(7);
        c.v_bits = 2 + below(7);
        c.causal = below(4) != 0;
        c.window = c.causal && below(2) == 0 ? 1 + below(300) : 0;
        c.softcap = below(4) == 0 ? 20.0f : 0.0f;
        return c;
    }

 private:
    std::mt19937_64 rng_;
};

Case draw_decode(uint64_t seed) {
    Draw draw(seed);
    Case c = draw.shape({64, 80, 96, 128, 192, 256});
    c.hold = draw.one_of({PagesHold::codes, PagesHold::codes, PagesHold::f16, PagesHold::bf16,
                          PagesHold::fp8_e4m3, PagesHold::fp8_e5m2});
    c.scaling = draw.one_of(
        {codec::fp8::Scaling::one, codec::fp8::Scaling::head, codec::fp8::Scaling::token});
    c.n_queries = 1 + draw.below(6);
    c.lengths.clear();
    for (int32_t n = 1 + draw.below(6); n > 0; --n)
        c.lengths.push_back(draw.below(5) == 0 ? 0 : c.n_queries + draw.below(700));
    return c;
}

// Every request has keys, and no more queries than keys.
Case draw_prefill(uint64_t seed) {
    Draw draw(seed);
    Case c = draw.shape({64, 96, 128, 256});
    c.hold = draw.one_of({PagesHold::codes, PagesHold::codes, PagesHold::f16, PagesHold::bf16});
    c.lengths.clear();
    for (int32_t n = 1 + draw.below(4); n > 0; --n) {
        c.lengths.push_back(1 + draw.below(300));
        c.queries.push_back(1 + draw.below(std::min(c.lengths.back(), 70)));
    }
    return c;
}

// Over bf16, weights have 8 digits too.
QUIRE_GPU_TEST(decode_random_shapes) {
    for (uint64_t seed = 1; seed <= kCases; ++seed) {
        const Case c = draw_decode(seed);
        const World w(c, seed);
        check_rows(w, c, gpu_testing::run_decode(w, c),
                   {.row = c.hold == PagesHold::bf16 ? 6e-3 : 3e-3});
    }
}

// Keys are rounded times their scales, which moves a score of 5 by as much as .005.
QUIRE_GPU_TEST(prefill_random_shapes) {
    for (uint64_t seed = 1; seed <= kCases; ++seed) {
        const Case c = draw_prefill(seed);
        const World w(c, seed);
        check_rows(w, c, gpu_testing::run_prefill(w, c), {.row = 6e-3, .lse = 5e-3});
    }
}

}  // namespace
}  // namespace quire
