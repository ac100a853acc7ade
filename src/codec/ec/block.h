// A block of ec: some tokens of one chain of layers, as bytes.
//
// A chain is what is decoded in order, each layer foretold from those before it: layers of one
// model that have the same kind and window (chains_of). Blocks of a chain are independent of each
// other, so blocks can be coded in parallel. README.md has formulas and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "codec/ec/ec.h"

namespace quire::codec::ec {

struct Kernels;

inline constexpr uint32_t kBlockTokensMax = 1024;

// Rows of one layer, [kv_heads][tokens][head_dim]; keys as they were before RoPE.
struct LayerRows {
    std::span<float> k;
    std::span<float> v;
};

// Layers of the same kind and window, ascending, in the order of their first layers.
std::vector<std::vector<uint16_t>> chains_of(std::span<const SidecarLayer> layers);

// Memory that coding needs, kept from one block to the next: one for each thread that codes.
class BlockScratch {
 public:
    BlockScratch();
    ~BlockScratch();
    BlockScratch(BlockScratch&&) noexcept;
    BlockScratch& operator=(BlockScratch&&) noexcept;

 private:
    friend class BlockCoder;
    struct Buffers;
    std::unique_ptr<Buffers> buffers_;
};

// Immutable; any thread. Copies share what they know.
class BlockCoder {
 public:
    // Called with the layer's place in the chain.
    using Rows = std::function<void(uint32_t, const LayerRows&)>;

    // `chain`: model layer numbers. `bits` a number, over the whole model: the step is the same for
    // all its chains. Nothing of `model` is needed afterwards.
    // invalid: no chain of layers of the model; unsupported: the model foretells a layer from
    // others than those before it in the chain, or has heads whose size is no multiple of 16.
    static Result<BlockCoder> create(const Model& model, std::vector<uint16_t> chain, double bits);

    uint32_t layers() const;
    // The instruction set that codes; the bytes and the rows do not depend on it.
    void use(const Kernels& kernels) { kernels_ = &kernels; }

    // `read` fills the rows of one layer, one after the other. Appends the block to `out`; returns
    // how many rows had a number that is not finite: those come back as what was expected of them.
    // REQUIRES: 0 < tokens <= kBlockTokensMax.
    uint32_t encode(uint32_t tokens, const Rows& read, BlockScratch* scratch,
                    std::vector<std::byte>* out) const;

    // Hands every layer's rows to `landed`, in order. Blocks of any number of bits can be read.
    // corrupt: the bytes were not written for this model, chain and number of tokens, which shows
    // at the end only; any bytes are safe. Rows are good when all is well.
    // REQUIRES: as above.
    Status decode(std::span<const std::byte> bytes, uint32_t tokens, const Rows& landed,
                  BlockScratch* scratch) const;

 private:
    struct Chain;
    struct Encoding;
    struct Decoding;
    BlockCoder(std::shared_ptr<const Chain> chain, const Kernels& kernels)
        : chain_(std::move(chain)), kernels_(&kernels) {}

    std::shared_ptr<const Chain> chain_;
    const Kernels* kernels_;
};

}  // namespace quire::codec::ec
