// slots against what vLLM's kernels do; conformance_test.cc has what every codec keeps, and
// tests/python/slots_codec.py says the format a second time.
#include "codec/slots/slots.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "codec/slots/table.h"
#include "codec/testing/pages.h"
#include "core/half.h"

namespace quire::codec {
namespace {

using namespace testing;

uint16_t word_at(const std::byte* p) {
    uint16_t word;
    std::memcpy(&word, p, sizeof(word));
    return word;
}

Page encoded(const char* name, const Rows& rows) {
    const CodecSpec spec = *find_codec(name);
    Page page(spec, rows.g, 0);
    encode(row_of(spec).ops()[0], spec, rows, page);
    return page;
}

TEST(Slots, HaveTheSizesOfVllm) {
    struct Size {
        const char* name;
        size_t bytes[3];
    };
    for (const Size& size : {Size{"turboquant_k8v4", {100, 196, 388}},
                             {"turboquant_4bit_nc", {70, 134, 262}},
                             {"turboquant_k3v4_nc", {62, 118, 230}},
                             {"turboquant_3bit_nc", {54, 102, 198}}})
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(page_bytes(*find_codec(size.name), {.head_dim = 64u << i}),
                      16 * size.bytes[i])
                << size.name;
}

TEST(Slots, RotatedPresetsWantAPowerOfTwo) {
    EXPECT_EQ(check_geometry(*find_codec("turboquant_3bit_nc"), {.head_dim = 96}).code(),
              Code::unsupported);
    EXPECT_TRUE(check_geometry(*find_codec("turboquant_k8v4"), {.head_dim = 96}).ok());
}

// A key along one row of the Hadamard matrix is one number after the rotation, and values on the
// grid have their codes, so that every byte is known.
TEST(Slots, TheBytesLieAsTheReadmeSays) {
    Rows rows({.head_dim = 64}, Kind::zeros, 1);
    for (int d = 0; d < 64; ++d) {
        rows.k[d] = 0.5f;                               // norm 4; rotated: 4, 0, 0, ...
        rows.v[d] = static_cast<float>(d % 16) - 3.0f;  // codes d % 16, step 1, minimum -3
    }
    const Page four = encoded("turboquant_4bit_nc", rows);
    EXPECT_EQ(four.data()[0], std::byte{0x8f});  // +1 is the outermost code, 0 the upper middle one
    EXPECT_EQ(four.data()[1], std::byte{0x88});
    EXPECT_EQ(word_at(four.data() + 32), f32_to_f16(4.0f));
    EXPECT_EQ(four.data()[34], std::byte{0x10});
    EXPECT_EQ(four.data()[35], std::byte{0x32});
    EXPECT_EQ(word_at(four.data() + 66), f32_to_f16(1.0f));
    EXPECT_EQ(word_at(four.data() + 68), f32_to_f16(-3.0f));

    for (int d = 0; d < 64; ++d) rows.v[d] = static_cast<float>(d % 8);
    const Page three = encoded("turboquant_3bit_nc", rows);
    EXPECT_EQ(three.data()[0], std::byte{0x27});  // 7, 4, and the low bits of 4
    EXPECT_EQ(word_at(three.data() + 24), f32_to_f16(4.0f));
    // 0 to 7 at bits 0, 3, ...: 0b111110101100011010001000.
    EXPECT_EQ(three.data()[26], std::byte{0x88});
    EXPECT_EQ(three.data()[27], std::byte{0xc6});
    EXPECT_EQ(three.data()[28], std::byte{0xfa});
}

TEST(Slots, BothLayoutsHoldTheSameBytes) {
    for (const std::string name : {"turboquant_4bit_nc", "turboquant_k3v4_nc"}) {
        const Rows rows({.head_dim = 128, .block_tokens = 32}, Kind::normal, 3);
        const Page slot = encoded(name.c_str(), rows);
        const Page planes = encoded((name + "_qgroup4").c_str(), rows);
        const slots::Shape s = slots::shape_of(*find_codec(name), rows.g);
        slots::Shape p = s;
        p.is_planes = true;
        std::vector<int> hits(planes.size());
        for (uint32_t t = 0; t < 32; ++t)
            for (uint32_t i = 0; i < s.slot_bytes(); ++i) {
                const size_t at = slots::byte_at(p, t, i);
                ASSERT_EQ(planes.data()[at], slot.data()[slots::byte_at(s, t, i)]);
                ++hits.at(at);
            }
        EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), static_cast<long>(hits.size()));
    }
}

