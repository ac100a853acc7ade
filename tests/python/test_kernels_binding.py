"""The C library of CUDA kernels and its Python module: one layout of structs, and clear refusals.

Needs libquire_kernels.so (tools/gpu/run.sh build), and for the last test a GPU and torch.
"""

import ctypes
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bindings" / "python"))

from quire import kernels  # noqa: E402  pylint: disable=wrong-import-position

STRUCTS = {"quire_encode": kernels.EncodeParams, "quire_decode": kernels.DecodeParams,
           "quire_prefill": kernels.PrefillParams, "quire_cascade": kernels.CascadeParams,
           "quire_merge": kernels.MergeParams, "quire_mla": kernels.MlaParams}

needs_library = pytest.mark.skipif(
    not (ROOT / "build" / "gpu" / "libquire_kernels.so").exists(),
    reason="build/gpu/libquire_kernels.so is not there: tools/gpu/run.sh build makes it")


class Array:
    """What the module asks of an array, without memory behind it."""

    def __init__(self, shape, dtype, pointer=1 << 20):
        self.shape, self.dtype, self.pointer = tuple(shape), "torch." + dtype, pointer

    def data_ptr(self):
        return self.pointer

    def element_size(self):
        return {"uint8": 1, "bfloat16": 2, "int32": 4, "float32": 4, "int64": 8}[self.dtype[6:]]

    def stride(self):
        steps = [1]
        for n in reversed(self.shape[1:]):
            steps.insert(0, steps[0] * n)
        return tuple(steps)


def test_structs_are_those_of_the_header(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    lines = ["#include <stdio.h>", "#include <quire/kernels.h>", "int main(void) {"]
    for name, struct in STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));'
                  for field, _ in struct._fields_]
    lines.append("return 0; }")
    source = tmp_path / "offsets.c"
    source.write_text("\n".join(lines))
    subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", "-pedantic", f"-I{ROOT / 'include'}",
                    source, "-o", tmp_path / "offsets"], check=True)
    printed = subprocess.run([tmp_path / "offsets"], check=True, capture_output=True, text=True)
    expected = []
    for name, struct in STRUCTS.items():
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        expected += [f"{name}.{field} {getattr(struct, field).offset}"
                     for field, _ in struct._fields_]
    assert printed.stdout.split("\n")[:-1] == expected


def encode(**changes):
    values = {"k": Array((5, 2, 128), "bfloat16"), "block_tokens": 64, "k_bits": 4, "v_bits": 4,
              "stream": 0} | changes
    pages = values.pop("pages", Array((3, 2, 8320), "uint8"))
    kernels.encode(pages, Array((5,), "int64"), **values)


def decode(**changes):
    values = {"block_tokens": 64, "k_bits": 4, "v_bits": 4, "stream": 0,
              "out": Array((1, 1, 8, 128), "bfloat16"), "workspace": Array((1 << 40,), "uint8")}
    values |= changes
    q = values.pop("q", Array((1, 1, 8, 128), "bfloat16"))
    pages = values.pop("pages", Array((3, 2, 8320), "uint8"))
    kernels.decode(q, pages, Array((1,), "int32"), Array((1, 3), "int32"),
                   **values)


def prefill(**changes):
    values = {"block_tokens": 64, "k_bits": 4, "v_bits": 4, "stream": 0,
              "out": Array((9, 8, 128), "bfloat16"), "workspace": Array((1 << 40,), "uint8")}
    values |= changes
    q = values.pop("q", Array((9, 8, 128), "bfloat16"))
    kernels.prefill(q, Array((3, 2, 8320), "uint8"), Array((2,), "int32"), Array((1,), "int32"),
                    Array((1, 3), "int32"), **values)


def cascade(**changes):
    values = {"block_tokens": 64, "k_bits": 4, "v_bits": 4, "stream": 0,
              "out": Array((1, 1, 8, 128), "bfloat16"), "workspace": Array((1 << 40,), "uint8")}
    values |= changes
    q = values.pop("q", Array((1, 1, 8, 128), "bfloat16"))
    kernels.cascade(q, Array((3, 2, 8320), "uint8"), Array((1,), "int32"), Array((1, 3), "int32"),
                    Array((2,), "int32"), Array((1,), "int32"), Array((1, 3), "int32"), **values)


def merge(n=2, **changes):
    rows = Array((3, 8, 128), "bfloat16")
    kernels.merge([rows] * n, [Array((3, 8), "float32")] * n,
                  **({"out": rows, "stream": 0} | changes))


@needs_library
def test_pages_have_the_size_of_their_codes():
    assert kernels.page_bytes(128, 64, 4, 4) == 64 * 128 + 2 * 64
    assert kernels.page_bytes(80, 16, 4, 3) == 16 * 80 * 7 // 8 + 2 * 16
    with pytest.raises(kernels.KernelError, match="k9v4"):
        kernels.page_bytes(128, 64, 9, 4)


