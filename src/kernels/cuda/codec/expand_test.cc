// The threads' shares of a chunk, put together, are the page; no two words of a warp share a bank.
#include "kernels/cuda/codec/expand.h"

#include <array>
#include <cstring>
#include <map>
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

// Two groups of pages of `tokens` tokens in a slot.
template <uint32_t kHeadDim, int kKeyBits, int kValueBits>
struct Chunk {
    using Map = ChunkMap<kHeadDim>;

    Chunk(uint32_t tokens, uint64_t seed)
        : pages{Page(kKeyBits, kValueBits, kHeadDim, tokens, seed),
                Page(kKeyBits, kValueBits, kHeadDim, tokens, seed + 1)},
          index{tokens / 16 - 1, 0},
          slot(Map::slot_bytes(kKeyBits, kValueBits)) {
        fill<kKeyBits, true>(0, hot::k_offset(pages[0].shape));
        fill<kValueBits, false>(Map::v_at(kKeyBits), hot::v_offset(pages[0].shape));
    }
    // As a warp's lanes bring a side.
    template <int kBits, bool kKeys>
    void fill(uint32_t side, size_t page_side) {
        std::set<uint32_t> filled;
        for (uint32_t lane = 0; lane < 32; ++lane)
            copy_side<kHeadDim, kBits, kKeys>(
                lane, pages[0].shape.tokens, [&](const VectorCopy& copy) {
                    const uint32_t to = copy.to + copy.to_constant;
                    const size_t from =
                        copy.from + copy.from_constant + index[copy.group] * copy.step + page_side;
                    EXPECT_EQ((to | from) % 16, 0u);
                    EXPECT_TRUE(filled.insert(to).second) << "two vectors at " << to;
                    std::memcpy(slot.data() + side + to, pages[copy.group].bytes.data() + from, 16);
                });
        EXPECT_EQ(filled.size(), size_t{2} * kHeadDim * kBits / 8);
        EXPECT_LE(*filled.rbegin() + 16,
                  kKeys ? Map::v_at(kBits) : Map::scales_at(kKeyBits, kBits) - side);
    }
    uint32_t code(bool keys, uint32_t token, uint32_t dim) const {
        const Page& page = pages[token / 16];
        const uint32_t in_page = index[token / 16] * 16 + token % 16;
        return keys ? page.code(kKeyBits, hot::k_offset(page.shape),
                                hot::k_place(page.shape, in_page, dim))
                    : page.code(kValueBits, hot::v_offset(page.shape),
                                hot::v_place(page.shape, in_page, dim));
    }
    uint32_t word(uint32_t at) const {
        uint32_t out = 0;
        std::memcpy(&out, slot.data() + at, sizeof out);
        return out;
    }
    std::array<Page, 2> pages;
    uint32_t index[2];
    std::vector<std::byte> slot;
};

uint32_t byte_of(uint32_t word, uint32_t i) {
    return word >> (8 * i) & 0xff;
}

// Every lane's words of one load, in order: a warp must not ask one bank for two of them.
class Banks {
 public:
    void begin_lane() { next_ = 0; }
    void read(uint32_t at) {
        if (next_ == words_.size()) words_.emplace_back();
        words_[next_++][at / 4 % 32].insert(at);
    }
    size_t worst() const {
        size_t most = 0;
        for (const auto& load : words_)
            for (const auto& [bank, words] : load) most = std::max(most, words.size());
        return most;
    }

 private:
    std::vector<std::map<uint32_t, std::set<uint32_t>>> words_;
    size_t next_ = 0;
};

template <uint32_t kHeadDim, int kBits>
void check_keys(uint32_t tokens) {
    const Chunk<kHeadDim, kBits, 10 - kBits> chunk(tokens, kBits * 1000u + kHeadDim);
    Banks banks;
    for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t g = lane / 4, t = lane % 4;
        banks.begin_lane();
        const auto load = [&](uint32_t at) {
            banks.read(at);
            return chunk.word(at);
        };
        for (uint32_t step = 0; step < kHeadDim / 16; ++step) {
            const auto expect = [&](uint32_t r, uint32_t token, uint32_t code) {
                ASSERT_EQ(code, chunk.code(true, first_token(g) + token, k_dim(kBits, step, t, r)))
                    << "lane " << lane << " step " << step << " row " << r << " token " << token;
            };
            if constexpr (kBits <= 4) {
                const IndexPair index = k_indices<kHeadDim, kBits>(g, t, step, load);
                for (uint32_t i = 0; i < 4; ++i) {
                    for (uint32_t half = 0; half < 2; ++half) {
                        const uint32_t word = half == 0 || kBits == 2 ? index.near : index.far;
                        const CodesOfEntry codes = k_entry(kBits, byte_of(word, i), half);
                        expect(2 * half, i, codes.first);
                        expect(2 * half + 1, i, codes.second);
                    }
                }
            } else {
                const CodeRows<4> codes = k_codes<kHeadDim, kBits>(g, t, step, load);
                for (uint32_t r = 0; r < 4; ++r)
                    for (uint32_t i = 0; i < 4; ++i) expect(r, i, byte_of(codes.row[r], i));
            }
        }
    }
    EXPECT_EQ(banks.worst(), kBits == 8 ? 2u : 1u) << "K of " << kBits << " bits";
}

