"""What tools/interop-vectors runs in its environment: writes vectors or compares random rows."""

import argparse
import hashlib
import pathlib
import sys

import mla
import peers
import slots
import sweep

FLASHMLA_SHA256 = "84604c879bc69e715de334978b0d00a84d1d5feb3ed1a9407b504959f1368114"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--vllm", required=True)
    parser.add_argument("--flashmla", type=pathlib.Path)
    parser.add_argument("--sweep", type=int, default=0)
    options = parser.parse_args()
    peers.prepare(options.vllm)
    if options.sweep:
        return sweep.run(options.root / "tests" / "python", options.sweep)
    files = {"vllm.slots": slots.vectors(), "vllm.mla": mla.vllm_vectors()}
    if options.flashmla:
        if hashlib.sha256(options.flashmla.read_bytes()).hexdigest() != FLASHMLA_SHA256:
            print(f"{options.flashmla} is not the file that the README of the vectors names")
            return 1
        files["flashmla.mla"] = mla.flashmla_vectors(peers.load(options.flashmla))
    for name, data in files.items():
        (options.root / "tests" / "golden" / "interop" / name).write_bytes(data)
        print(f"{name}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
