// What only the device can see to be wrong ends the kernel, in a checked build, with words that say
// what it was.
#if defined(QUIRE_CHECKED)
#include "check.h"
#include "device_memory.h"
#include "kernels/cuda/attn/decode.h"
#include "kernels/cuda/copy/copy.h"
#include "kernels/cuda/encode_interop.h"

namespace quire {
namespace {

using gpu_testing::check_cuda;
using gpu_testing::DeviceArray;
using kernels::cuda::DecodeParams;
using kernels::cuda::EncodeParams;
using kernels::cuda::InteropFormat;

constexpr int32_t kHeadDim = 64, kBlockTokens = 16, kBlocks = 3;
constexpr int64_t kPageBytes = 4096;

// One row, to `slot`.
template <class Params>
Params one_row(const DeviceArray<uint16_t>& rows, const DeviceArray<int64_t>& slot,
               const DeviceArray<std::byte>& pages) {
    Params p;
    p.k.rows = p.v.rows = rows.data();
    p.k.token_stride = p.k.head_stride = p.v.token_stride = p.v.head_stride = kHeadDim;
    p.n_tokens = p.kv_heads = 1;
    p.head_dim = kHeadDim;
    p.block_tokens = kBlockTokens;
    p.slots = slot.data();
    p.pages = pages.data();
    p.n_blocks = kBlocks;
    p.block_stride = p.head_stride = kPageBytes;
    return p;
}

void encode_to_slot(int64_t at, bool interop) {
    const DeviceArray<uint16_t> rows{std::vector<uint16_t>(kHeadDim)};
    const DeviceArray<int64_t> slot(std::vector<int64_t>{at});
    const DeviceArray<std::byte> pages{std::vector<std::byte>(kPageBytes * kBlocks)};
    if (interop) {
        auto p = one_row<kernels::cuda::EncodeInteropParams>(rows, slot, pages);
        p.format = InteropFormat::turboquant_k8v4;
        check_cuda(kernels::cuda::encode_interop(p, nullptr), "encode_interop");
    } else {
        auto p = one_row<EncodeParams>(rows, slot, pages);
        p.k.bits = p.v.bits = 4;
        check_cuda(kernels::cuda::encode(p, nullptr), "encode");
    }
    check_cuda(cudaDeviceSynchronize(), "the kernel");
}

QUIRE_GPU_TEST(checked_good_slots_pass) {
    for (const bool interop : {false, true}) {
        encode_to_slot(kBlocks * kBlockTokens - 1, interop);
        encode_to_slot(-1, interop);
    }
}
QUIRE_GPU_DEATH_TEST(checked_slot_behind_the_last_block, "slots: one is behind the last block") {
    encode_to_slot(kBlocks * kBlockTokens, false);
}
QUIRE_GPU_DEATH_TEST(checked_interop_slot, "slots: one is behind the last block") {
    encode_to_slot(kBlocks * kBlockTokens, true);
}

// A request of `keys` keys and two queries, whose blocks are all `block`.
void attend(int32_t keys, int32_t block) {
    const DeviceArray<float> q(std::vector<float>(2 * kHeadDim, 1.0f));
    const DeviceArray<float> out(std::vector<float>(2 * kHeadDim));
    const DeviceArray<int32_t> length(std::vector<int32_t>{keys});
    const DeviceArray<int32_t> blocks(std::vector<int32_t>(kBlocks, block));
    const DeviceArray<std::byte> pages{std::vector<std::byte>(kPageBytes * kBlocks)};
    DecodeParams p;
    p.q = q.data();
    p.out = out.data();
    p.q_token_stride = p.q_head_stride = p.out_token_stride = p.out_head_stride = kHeadDim;
    p.element = kernels::cuda::Numbers::f32;
    p.n_requests = p.n_heads = p.kv_heads = 1;
    p.n_queries = 2;
    p.head_dim = kHeadDim;
    p.block_tokens = kBlockTokens;
    p.scale = 1.0f;
    p.lengths = length.data();
    p.blocks = blocks.data();
    p.table_stride = kBlocks;
    p.pages = pages.data();
    p.n_blocks = kBlocks;
    p.block_stride = p.head_stride = kPageBytes;
    p.k_bits = p.v_bits = 4;
    const int32_t workers = kernels::cuda::decode_blocks();
    CHECK(workers > 0, "decode_blocks: " << workers);
    const DeviceArray<std::byte> workspace(
        std::vector<std::byte>(kernels::cuda::decode_workspace_bytes(p, workers)));
    p.workspace = workspace.data();
    const char* why = kernels::cuda::decode_supports(p);
    CHECK(why == nullptr, why);
    check_cuda(kernels::cuda::decode(p, workers, nullptr), "decode");
    check_cuda(cudaDeviceSynchronize(), "the kernel");
}

QUIRE_GPU_TEST(checked_good_tables_pass) {
    attend(kBlocks * kBlockTokens, kBlocks - 1);
    attend(0, kBlocks);
}
QUIRE_GPU_DEATH_TEST(checked_block_behind_the_last, "blocks: there is no block of that number") {
    attend(kBlockTokens, kBlocks);
}
QUIRE_GPU_DEATH_TEST(checked_negative_block, "blocks: there is no block of that number") {
    attend(kBlockTokens, -1);
}
QUIRE_GPU_DEATH_TEST(checked_fewer_keys_than_queries, "lengths: one is less than n_queries") {
    attend(1, 0);
}
QUIRE_GPU_DEATH_TEST(checked_more_keys_than_blocks, "more keys than its row of blocks") {
    attend(kBlocks * kBlockTokens + 1, 0);
}

QUIRE_GPU_DEATH_TEST(checked_misaligned_piece, "pieces: one is not of whole 16 bytes") {
    const DeviceArray<std::byte> memory{std::vector<std::byte>(256)};
    kernels::cuda::CopyPiece piece{};
    piece.from = reinterpret_cast<decltype(piece.from)>(memory.data() + 8);
    piece.to = reinterpret_cast<decltype(piece.to)>(memory.data() + 128);
    piece.bytes = 16;
    const DeviceArray<kernels::cuda::CopyPiece> pieces(
        std::vector<kernels::cuda::CopyPiece>{piece});
    check_cuda(kernels::cuda::copy_pieces({.pieces = pieces.data(), .n = 1}, nullptr), "copy");
    check_cuda(cudaDeviceSynchronize(), "the kernel");
}

}  // namespace
}  // namespace quire
#endif
