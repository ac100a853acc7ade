"""Builds ggml, libllama and its benches once, from the source of a pinned Python package.

The prefix carries a digest of the source, the flags, the compiler and what -march=native means
here: another compiler or CPU gets its own build; an unfinished build never has the final name.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from cache import cache_dir, locked, need_space
from pypi import fetch
from ui import Failure, Progress, run_main, say

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
SOURCE = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/"
SKIPPED_FOLDERS = ("docs/", "media/", "examples/", "models/", "gguf-py/", "conversion/", "tests/")

FLAGS = [
    "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF",
    "-DCMAKE_POSITION_INDEPENDENT_CODE=ON", "-DGGML_NATIVE=ON", "-DGGML_OPENMP=OFF",
    "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF",
]
TARGETS = ["llama-bench", "llama-batched-bench"]
LIBRARIES = [
    "src/libllama.a", "common/libllama-common.a", "common/libllama-common-base.a",
    "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a",
    "vendor/cpp-httplib/libcpp-httplib.a",
]
LAYOUT = 1  # raise when install() lays the prefix out otherwise

# GCC's _tile_loadconfig (12 and 13) tells the compiler that it reads 8 bytes of the 64, so the
# rest of the configuration is never written and the first tile instruction ends the program.
TILE_HEADER = """\
#if defined(__AMX_TILE__) && !defined(__clang__)
#include <immintrin.h>
static inline void quire_tile_loadconfig(const void* config) {
    struct bytes64 { char byte[64]; };
    __asm__ volatile("ldtilecfg %0" ::"m"(*(const struct bytes64*)config));
}
#define _tile_loadconfig(config) quire_tile_loadconfig(config)
#endif
"""


def main():
    parser = argparse.ArgumentParser(prog="tools/deps llama", description=__doc__)
    parser.add_argument("--print-prefix", action="store_true",
                        help="print the prefix alone on stdout")
    options = parser.parse_args()
    prefix = ensure()
    if options.print_prefix:
        print(prefix)
    else:
        say(f"ggml and libllama: {prefix}")


def ensure():
    for tool, package in (("cmake", "cmake"), ("ninja", "ninja-build"), ("c++", "g++")):
        if not shutil.which(tool):
            raise Failure(f"{tool} is missing; run: tools/deps apt (Debian package {package})")
    prefix = cache_dir() / "deps" / f"llama-{VERSION}-{digest()}"
    if not prefix.exists():
        with locked("llama"):
            if not prefix.exists():
                build(prefix)
    return prefix


def native_macros():
    output = subprocess.run(["c++", "-march=native", "-dM", "-E", "-x", "c", os.devnull],
                            capture_output=True, text=True, check=True).stdout
    return sorted(output.splitlines())


def language_flags(header):
    """For C and C++ alike. Without AVX512-FP16, as in ggml's releases: with it, attention over f16
    takes twice as long."""
    flags = f"-include {header}"
    if any("__AVX512FP16__" in macro for macro in native_macros()):
        flags += " -mno-avx512fp16"
    return flags


def digest():
    """What the built code depends on, in 16 hex digits."""
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True)
    parts = [SHA256, str(LAYOUT), *FLAGS, *TARGETS, TILE_HEADER, language_flags(""),
             compiler.stdout.splitlines()[0], *native_macros()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def build(prefix):
    prefix.parent.mkdir(parents=True, exist_ok=True)
    need_space(prefix.parent, 900_000_000, "building ggml and libllama")
    archive = fetch(PACKAGE, VERSION, SHA256, "sdist")
    with tempfile.TemporaryDirectory(dir=prefix.parent, prefix=".build-") as folder:
        folder = pathlib.Path(folder)
        say("unpacking the source of ggml and libllama")
        unpack(archive, folder / "source")
        log = folder / "build.log"
        compile_targets(folder / "source", folder / "out", log)
        install(folder / "source", folder / "out", folder / "prefix")
        os.rename(folder / "prefix", prefix)


def unpack(archive, target):
    """Takes only llama.cpp out of the archive; names that would leave `target` are refused."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if not member.isfile() or not member.name.startswith(SOURCE):
                continue
            name = member.name[len(SOURCE):]
            if name.startswith(SKIPPED_FOLDERS):
                continue
            path = target / name
            if ".." in path.parts:
                raise Failure(f"{archive} holds a strange name, {member.name}; delete that file")
            path.parent.mkdir(parents=True, exist_ok=True)
            with tar.extractfile(member) as source, open(path, "wb") as out:
                shutil.copyfileobj(source, out)


def compile_targets(source, out, log):
    say("compiling ggml and libllama (once; about 4 minutes on 2 cores)")
    header = source / "tile_loadconfig.h"
    header.write_text(TILE_HEADER, encoding="utf-8")
    flags = language_flags(header)
    configure = ["cmake", "-S", source, "-B", out, "-G", "Ninja", *FLAGS,
                 f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"]
    with open(log, "w", encoding="utf-8") as handle:
        if subprocess.run(configure, stdout=handle, stderr=handle).returncode != 0:
            raise_build_failure(log)
    bar = Progress("compile", unit="steps", scale=1)
    process = subprocess.Popen(["ninja", "-C", out, *TARGETS], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               env={**os.environ, "NINJA_STATUS": "[%f/%t] "})
    try:
        with open(log, "w", encoding="utf-8") as handle:
            for line in process.stdout:
                handle.write(line)
                if match := re.match(r"\[(\d+)/(\d+)\]", line):
                    bar.update(int(match[1]), int(match[2]))
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        bar.close()
    if process.returncode != 0:
        raise_build_failure(log)
    say(f"compiled in {bar.seconds():.0f} s")


def raise_build_failure(log):
    kept = cache_dir() / "llama-build.log"
    shutil.copyfile(log, kept)
    raise Failure(f"ggml and libllama do not build here; the compiler's output is in {kept}; "
                  "-DQUIRE_LLAMA_DIR=PREFIX uses an installed one instead")


def install(source, out, prefix):
    """Lays out include/, include/llama-common/, lib/ and bin/."""
    for folder in ("include", "include/llama-common/jinja", "lib", "bin"):
        (prefix / folder).mkdir(parents=True)
    common = prefix / "include" / "llama-common"
    copies = [("include", "*.h", prefix / "include"), ("ggml/include", "*.h", prefix / "include"),
              ("common", "*.h", common), ("common", "*.hpp", common),
              ("common/jinja", "*.h", common / "jinja")]
    for folder, pattern, target in copies:
        for path in (source / folder).glob(pattern):
            shutil.copy2(path, target)
    for folder in ("nlohmann", "sheredom"):
        shutil.copytree(source / "vendor" / folder, common / folder)
    for path in LIBRARIES:
        shutil.copy2(out / path, prefix / "lib")
    for target in TARGETS:
        shutil.copy2(out / "bin" / target, prefix / "bin")
    shutil.copy2(source / "LICENSE", prefix / "LICENSE")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    run_main(main)
