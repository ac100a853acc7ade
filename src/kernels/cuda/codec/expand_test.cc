// The threads' shares of a page, put together, are the page.
#include "kernels/cuda/codec/expand.h"

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "codec/hot/hot.h"
#include "core/half.h"

namespace quire::kernels::cuda {
namespace {

namespace hot = codec::hot;

struct Page {
    Page(int k_bits, int v_bits, uint32_t head_dim, uint32_t tokens, uint64_t seed)
        : shape{k_bits, v_bits, head_dim, tokens}, bytes(hot::page_bytes(shape)) {
        std::mt19937_64 rng(seed);
        for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
    }
    uint32_t word(size_t at) const {
        uint32_t out = 0;
        std::memcpy(&out, bytes.data() + at, sizeof out);
        return out;
    }
    // By the definition of layout.h.
    uint32_t code(int bits, size_t side, hot::Place place) const {
        uint32_t code = 0;
        for (int p = 0; p < hot::planes_of(bits).count; ++p) {
            const int width = hot::planes_of(bits).width[p];
            const auto byte = static_cast<uint32_t>(
                bytes[side + hot::plane_offset(shape, bits, p) + hot::byte_in_plane(width, place)]);
            code |= (byte >> hot::bit_in_byte(width, place) & ((1u << width) - 1))
                    << hot::plane_shift(bits, p);
        }
        return code;
    }
    hot::Shape shape;
    std::vector<std::byte> bytes;
};

uint32_t byte_of(uint32_t word, uint32_t i) {
    return word >> (8 * i) & 0xff;
}

template <int kBits>
void check_keys(uint32_t head_dim) {
    const Page page(kBits, 4, head_dim, 64, kBits * 1000u + head_dim);
    const auto load = [&](uint32_t at, uint32_t constant) {
        return page.word(hot::k_offset(page.shape) + at + constant);
    };
    for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t g = lane / 4, t = lane % 4;
        for (uint32_t step = 0; step < head_dim / 16; ++step) {
            for (uint32_t k = 0; k < 2; ++k) {  // columns 2t.. and 2t + 8..
                const CodePair codes = load_codes<kBits>(
                    page.shape, WarpMap::key_row(head_dim, g / 4, step, t, k == 1), g % 4, load);
                for (uint32_t i = 0; i < 4; ++i) {
                    const uint32_t token = WarpMap::first_token(g) + i;
                    const uint32_t dim = 16 * step + 2 * t + 8 * k;
                    ASSERT_EQ(byte_of(codes.low, i),
                              page.code(kBits, hot::k_offset(page.shape),
                                        hot::k_place(page.shape, token, dim)));
                    ASSERT_EQ(byte_of(codes.high, i),
                              page.code(kBits, hot::k_offset(page.shape),
                                        hot::k_place(page.shape, token, dim + 1)));
                }
            }
        }
    }
}

template <int kBits>
void check_values(uint32_t head_dim) {
    const Page page(8, kBits, head_dim, 64, kBits * 1000u + head_dim);
    const size_t side = hot::v_offset(page.shape);
    const auto load = [&](uint32_t at, uint32_t constant) {
        return page.word(side + at + constant);
    };
    std::set<std::pair<uint32_t, uint32_t>> seen;  // token, dimension
    for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t g = lane / 4, t = lane % 4;
        for (uint32_t i = 0; i < (head_dim + 63) / 64; ++i) {
            if (WarpMap::block_pair(g, i) * 32 >= head_dim) continue;
            for (uint32_t tile = 0; tile < 2; ++tile) {
                for (uint32_t k = 0; k < 4; ++k) {
                    const uint32_t token = 8 * t + WarpMap::token_of_column(tile, k);
                    const CodePair codes = load_codes<kBits>(
                        page.shape, WarpMap::value_row(head_dim, 8 * t, tile, k, g, i), g % 4,
                        load);
                    for (uint32_t b = 0; b < 4; ++b) {
                        const uint32_t dim = WarpMap::value_dim(g, i, b);
                        for (const uint32_t d : {dim, dim + 16}) {
                            ASSERT_TRUE(seen.insert({token, d}).second);
                            ASSERT_EQ(byte_of(d == dim ? codes.low : codes.high, b),
                                      page.code(kBits, side, hot::v_place(page.shape, token, d)));
                        }
                    }
                }
            }
        }
    }
    EXPECT_EQ(seen.size(), size_t{32} * head_dim);
}

template <int kBits = hot::kMinBits>
void check_widths(uint32_t head_dim) {
    SCOPED_TRACE(kBits);
    ASSERT_NO_FATAL_FAILURE(check_keys<kBits>(head_dim));
    ASSERT_NO_FATAL_FAILURE(check_values<kBits>(head_dim));
    if constexpr (kBits < hot::kMaxBits) check_widths<kBits + 1>(head_dim);
}

TEST(Expand, ThreadsOfAWarpHaveEveryCodeOfAPage) {
    for (const uint32_t head_dim : {64u, 96u, 128u, 192u, 256u}) {
        SCOPED_TRACE(head_dim);
        check_widths<>(head_dim);
    }
}

// What a row of the scores stands for is what a column of the values' product stands for.
TEST(Expand, ScoresAndValuesMeanTheSameTokens) {
    for (uint32_t t = 0; t < 4; ++t) {
        for (uint32_t tile = 0; tile < 2; ++tile) {
            for (uint32_t k = 0; k < 4; ++k) {
                const uint32_t row = 2 * t + k % 2 + k / 2 * 8;  // of the scores' tile
                const uint32_t token = WarpMap::first_token(row % 8) + 2 * tile + row / 8;
                EXPECT_EQ(8 * t + WarpMap::token_of_column(tile, k), token);
            }
        }
    }
}

TEST(Expand, IntegersBecomeF16) {
    for (uint32_t code = 0; code < 256; ++code) {
        const uint32_t first = code | (255 - code) << 8 | 7u << 16 | code << 24;
        const uint32_t second = 3 | code << 8 | code << 16 | 128u << 24;
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t word = biased_levels(first, second, i / 2).word[i % 2];
            EXPECT_EQ(f16_to_f32(static_cast<uint16_t>(word)),
                      1024.0f + static_cast<float>(byte_of(first, i)));
            EXPECT_EQ(f16_to_f32(static_cast<uint16_t>(word >> 16)),
                      1024.0f + static_cast<float>(byte_of(second, i)));
        }
    }
    EXPECT_EQ(pair_indices<4>(0x01020304, 0x0a0b0c0d), 0xa1b2c3d4u);
    EXPECT_EQ(level_of<4>(0), -2.73258957f);
    EXPECT_EQ(level_of<4>(8), 0.128395030f);
    EXPECT_EQ(level_of<2>(1), -0.452780035f);
    EXPECT_EQ(level_of<6>(0), -32.0f);
}

}  // namespace
}  // namespace quire::kernels::cuda
