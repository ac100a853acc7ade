"""Rows of multi-head latent attention, by vLLM's Triton kernels and by FlashMLA's tests."""

import torch

import inputs

BF16 = torch.bfloat16


def _vllm_v32(rows):
    """The kernel normalises and turns first: huge_eps and its root make the norm a multiplication
    by one, an angle of zero the turn."""
    from vllm.models.deepseek_v32.common.kernels import fused_norm_rope
    tokens, huge_eps = len(rows), 2.0 ** 60
    cache = torch.zeros(1, tokens, 656, dtype=torch.uint8)
    no_turn = torch.cat([torch.ones(1, 32), torch.zeros(1, 32)], 1)
    fused_norm_rope(
        torch.zeros(tokens, dtype=torch.int64), torch.zeros(tokens, 64, dtype=BF16),
        torch.ones(64, dtype=BF16), 1.0, rows[:, :512].contiguous(),
        torch.full((512,), 2.0 ** 30, dtype=BF16), huge_eps, rows[:, 512:].contiguous(), no_turn,
        None, None, None, 0.0, None, torch.zeros(tokens, 8, dtype=torch.int32),
        slot_mapping=torch.arange(tokens), mla_kv_cache=cache, mla_kv_cache_dtype="fp8_ds_mla",
        has_indexer=False)
    return cache[0].numpy().tobytes()


def _vllm_v4(rows):
    """A block's rows, and what vLLM reads from them."""
    from vllm.models.deepseek_v4.common.ops.cache_utils import (
        DequantizeAndGatherKCacheKernel, quantize_and_insert_k_cache)
    tokens = len(rows)
    block = torch.zeros(1, -(-tokens * 584 // 576) * 576, dtype=torch.uint8)
    quantize_and_insert_k_cache(rows, block, torch.arange(tokens), block_size=tokens)
    read = torch.zeros(1, tokens, 512, dtype=BF16)
    DequantizeAndGatherKCacheKernel.kernel[(1, 4)](
        read, *read.stride()[:2], block, torch.tensor([tokens], dtype=torch.int32),
        torch.zeros(1, 1, dtype=torch.int32), 0, None, max_blocks_per_seq=1, fp8_dim=448,
        bf16_dim=64, scale_dim=8, quant_block=64, cache_block_size=tokens, token_data_size=576,
        block_stride=block.stride(0), output_dim=512, fp8_max=448.0, n_quant_blocks=7)
    return block[0, :tokens * 584].numpy().tobytes() + inputs.crc_of(read)


def vllm_vectors():
    """V3.2's rows, V4's block, the checksum of V4 read back."""
    return _vllm_v32(inputs.mla_rows(576)) + _vllm_v4(inputs.mla_rows(512))


def flashmla_vectors(quant):
    """Rows of V3.2 and V4 as FlashMLA's tests write them, each with the checksum of its reading."""
    out = b""
    for dim, layout in ((576, quant.FP8KVCacheLayout.V32_FP8Sparse),
                        (512, quant.FP8KVCacheLayout.MODEL1_FP8Sparse)):
        rows = inputs.mla_rows(dim)
        cache = quant.quantize_k_cache(rows.view(1, len(rows), 1, dim), layout)
        data = bytearray(cache.contiguous().view(torch.uint8).numpy().tobytes())
        if dim == 512:  # the eighth byte of a token's scales is not written
            data[len(rows) * 576 + 7::8] = bytes(len(rows))
        out += bytes(data) + inputs.crc_of(quant.dequantize_k_cache(cache, layout))
    return out
