"""Loads the peers' modules as they are, and stands in for what those import and do not use here.

Two things differ from a GPU by need. Modules of vLLM that are no part of a format (configuration,
logging, platforms, other kernels) are empty stand-ins. Triton's interpreter turns float32 into E4M3
by cutting bits off, and loses a carry; PyTorch's conversion takes its place, nearest with ties to
even and saturated, which is what a GPU's instruction does (cvt.rn.satfinite.e4m3x2.f32).
"""

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types

import numpy
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

OPS = "vllm.v1.attention.ops."
REAL = {"vllm.model_executor.layers.quantization.turboquant.centroids",
        "vllm.model_executor.layers.quantization.turboquant.config",
        OPS + "triton_turboquant_store", OPS + "triton_turboquant_decode",
        "vllm.v1.attention.backends.turboquant_attn",
        "vllm.models.deepseek_v32.common.kernels",
        "vllm.models.deepseek_v4.common.ops.cache_utils"}


class _Anything(type):
    """A class that has any attribute; as a decorator it hands back what it decorates. What is REAL
    must be imported by its module's whole name: `from vllm.a import b` finds a stand-in."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (object,), {"__class_getitem__": classmethod(lambda c, _: c)})

    def __call__(cls, *args, **kwargs):
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return type.__call__(cls)


class _StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_Anything("StandIn", (object,), {}), name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def find_spec(self, name, path=None, target=None):
        if name in REAL:
            file = self.folder / (name.replace(".", "/") + ".py")
            return importlib.util.spec_from_file_location(name, file)
        if name.split(".")[0] == "vllm":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _StandIn(spec.name)

    def exec_module(self, module):
        if module.__name__ == "vllm.triton_utils":
            module.triton, module.tl = triton, tl
        if module.__name__ == "vllm.platforms":
            no = ("is_cuda_alike", "is_rocm", "is_xpu", "is_arch_support_pdl", "is_fp8_fnuz")
            module.current_platform = types.SimpleNamespace(
                fp8_dtype=lambda: torch.float8_e4m3fn, **{name: lambda: False for name in no})


def prepare(folder):
    """Imports of vllm come from `folder` from now on."""
    sys.meta_path.insert(0, _Finder(folder))
    convert = interpreter._convert_float

    def convert_float(data, source, target, rounding):
        if (source, target) != (tl.float32, tl.float8e4nv):
            return convert(data, source, target, rounding)
        x = torch.from_numpy(numpy.array(data)).view(torch.float32).clamp(-448, 448)
        return x.to(torch.float8_e4m3fn).view(torch.uint8).numpy()

    interpreter._convert_float = convert_float


def load(file):
    spec = importlib.util.spec_from_file_location("flashmla_quant", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
