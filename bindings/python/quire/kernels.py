"""Quire's CUDA kernels for torch and CuPy: ctypes over libquire_kernels.so, no headers, no build.

    from quire import kernels
    pages = torch.empty(n_blocks, kv_heads, kernels.page_bytes(128, 64, 6, 4), dtype=torch.uint8,
                        device="cuda")
    kernels.encode(pages, slots, k, v, block_tokens=64, k_bits=6, v_bits=4)
    kernels.decode(q, pages, lengths, blocks, block_tokens=64, k_bits=6, v_bits=4, out=out)

Arrays are whatever has data_ptr() (torch) or __cuda_array_interface__ (CuPy). Work is queued on
`stream` (an integer, or what has cuda_stream or ptr), by default on torch's current stream, and
nothing waits. The library is $QUIRE_KERNELS, or the one that tools/gpu/run.sh built in this
repository, or libquire_kernels.so of the loader's path.
"""

import ctypes
import os
import pathlib

ABI = 1
F32, F16, BF16, FP8_E4M3, FP8_E5M2 = 0, 1, 2, 3, 4
SCALE_ONE, SCALE_HEAD, SCALE_TOKEN = 0, 1, 2
MLA_BF16, MLA_V32, MLA_V4 = 0, 1, 2
MERGE_PARTS_MAX = 8

_ELEMENTS = {"float32": F32, "float16": F16, "bfloat16": BF16}
_FP8 = {"e4m3": FP8_E4M3, "e5m2": FP8_E5M2}
_P, _I64, _I32, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float


def _fields(*groups):
    return [("struct_bytes", ctypes.c_size_t)] + [(name, kind) for kind, names in groups
                                                  for name in names.split()]


class _Struct(ctypes.Structure):
    def __init__(self, **values):
        super().__init__(struct_bytes=ctypes.sizeof(type(self)), **values)


class EncodeParams(_Struct):
    """quire_encode of quire/kernels.h."""
    _fields_ = _fields(
        (_P, "k v"), (_I64, "k_token_stride k_head_stride v_token_stride v_head_stride"),
        (_P, "k_mean v_mean"),
        (_I32, "k_bits v_bits element n_tokens kv_heads head_dim block_tokens reserved"),
        (_P, "slots pages"), (_I64, "n_blocks block_stride head_stride"), (_P, "not_finite"))


class DecodeParams(_Struct):
    """quire_decode of quire/kernels.h."""
    _fields_ = _fields(
        (_P, "q out lse"), (_I64, "q_token_stride q_head_stride out_token_stride out_head_stride"),
        (_I32, "element n_requests n_queries n_heads kv_heads head_dim block_tokens k_bits v_bits"
               " window"),
        (_F, "scale softcap"), (_P, "lengths blocks"), (_I64, "table_stride"), (_P, "pages"),
        (_I64, "block_stride head_stride"), (_P, "v_mean workspace"),
        (_I32, "page_numbers page_scaling"), (_P, "k_scales v_scales"), (_I32, "all_keys reserved"),
        (_I64, "n_blocks"))


class PrefillParams(_Struct):
    """quire_prefill of quire/kernels.h."""
    _fields_ = _fields(
        (_P, "q out lse"), (_I64, "q_token_stride q_head_stride out_token_stride out_head_stride"),
        (_I32, "element n_requests n_tokens all_keys n_heads kv_heads head_dim block_tokens"
               " page_numbers k_bits v_bits window"),
        (_F, "scale softcap"), (_P, "first_tokens lengths blocks"), (_I64, "table_stride"),
        (_P, "pages"), (_I64, "block_stride head_stride"), (_P, "v_mean workspace"))


class CascadeParams(_Struct):
    """quire_cascade of quire/kernels.h."""
    _fields_ = _fields(
        (_P, "own first_requests prefix_lengths prefix_blocks"), (_I64, "prefix_table_stride"),
        (_P, "workspace"), (_I32, "n_groups reserved"))