TEST(Slots, ARowThatOverflowsIsZero) {
    for (const CodecSpec& spec : row_of(*find_codec("turboquant_k8v4")).specs()) {
        Rows rows({.head_dim = 64}, Kind::normal, 4);
        for (int d = 0; d < 64; ++d) rows.k[64 + d] = rows.v[64 + d] = d % 2 == 0 ? 3e38f : -3e38f;
        Page page(spec, rows.g, 0);
        const PageCodecOps& ops = best_ops(row_of(spec));
        EXPECT_EQ(encode(ops, spec, rows, page), 0u);
        const Decoded out = decode(ops, spec, rows, page);
        const bool saturates = spec.k_bits == 8;
        for (int d = 0; d < 64; ++d) {
            EXPECT_EQ(std::fabs(out.k[64 + d]), saturates ? 448.0f : 0.0f);
            EXPECT_EQ(out.v[64 + d], 0.0f);
        }
    }
}

// As a GPU's minimum has it; tests/golden/interop has a row of such zeros alone.
TEST(Slots, AMinimumOfZerosHasTheSignOfTheSmaller) {
    Rows rows({.head_dim = 64}, Kind::zeros, 7);
    rows.v[0] = 1.0f;
    rows.v[64] = 1.0f;
    rows.v[64 + 40] = -0.0f;
    for (const PageCodecOps& ops : row_of(*find_codec("turboquant_k8v4")).ops()) {
        if (!ops.cpu_has_it()) continue;
        const CodecSpec spec = *find_codec("turboquant_k8v4");
        Page page(spec, rows.g, 0);
        encode(ops, spec, rows, page);
        EXPECT_EQ(word_at(page.data() + 98), 0x0000) << ops.name;
        EXPECT_EQ(word_at(page.data() + 198), 0x8000) << ops.name;
    }
}

TEST(Slots, NormCorrectionGivesTheKeyItsNorm) {
    const CodecSpec spec = *find_codec("turboquant_3bit_nc");
    const Rows rows({.head_dim = 128}, Kind::heavy_tails, 6);
    Page page(spec, rows.g, 0);
    encode(best_ops(row_of(spec)), spec, rows, page);
    const Decoded out = decode(best_ops(row_of(spec)), spec, rows, page);
    for (int t = 0; t < 16; ++t) {
        double in = 0, coded = 0;
        for (int d = 0; d < 128; ++d) {
            in += double{rows.k[t * 128 + d]} * rows.k[t * 128 + d];
            coded += double{out.k[t * 128 + d]} * out.k[t * 128 + d];
        }
        EXPECT_NEAR(coded / in, 1, 0.002) << t;
    }
}

// Relative errors of normal numbers: Lloyd-Max levels come to .0345 and .0095 (with the row's own
// norm a little less), an unclipped grid over head_dim numbers to more.
TEST(Slots, ErrorOfNormalRows) {
    struct Error {
        const char* name;
        double k, v;
    };
    for (const Error& expected : {Error{"turboquant_k8v4", 7.1e-4, 0.0099},
                                  {"turboquant_4bit_nc", 0.0094, 0.0099},
                                  {"turboquant_k3v4_nc", 0.0345, 0.0099},
                                  {"turboquant_3bit_nc", 0.0345, 0.0455}}) {
        const CodecSpec spec = *find_codec(expected.name);
        const Rows rows({.head_dim = 128, .block_tokens = 256}, Kind::normal, 5);
        Page page(spec, rows.g, 0);
        encode(best_ops(row_of(spec)), spec, rows, page);
        const Decoded out = decode(best_ops(row_of(spec)), spec, rows, page);
        EXPECT_NEAR(relative_error(rows, rows.k, out.k) / expected.k, 1, 0.05) << expected.name;
        EXPECT_NEAR(relative_error(rows, rows.v, out.v) / expected.v, 1, 0.05) << expected.name;
    }
}

}  // namespace
}  // namespace quire::codec