@needs_library
@pytest.mark.parametrize("call, word", [
    (lambda: encode(k_bits=9), "bits"),
    (lambda: encode(block_tokens=8), "block_tokens"),
    (lambda: encode(k=Array((5, 2, 100), "bfloat16")), "head_dim"),
    (lambda: encode(k=Array((5, 2, 128), "int32")), "int32"),
    (lambda: encode(k=None), "neither"),
    (lambda: encode(pages=Array((3, 2, 64), "uint8")), "overlap"),
    (lambda: encode(pages=Array((3, 2, 8320), "uint8", 1 << 20 | 16)), "aligned"),
    (lambda: decode(v_bits=1), "bits"),
    (lambda: decode(window=-1), "window"),
    (lambda: decode(q=Array((1, 1, 8, 128), "bfloat16", 1 << 20 | 8)), "aligned"),
    (lambda: decode(pages=Array((3, 2, 16320), "bfloat16")), "overlap"),
    (lambda: decode(pages=Array((3, 2, 8320), "int64")), "pages must be"),
    (lambda: decode(pages=Array((3, 2, 16352), "uint8"), fp8="e4m3"), "overlap"),
    (lambda: decode(pages=Array((3, 2, 16608), "uint8"), fp8="e5m2", token_scales=True), "overlap"),
    (lambda: decode(pages=Array((3, 2, 16384), "uint8"), fp8="e4m3",
                    k_scales=Array((2,), "float32")), "scales"),
    (lambda: decode(fp8="e3m4"), "e4m3"),
    (lambda: decode(window=5, all_keys=True), "window"),
    (lambda: decode(q=Array((1, 1, 7, 128), "bfloat16")), "kv_heads"),
    (lambda: decode(q=Array((1, 8, 128), "bfloat16")), "q must be"),
    (lambda: decode(workspace=Array((1 << 20,), "uint8", 1 << 20 | 64)), "workspace"),
    (lambda: prefill(q=Array((1, 9, 8, 128), "bfloat16")), "q must be"),
    (lambda: prefill(k_bits=9), "bits"),
    (lambda: prefill(all_keys=True, window=5), "window"),
    (lambda: cascade(v_bits=1), "bits"),
    (lambda: cascade(q=Array((1, 1, 7, 128), "bfloat16")), "kv_heads"),
    (lambda: merge(9), "parts"),
    (lambda: merge(0), "n_parts"),
    (lambda: merge(out=Array((3, 8, 100), "bfloat16")), "head_dim"),
])
def test_refusals_name_what_is_wrong(call, word):
    with pytest.raises(kernels.KernelError, match=word):
        call()


@needs_library
def test_structs_of_other_sizes():
    lib = kernels._library()
    assert b"struct_bytes" in lib.quire_decode_supports(None)
    params = kernels.DecodeParams()
    params.struct_bytes = 0
    assert b"struct_bytes" in lib.quire_decode_supports(ctypes.byref(params))
    params.struct_bytes = 8  # of a program that knows no field: all are zero
    assert b"kv_heads" in lib.quire_decode_supports(ctypes.byref(params))
    empty = kernels.EncodeParams(k_bits=4, v_bits=4, kv_heads=2, head_dim=128, block_tokens=64)
    assert lib.quire_encode_supports(ctypes.byref(empty)) is None


def test_a_library_that_is_not_there(monkeypatch):
    monkeypatch.setattr(kernels._library, "loaded", None)
    monkeypatch.setenv("QUIRE_KERNELS", "/nowhere/libquire_kernels.so")
    with pytest.raises(kernels.KernelError, match="tools/gpu/run.sh build"):
        kernels.page_bytes(128, 64, 4, 4)


@needs_library
@pytest.mark.parametrize("hold", ["codes", "bf16", "fp8"])
def test_on_a_gpu_a_page_attends_as_its_numbers_do(hold):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    torch.manual_seed(1)
    tokens, kv_heads, heads, dim, block = 300, 2, 8, 128, 64
    k, v = (torch.randn(tokens, kv_heads, dim, device="cuda", dtype=torch.bfloat16)
            for _ in range(2))
    q = torch.randn(1, 1, heads, dim, device="cuda", dtype=torch.bfloat16)
    if hold == "codes":
        bits = {"k_bits": 8, "v_bits": 8}
        pages = torch.zeros(5, kv_heads, kernels.page_bytes(dim, block, 8, 8), dtype=torch.uint8,
                            device="cuda")
        kernels.encode(pages, torch.arange(tokens, device="cuda"), k, v, block_tokens=block, **bits)
    else:
        bits = {}
        sides = [torch.nn.functional.pad(x, (0, 0, 0, 0, 0, 5 * block - tokens), value=torch.nan)
                 .view(5, block, kv_heads, dim).transpose(1, 2) for x in (k, v)]
        if hold == "fp8":
            scales = torch.tensor([0.5, 2.0], device="cuda")
            bits = {"fp8": "e4m3", "k_scales": scales, "v_scales": scales}
            sides = [(x / scales[:, None, None]).to(torch.float8_e4m3fn).view(torch.uint8)
                     for x in sides]
        pages = torch.cat([sides[0].transpose(2, 3).flatten(2), sides[1].flatten(2)], 2)
    out = kernels.decode(q, pages, torch.tensor([tokens], dtype=torch.int32, device="cuda"),
                         torch.arange(5, dtype=torch.int32, device="cuda")[None],
                         block_tokens=block, out=torch.empty_like(q), **bits)
    wide = [x.repeat_interleave(heads // kv_heads, 1).transpose(0, 1).double() for x in (k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        q[0].transpose(0, 1).double(), wide[0], wide[1]).transpose(0, 1)
    error = (out[0].double() - expected).norm() / expected.norm()
    assert error < (0.06 if hold == "fp8" else 0.02)