template <uint32_t kHeadDim, int kBits>
void check_values(uint32_t tokens) {
    using Map = ChunkMap<kHeadDim>;
    const Chunk<kHeadDim, 10 - kBits, kBits> chunk(tokens, kBits * 1000u + kHeadDim);
    constexpr uint32_t kValues = Map::v_at(10 - kBits);
    Banks banks;
    std::set<std::pair<uint32_t, uint32_t>> seen;  // token, dimension
    for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t g = lane / 4, t = lane % 4;
        banks.begin_lane();
        const auto load = [&](uint32_t at) {
            banks.read(at);
            return chunk.word(kValues + at);
        };
        for (uint32_t i = 0; i < Map::kParts; ++i) {
            const auto expect = [&](uint32_t k, uint32_t b, uint32_t far, uint32_t code) {
                if (!Map::has_row(g, i, far)) return;
                const uint32_t token = 8 * t + k, dim = Map::value_dim(g, i, b) + 16 * far;
                ASSERT_TRUE(seen.insert({token, dim}).second);
                ASSERT_EQ(code, chunk.code(false, token, dim))
                    << "lane " << lane << " part " << i << " token " << k << " byte " << b;
            };
            for (uint32_t k = 0; k < (kBits <= 4 ? 4 : 8); ++k) {
                if constexpr (kBits <= 4) {
                    const IndexPair index = v_indices<kHeadDim, kBits>(g, t, k, i, load);
                    for (uint32_t b = 0; b < 4; ++b) {
                        for (uint32_t far = 0; far < 2; ++far) {
                            const uint32_t word = far == 0 || kBits == 2 ? index.near : index.far;
                            const CodesOfEntry codes = v_entry(kBits, byte_of(word, b), far);
                            expect(k, b, far, codes.first);
                            expect(k + 4, b, far, codes.second);
                        }
                    }
                } else {
                    const CodeRows<2> codes = v_codes<kHeadDim, kBits>(g, t, k, i, load);
                    for (uint32_t b = 0; b < 4; ++b)
                        for (uint32_t far = 0; far < 2; ++far)
                            expect(k, b, far, byte_of(codes.row[far], b));
                }
            }
        }
    }
    EXPECT_EQ(seen.size(), size_t{32} * kHeadDim);
    if (Map::kPowerOfTwo && kBits < 8) {
        EXPECT_EQ(banks.worst(), 1u) << "V of " << kBits << " bits";
    } else {
        EXPECT_LE(banks.worst(), 2u) << "V of " << kBits << " bits";
    }
}

template <uint32_t kHeadDim, int kBits = hot::kMinBits>
void check_widths() {
    SCOPED_TRACE(kHeadDim);
    SCOPED_TRACE(kBits);
    for (const uint32_t tokens : {16u, 64u}) {
        ASSERT_NO_FATAL_FAILURE((check_keys<kHeadDim, kBits>(tokens)));
        ASSERT_NO_FATAL_FAILURE((check_values<kHeadDim, kBits>(tokens)));
    }
    if constexpr (kBits < hot::kMaxBits) check_widths<kHeadDim, kBits + 1>();
}

TEST(Expand, ThreadsOfAWarpHaveEveryCodeOfAChunk) {
    check_widths<64>();
    check_widths<80>();
    check_widths<96>();
    check_widths<128>();
    check_widths<192>();
    check_widths<256>();
}

// What a row of the scores stands for is what a column of the values' product stands for: token
// first_token(g) + i is row g or g + 8 of tile i / 2, and in the transposed weights column 2t or
// 2t + 1 (g = 2t, 2t + 1) of the same tile.
TEST(Expand, ScoresAndValuesMeanTheSameTokens) {
    for (uint32_t g = 0; g < 8; ++g)
        for (uint32_t i = 0; i < 4; ++i)
            EXPECT_EQ(first_token(g) + i, 8 * (g / 2) + (g % 2 == 0 ? i : i + 4));
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
    EXPECT_EQ(level_of(4, 0), -2.73258957f);
    EXPECT_EQ(level_of(4, 8), 0.128395030f);
    EXPECT_EQ(level_of(2, 1), -0.452780035f);
    EXPECT_EQ(level_of(6, 0), -32.0f);
}

}  // namespace
}  // namespace quire::kernels::cuda
