// A block in two parts that can be fetched one after the other: a base that alone gives coarse
// rows, and a refinement that makes them fine. README.md has the formulas and what it costs.
#pragma once

#include <vector>

#include "codec/ec/block.h"

namespace quire::codec::ec {

// Memory that coding needs, kept from one block to the next: one for each thread that codes.
struct LayeredScratch {
    BlockScratch block;
    std::vector<std::vector<float>> rows;  // [layer] keys, then values
    std::vector<std::byte> base;
};

// Immutable; any thread.
class LayeredCoder {
 public:
    // `base_bits` and `more_bits` a number. As BlockCoder::create.
    static Result<LayeredCoder> create(const Model& model, const std::vector<uint16_t>& chain,
                                       double base_bits, double more_bits);

    // The base is a block of this coder's own.
    const BlockCoder& base() const { return base_; }

    // As BlockCoder::encode, in two parts, each appended to its own bytes.
    uint32_t encode(uint32_t tokens, const BlockCoder::Rows& read, LayeredScratch* scratch,
                    std::vector<std::byte>* base, std::vector<std::byte>* refinement) const;
    // As BlockCoder::decode, from both parts. corrupt as well: parts of different blocks or coders,
    // as far as that shows.
    Status decode(std::span<const std::byte> base, std::span<const std::byte> refinement,
                  uint32_t tokens, const BlockCoder::Rows& landed, LayeredScratch* scratch) const;

 private:
    LayeredCoder(BlockCoder base, BlockCoder refinement)
        : base_(std::move(base)), refinement_(std::move(refinement)) {}
    Status decode_base(std::span<const std::byte> bytes, uint32_t tokens,
                       LayeredScratch* scratch) const;

    BlockCoder base_;
    BlockCoder refinement_;  // of rows less what the base gives
};

}  // namespace quire::codec::ec
