"""Makes or updates the Python environment of the tests and prints its python's path.

Two lists, both in tests/python: requirements.txt (always) and requirements-oracle.txt (--oracle:
Transformers and a CPU build of PyTorch, some hundred MB, used only by the logits test).
"""

import argparse
import hashlib
import pathlib
import subprocess
import sys

from cache import cache_dir, locked
from pypi import PIP_VERSION, last_error, make_venv
from ui import Failure, run_main, say

LISTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"


def main():
    parser = argparse.ArgumentParser(prog="tools/venv", description=__doc__)
    parser.add_argument("--oracle", action="store_true", help="add Transformers and PyTorch (CPU)")
    options = parser.parse_args()
    print(ensure(options.oracle))


def ensure(oracle=False):
    """The python of an environment that has everything listed."""
    path = cache_dir() / "venv"
    with locked("venv"):
        python = make_venv(path, "the Python environment of the tests")
        _install(python, path, "requirements.txt")
        if oracle:
            _install(python, path, "requirements-oracle.txt")
    return python


def _install(python, path, name):
    wanted = LISTS / name
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    stamp = path / f"{name}.installed"
    if stamp.exists() and stamp.read_text(encoding="ascii") == digest:
        return
    say(f"installing {wanted.relative_to(LISTS.parents[1])} with pip")
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*command, f"pip=={PIP_VERSION}"], capture_output=True)
    done = subprocess.run([*command, "--prefer-binary", "-r", wanted], stdout=sys.stderr,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure(f"pip cannot install {name} ({last_error(done.stderr)}); check the network "
                      "or `pip config list`, then run tools/venv again")
    stamp.write_text(digest, encoding="ascii")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    run_main(main)
