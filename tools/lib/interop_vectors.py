"""Writes tests/golden/interop anew: what vLLM's own code makes of numbers that our test makes too.

Fetches the pinned vLLM by its package name, takes the few Python files that write and read cache
rows out of it, and runs them unmodified in an environment with Triton's interpreter and PyTorch for
CPUs. Nothing of vLLM is kept but the bytes that it wrote. The README beside the vectors says more.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from cache import cache_dir, locked
from pypi import fetch, last_error, make_venv
from ui import Failure, run_main, say

VLLM = ("vllm", "0.33.0",
        "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa", "wheel")
# PyTorch as in tests/python/requirements-oracle.txt, where a note says how to get its CPU build.
PACKAGES = ("torch==2.13.0", "triton==3.9.0", "numpy==2.4.6")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(prog="tools/interop-vectors", description=__doc__)
    parser.add_argument("--flashmla", metavar="FILE", type=pathlib.Path,
                        help="FlashMLA's tests/quant.py: writes flashmla.mla too, which stays as "
                             "it is otherwise")
    parser.add_argument("--sweep", metavar="N", type=int, default=0,
                        help="instead of writing, compares N random rows a preset and head_dim "
                             "with tests/python/slots_codec.py")
    options = parser.parse_args()
    python = _environment()
    wheel = fetch(*VLLM)
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if _is_used(name)])
        arguments = ["--vllm", folder, "--sweep", str(options.sweep)]
        if options.flashmla:
            arguments += ["--flashmla", options.flashmla]
        write = pathlib.Path(__file__).parent / "interop" / "write.py"
        return subprocess.run([python, write, *arguments, ROOT],
                              env={**os.environ, "TRITON_INTERPRET": "1"}).returncode


def _is_used(name):
    return name.endswith(".py") and name.startswith(
        ("vllm/model_executor/layers/quantization/turboquant/", "vllm/v1/attention/ops/",
         "vllm/v1/attention/backends/", "vllm/models/deepseek_v32/", "vllm/models/deepseek_v4/"))


def _environment():
    path = cache_dir() / "interop-venv"
    with locked("interop-venv"):
        python = make_venv(path, "an environment for vLLM's writers")
        stamp = path / "installed"
        if stamp.exists() and stamp.read_text(encoding="ascii") == " ".join(PACKAGES):
            return python
        say(f"installing {', '.join(PACKAGES)} with pip")
        done = subprocess.run([python, "-m", "pip", "install", "-q", "--prefer-binary", *PACKAGES],
                              stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Failure(f"pip cannot install {PACKAGES} ({last_error(done.stderr)}); check the "
                          "network or `pip config list`, then run tools/interop-vectors again")
        stamp.write_text(" ".join(PACKAGES), encoding="ascii")
    return python


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    run_main(main)