class MergeParams(_Struct):
    """quire_merge of quire/kernels.h."""
    _fields_ = _fields(
        (_P, "out lse"), (_I64, "token_stride head_stride"),
        (_I32, "element part_element n_parts n_tokens n_heads head_dim"),
        (_P * MERGE_PARTS_MAX, "part_out part_lse"),
        (_I64 * MERGE_PARTS_MAX, "part_token_stride part_head_stride"))


class MlaParams(_Struct):
    """quire_mla of quire/kernels.h."""
    _fields_ = _fields(
        (_P, "q out lse"), (_I64, "q_token_stride q_head_stride out_token_stride out_head_stride"),
        (_I32, "out_element rows n_requests n_queries n_heads block_tokens"), (_F, "scale"),
        (_I32, "reserved"), (_P, "lengths blocks"), (_I64, "table_stride"), (_P, "lists"),
        (_I64, "list_stride"), (_P, "pages"), (_I64, "n_blocks block_stride"), (_P, "workspace"))


class KernelError(RuntimeError):
    """A call that the kernels do not take, or that CUDA refused."""


def _library():
    """The library, loaded once."""
    if _library.loaded is None:
        built = pathlib.Path(__file__).parents[3] / "build" / "gpu" / "libquire_kernels.so"
        path = os.environ.get("QUIRE_KERNELS") or (str(built) if built.exists()
                                                   else "libquire_kernels.so")
        try:
            lib = ctypes.CDLL(path)
        except OSError as error:
            raise KernelError(f"cannot load {path} ({error}): build it with tools/gpu/run.sh "
                              "build, or set QUIRE_KERNELS to where it is") from error
        if lib.quire_kernels_abi() != ABI:
            raise KernelError(f"{path} has ABI {lib.quire_kernels_abi()}, and this module {ABI}: "
                              "take both from one version")
        lib.quire_page_bytes.restype = ctypes.c_size_t
        for what in ("encode", "decode", "prefill", "cascade", "merge", "mla"):
            getattr(lib, f"quire_{what}_supports").restype = ctypes.c_char_p
            getattr(lib, f"quire_{what}_queue").argtypes = [_P, _P]
        for what in ("decode", "prefill", "cascade", "mla"):
            getattr(lib, f"quire_{what}_workspace_bytes").restype = ctypes.c_size_t
        _library.loaded = lib
    return _library.loaded


_library.loaded = None


def _pointer(array):
    if array is None:
        return None
    if hasattr(array, "data_ptr"):
        return array.data_ptr()
    return array.__cuda_array_interface__["data"][0]


def _item_bytes(array):
    return array.element_size() if hasattr(array, "element_size") else array.dtype.itemsize


