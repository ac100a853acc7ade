// Writing rows into pages: bytes against the bit-by-bit conversions, threads against each other.
#include <gtest/gtest.h>

#include "kernels/attention_fixture.h"
#include "kernels/ref/half.h"

namespace quire::kernels {
namespace {

using testing::Geometry;
using testing::runnable_ops;
using testing::World;

std::vector<uint16_t> page_words(const World& w) {
    std::vector<uint16_t> words;
    const size_t bytes = w.shape.layer_offset + w.shape.n_kv_heads * w.shape.page_bytes;
    for (const std::byte* slab : w.slabs) {
        const auto* p = reinterpret_cast<const uint16_t*>(slab);
        words.insert(words.end(), p, p + bytes / 2);
    }
    return words;
}

TEST(Store, AllIsasAndThreadCountsWriteTheSameBytes) {
    for (Element e : {Element::f16, Element::bf16}) {
        for (int block : {16, 48}) {
            const Geometry g{
                .n_heads = 2, .n_kv_heads = 2, .head_dim = 80, .block_tokens = block, .element = e};
            const World expected(g, 200, 1);
            expected.store_all(attention_table()[0]);
            for (const AttentionOps* ops : runnable_ops()) {
                for (int n_threads = 1; n_threads <= 3; ++n_threads) {
                    const World w(g, 200, 1);
                    std::vector<StoreSequence> rows;  // ragged pieces, as chunks and decodes come
                    for (int first = 0, n = 1; first < 200; first += n, n = n * 3 % 50)
                        rows.push_back(w.store_rows(first, std::min(n, 200 - first)));
                    for (int t = 0; t < n_threads; ++t) ops->store(w.shape, rows, t, n_threads);
                    EXPECT_EQ(page_words(expected), page_words(w))
                        << ops->name << " block " << block << " threads " << n_threads;
                }
            }
        }
    }
}

TEST(Store, KIsDimMajorAndVIsTokenMajor) {
    const Geometry g{.n_heads = 1, .n_kv_heads = 1, .head_dim = 16};
    World w(g, 16, 1);
    for (int t = 0; t < 16; ++t)
        for (int d = 0; d < 16; ++d) w.k[t * 16 + d] = t * 16 + d, w.v[t * 16 + d] = -(t * 16 + d);
    for (const AttentionOps* ops : runnable_ops()) {
        w.store_all(*ops);
        const auto* page = reinterpret_cast<const uint16_t*>(w.slabs[0] + w.shape.layer_offset);
        for (int t = 0; t < 16; ++t) {
            for (int d = 0; d < 16; ++d) {
                ASSERT_EQ(ref::f16_to_f32(page[d * 16 + t]), t * 16 + d);
                ASSERT_EQ(ref::f16_to_f32(page[256 + t * 16 + d]), -(t * 16 + d));
            }
        }
    }
}

// Every class of float: a page of them through each ISA equals the bit-by-bit conversion.
TEST(Store, RoundsEveryKindOfNumberAsTheOracleDoes) {
    std::vector<float> numbers;
    std::mt19937 rng(7);
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
        for (uint32_t mantissa :
             {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0x3000u, 0x18000u,
              0x7fffffu, 0x7fe000u, 0x7ff000u, uint32_t(rng() >> 9)})
            for (uint32_t sign : {0u, 1u})
                numbers.push_back(std::bit_cast<float>(sign << 31 | exponent << 23 | mantissa));
    while (numbers.size() % 256 != 0) numbers.push_back(0.0f);
    for (Element e : {Element::f16, Element::bf16}) {
        const Geometry g{.n_heads = 1, .n_kv_heads = 1, .head_dim = 16, .element = e};
        const int tokens = static_cast<int>(numbers.size() / 16);
        for (const AttentionOps* ops : runnable_ops()) {
            World w(g, tokens, 1);
            w.v = numbers;
            w.store_all(*ops);
            for (int t = 0; t < tokens; ++t) {
                const auto* page =
                    reinterpret_cast<const uint16_t*>(w.slabs[t / 16] + w.shape.layer_offset);
                for (int d = 0; d < 16; ++d)
                    ASSERT_EQ(page[256 + t % 16 * 16 + d], ref::from_f32(e, numbers[t * 16 + d]))
                        << ops->name << " " << std::hexfloat << numbers[t * 16 + d];
            }
        }
    }
}

}  // namespace
}  // namespace quire::kernels
