#include "codec/vectors/mla_vectors.h"

#include <array>
#include <span>

#include "codec/mla/rows.h"
#include "codec/vectors/golden.h"

namespace quire::codec {

std::vector<std::byte> mla_vectors() {
    constexpr uint32_t kTokens = 16;
    std::vector<std::byte> all;
    const GoldenInput v32 = golden_input(mla::kV32Numbers, kTokens, 1);
    for (const mla::TileScale scale : {mla::TileScale::power_of_two, mla::TileScale::exact})
        for (uint32_t t = 0; t < kTokens; ++t) {
            std::array<std::byte, mla::kV32Bytes> row;
            const float* in = v32.k.data() + size_t{t} * mla::kV32Numbers;
            mla::encode_v32(std::span<const float, mla::kV32Numbers>(in, mla::kV32Numbers), scale,
                            row);
            all.insert(all.end(), row.begin(), row.end());
        }
    const GoldenInput v4 = golden_input(mla::kV4Numbers, kTokens, 1);
    std::vector<std::byte> block(mla::v4_block_bytes(kTokens));
    for (uint32_t t = 0; t < kTokens; ++t) {
        const float* in = v4.k.data() + size_t{t} * mla::kV4Numbers;
        mla::encode_v4(std::span<const float, mla::kV4Numbers>(in, mla::kV4Numbers), kTokens, t,
                       block);
    }
    all.insert(all.end(), block.begin(), block.end());
    return all;
}

}  // namespace quire::codec
