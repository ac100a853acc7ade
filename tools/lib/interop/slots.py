"""vLLM's TurboQuant slots: written by its store kernel, read by its kernel for long prefills."""

import torch

import inputs

BLOCKS, BLOCK = 3, 16
UNTOUCHED = 0xa5


def presets():
    from vllm.model_executor.layers.quantization.turboquant.config import TQ_PRESETS
    return list(TQ_PRESETS)


def _tables(config):
    """Rotation, levels and their midpoints, as TurboQuantAttentionImpl prepares them."""
    from vllm.model_executor.layers.quantization.turboquant.centroids import get_centroids
    from vllm.v1.attention.backends.turboquant_attn import _build_hadamard
    levels = get_centroids(config.head_dim, config.centroid_bits)
    ordered, _ = levels.sort()
    return _build_hadamard(config.head_dim, "cpu"), levels, (ordered[:-1] + ordered[1:]) / 2


def _config(preset, dim):
    from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig
    return TurboQuantConfig.from_cache_dtype(preset, dim)


def write(preset, k, v):
    """K and V [tokens][heads][dim] -> slots [tokens][heads][bytes], and the whole cache."""
    from vllm.v1.attention.ops.triton_turboquant_store import triton_turboquant_store
    config = _config(preset, k.shape[2])
    cache = torch.full((BLOCKS, BLOCK, k.shape[1], config.slot_size_aligned), UNTOUCHED,
                       dtype=torch.uint8)
    where = torch.tensor([(7 * t + 3) % (BLOCKS * BLOCK) for t in range(len(k))])
    rotation, _, midpoints = _tables(config)
    triton_turboquant_store(k, v, cache, where.to(torch.int32), rotation, midpoints,
                            mse_bits=config.key_mse_bits, key_packed_size=config.key_packed_size,
                            value_quant_bits=config.effective_value_quant_bits,
                            key_fp8=config.key_fp8)
    slots = cache.reshape(BLOCKS * BLOCK, k.shape[1], -1)
    others = torch.ones(len(slots), dtype=torch.bool)
    others[where] = False
    assert (slots[others] == UNTOUCHED).all(), "a slot of no token was written"
    return slots[where], cache


def read(preset, dim, slots):
    """Slots [tokens][heads][bytes] -> K in the codec's space and V, f16 [tokens][heads][dim]."""
    from vllm.v1.attention.ops.triton_turboquant_decode import _tq_full_dequant_kv
    config = _config(preset, dim)
    tokens, heads, _ = slots.shape
    cache = torch.zeros((1, BLOCK, *slots.shape[1:]), dtype=torch.uint8)
    cache[0, :tokens] = slots
    k, v = (torch.zeros(1, heads, tokens, dim, dtype=torch.float16) for _ in range(2))
    _, levels, _ = _tables(config)
    _tq_full_dequant_kv[(tokens, heads)](
        cache, torch.zeros(1, 1, dtype=torch.int32), levels, k, v, *k.stride()[:3],
        *v.stride()[:3], *cache.stride()[:3], 1, HEAD_DIM=dim, BLOCK_SIZE=BLOCK,
        NUM_KV_HEADS=heads, MSE_BYTES=dim * config.key_mse_bits // 8,
        KPS=config.key_packed_size, VQB=config.effective_value_quant_bits,
        VAL_DATA_BYTES=dim * config.effective_value_quant_bits // 8,
        MSE_BITS=config.key_mse_bits, KEY_FP8=int(config.key_fp8), BLOCK_D=dim,
        NORM_CORRECTION=int(config.norm_correction))
    return k[0].transpose(0, 1), v[0].transpose(0, 1)


def vectors():
    """For each preset and head_dim: the slots, the checksum of K read back, that of V."""
    out = b""
    for preset in presets():
        for dim, heads in inputs.HEADS.items():
            k, v = (rows.reshape(-1, heads, dim) for rows in inputs.slot_rows(dim))
            slots, _ = write(preset, k, v)
            out += slots.numpy().tobytes()
            out += b"".join(inputs.crc_of(rows) for rows in read(preset, dim, slots))
    return out