def _strides(array):
    """In numbers."""
    if hasattr(array, "stride"):
        return tuple(array.stride())
    return tuple(step // _item_bytes(array) for step in array.strides)


def _element(array):
    name = str(array.dtype).split(".")[-1]
    if name not in _ELEMENTS:
        raise KernelError(f"numbers of kind {name}: the kernels take {', '.join(_ELEMENTS)}")
    return _ELEMENTS[name]


def _rows(array, name):
    """Strides of rows and of heads of [..., heads, numbers], whose last numbers lie together."""
    strides = _strides(array)
    if len(strides) < 3 or strides[-1] != 1:
        raise KernelError(f"{name} must be [..., heads, numbers] with its last numbers together")
    for i in range(len(strides) - 3):
        if strides[i] != strides[i + 1] * array.shape[i + 1]:
            raise KernelError(f"{name}: rows of requests and tokens must follow each other")
    return strides[-3], strides[-2]


def _stream(stream, array):
    if stream is None and hasattr(array, "data_ptr"):
        import torch  # pylint: disable=import-outside-toplevel
        stream = torch.cuda.current_stream(array.device).cuda_stream
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    return stream or 0


def _queue(what, params, stream):
    lib = _library()
    code = getattr(lib, f"quire_{what}_queue")(ctypes.byref(params), stream)
    if code == 0:
        return
    why = getattr(lib, f"quire_{what}_supports")(ctypes.byref(params))
    raise KernelError(f"{what}: " + (why.decode() if why else f"CUDA error {code}"))


def _workspace(what, params, like, workspace):
    """Device memory for a call: the caller's, or new memory of the kind that `like` is of."""
    need = getattr(_library(), f"quire_{what}_workspace_bytes")(ctypes.byref(params))
    if workspace is None:
        if need == 0:
            return None  # no GPU, or params that the call will refuse and say why
        if hasattr(like, "new_empty"):
            import torch  # pylint: disable=import-outside-toplevel
            return like.new_empty(need, dtype=torch.uint8)
        import cupy  # pylint: disable=import-outside-toplevel,import-error
        return cupy.empty(need, dtype="uint8")
    have = _item_bytes(workspace) * workspace.shape[0]
    if have < need:
        raise KernelError(f"{what}: the workspace has {have} bytes and needs {need}")
    return workspace


def page_bytes(head_dim, block_tokens, k_bits, v_bits):
    """Bytes of the page of one block and KV head."""
    n = _library().quire_page_bytes(head_dim, block_tokens, k_bits, v_bits)
    if n == 0:
        raise KernelError(f"there is no page of head_dim {head_dim}, {block_tokens} tokens, "
                          f"k{k_bits}v{v_bits}")
    return n


def _page_strides(pages, numbers=False):
    """In bytes. pages: [blocks, kv_heads, bytes] uint8; with `numbers`, of 16-bit numbers."""
    each = 2 if numbers else 1
    if len(pages.shape) != 3 or _item_bytes(pages) != each or _strides(pages)[2] != 1:
        raise KernelError("pages must be [blocks, kv_heads, bytes] of uint8")
    return [step * each for step in _strides(pages)[:2]]


def encode(pages, slots, k=None, v=None, *, block_tokens, k_bits, v_bits, k_mean=None, v_mean=None,
           not_finite=None, stream=None):
    """Rows [tokens, kv_heads, head_dim] of k and v into pages [blocks, kv_heads, bytes].

    slots: [tokens] int64, block * block_tokens + token in the block; negative: not written. The
    means [kv_heads, head_dim] float32 are taken off first.
    """
    rows = k if k is not None else v
    if rows is None:
        raise KernelError("encode: neither k nor v is given")
    params = EncodeParams(
        k=_pointer(k), v=_pointer(v), k_mean=_pointer(k_mean), v_mean=_pointer(v_mean),
        k_bits=k_bits, v_bits=v_bits, element=_element(rows), n_tokens=rows.shape[0],
        kv_heads=rows.shape[1], head_dim=rows.shape[2], block_tokens=block_tokens,
        slots=_pointer(slots), pages=_pointer(pages), n_blocks=pages.shape[0],
        not_finite=_pointer(not_finite))
    for name, side in (("k", k), ("v", v)):
        if side is not None:
            token, head = _rows(side, name)
            setattr(params, f"{name}_token_stride", token)
            setattr(params, f"{name}_head_stride", head)
    params.block_stride, params.head_stride = _page_strides(pages)
    _queue("encode", params, _stream(stream, rows))


def decode(q, pages, lengths, blocks, *, block_tokens, out, k_bits=0, v_bits=0, scale=None,
           window=0, softcap=0.0, v_mean=None, lse=None, fp8=None, k_scales=None, v_scales=None,
           token_scales=False, all_keys=False, workspace=None, stream=None):
    """Attention of q [requests, queries, heads, head_dim] over pages, into `out` of q's shape.

    pages: [blocks, kv_heads, bytes] uint8, codes of k_bits and v_bits; or [blocks, kv_heads,
    numbers] of f16 or bf16: K [head_dim, block_tokens], then V [block_tokens, head_dim]; or with
    fp8="e4m3" or "e5m2" the same of 8-bit floats (uint8), which are multiplied by k_scales and
    v_scales [kv_heads] float32, or with token_scales by f16 scales in the page, behind V: those of
    K [block_tokens], then of V.
    lengths: [requests] int32 keys; blocks: [requests, n] int32; lse: [requests, queries, heads]
    float32 or None. all_keys: every query sees all keys of its request. Returns `out`.
    """
    params = _decode_params(q, pages, lengths, blocks, block_tokens, out, k_bits, v_bits, scale,
                            softcap, v_mean, lse)
    params.window, params.all_keys = window, int(all_keys)
    if fp8 is not None:
        if fp8 not in _FP8:
            raise KernelError(f"fp8 is {fp8}: it must be {' or '.join(_FP8)}")
        params.page_numbers = _FP8[fp8]
    params.page_scaling = (SCALE_TOKEN if token_scales else
                           SCALE_ONE if k_scales is None else SCALE_HEAD)
    params.k_scales, params.v_scales = _pointer(k_scales), _pointer(v_scales)
    memory = _workspace("decode", params, q, workspace)
    params.workspace = _pointer(memory)
    _queue("decode", params, _stream(stream, q))
    return out


def _attention(params, q, pages, out):
    """What params of attention over pages have in common."""
    params.q_token_stride, params.q_head_stride = _rows(q, "q")
    params.out_token_stride, params.out_head_stride = _rows(out, "out")
    if _item_bytes(pages) == 2:
        params.page_numbers = _element(pages)
    params.block_stride, params.head_stride = _page_strides(pages, _item_bytes(pages) == 2)
    return params


def _decode_params(q, pages, lengths, blocks, block_tokens, out, k_bits, v_bits, scale, softcap,
                   v_mean, lse):
    if len(q.shape) != 4:
        raise KernelError("q must be [requests, queries, heads, head_dim]")
    return _attention(DecodeParams(
        q=_pointer(q), out=_pointer(out), lse=_pointer(lse), element=_element(q),
        n_requests=q.shape[0], n_queries=q.shape[1], n_heads=q.shape[2], head_dim=q.shape[3],
        kv_heads=pages.shape[1], block_tokens=block_tokens, k_bits=k_bits, v_bits=v_bits,
        scale=scale if scale is not None else q.shape[3]**-0.5, softcap=softcap,
        lengths=_pointer(lengths), blocks=_pointer(blocks), table_stride=_strides(blocks)[0],
        pages=_pointer(pages), v_mean=_pointer(v_mean), n_blocks=pages.shape[0]), q, pages, out)


def prefill(q, pages, first_tokens, lengths, blocks, *, block_tokens, out, k_bits=0, v_bits=0,
            scale=None, window=0, softcap=0.0, all_keys=False, v_mean=None, lse=None,
            workspace=None, stream=None):
    """Attention of many tokens a request, q [tokens, heads, head_dim], over pages as decode()'s.

    first_tokens: [requests + 1] int32: request r has tokens first_tokens[r] to first_tokens[r + 1],
    the last of its lengths[r] keys; each sees keys up to its own, or all with `all_keys`. lse:
    [tokens, heads] float32 or None. Returns `out`, of q's shape.
    """
    if len(q.shape) != 3:
        raise KernelError("q must be [tokens, heads, head_dim]")
    params = _attention(PrefillParams(
        q=_pointer(q), out=_pointer(out), lse=_pointer(lse), element=_element(q),
        n_requests=lengths.shape[0], n_tokens=q.shape[0], all_keys=int(all_keys),
        n_heads=q.shape[1], head_dim=q.shape[2], kv_heads=pages.shape[1],
        block_tokens=block_tokens, k_bits=k_bits, v_bits=v_bits, window=window,
        scale=scale if scale is not None else q.shape[2]**-0.5, softcap=softcap,
        first_tokens=_pointer(first_tokens), lengths=_pointer(lengths), blocks=_pointer(blocks),
        table_stride=_strides(blocks)[0], pages=_pointer(pages), v_mean=_pointer(v_mean)),
        q, pages, out)
    memory = _workspace("prefill", params, q, workspace)
    params.workspace = _pointer(memory)
    _queue("prefill", params, _stream(stream, q))
    return out


def cascade(q, pages, lengths, blocks, first_requests, prefix_lengths, prefix_blocks, *,
            block_tokens, out, k_bits=0, v_bits=0, scale=None, softcap=0.0, v_mean=None, lse=None,
            workspace=None, stream=None):
    """decode() where requests first_requests[g] to first_requests[g + 1] have keys in common, which
    are read once: prefix_lengths [groups] int32 keys of prefix_blocks [groups, n] int32. lengths
    (0: none) and blocks are of what follows them. Returns `out`."""
    own = _decode_params(q, pages, lengths, blocks, block_tokens, out, k_bits, v_bits, scale,
                         softcap, v_mean, lse)
    params = CascadeParams(
        own=ctypes.addressof(own), n_groups=prefix_lengths.shape[0],
        first_requests=_pointer(first_requests), prefix_lengths=_pointer(prefix_lengths),
        prefix_blocks=_pointer(prefix_blocks), prefix_table_stride=_strides(prefix_blocks)[0])
    memory = _workspace("cascade", params, q, workspace)
    params.workspace = _pointer(memory)
    _queue("cascade", params, _stream(stream, q))
    return out


def merge(outs, lses, *, out, lse=None, stream=None):
    """Results [tokens, heads, head_dim] of attention over parts of the keys, and their lses
    [tokens, heads] float32 (-inf: nothing), as one into `out`, which is returned."""
    params = MergeParams(
        out=_pointer(out), lse=_pointer(lse), element=_element(out), n_parts=len(outs),
        part_element=_element(outs[0] if outs else out), n_tokens=out.shape[0],
        n_heads=out.shape[1], head_dim=out.shape[2])
    params.token_stride, params.head_stride = _rows(out, "out")
    if len(outs) > MERGE_PARTS_MAX or len(outs) != len(lses):
        raise KernelError(f"merge takes up to {MERGE_PARTS_MAX} parts, each with an lse")
    for i, (part, part_lse) in enumerate(zip(outs, lses)):
        params.part_out[i], params.part_lse[i] = _pointer(part), _pointer(part_lse)
        params.part_token_stride[i], params.part_head_stride[i] = _rows(part, "a part")
    _queue("merge", params, _stream(stream, out))
    return out


def mla_decode(q, pages, lengths, *, rows, block_tokens, scale, out, blocks=None, lists=None,
               lse=None, workspace=None, stream=None):
    """MLA attention of q [requests, queries, heads, numbers] bf16 over pages [blocks, bytes] uint8,
    of all rows of `blocks` [requests, n] int32, or of those of `lists` [requests, n] int64. Into
    `out` [requests, queries, heads, 512], which is returned."""
    params = MlaParams(
        q=_pointer(q), out=_pointer(out), lse=_pointer(lse), out_element=_element(out), rows=rows,
        n_requests=q.shape[0], n_queries=q.shape[1], n_heads=q.shape[2], block_tokens=block_tokens,
        scale=scale, lengths=_pointer(lengths), blocks=_pointer(blocks), lists=_pointer(lists),
        table_stride=0 if blocks is None else _strides(blocks)[0],
        list_stride=0 if lists is None else _strides(lists)[0], pages=_pointer(pages),
        n_blocks=pages.shape[0], block_stride=_strides(pages)[0])
    params.q_token_stride, params.q_head_stride = _rows(q, "q")
    params.out_token_stride, params.out_head_stride = _rows(out, "out")
    memory = _workspace("mla", params, q, workspace)
    params.workspace = _pointer(memory)
    _queue("mla", params, _stream(stream, q))
    return out
