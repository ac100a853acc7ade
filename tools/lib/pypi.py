"""Fetches one pinned file of a Python package, by name, through pip and its configured index.

pip is the client so that a person's mirror, proxy, certificates and credentials all apply. The pip
that a distribution ships may be old; a small environment of our own holds one that continues a
download after a dropped connection. Every file is pinned by SHA-256, which pip checks. A file that
is complete stays in the cache: after an interruption only the one in flight starts again.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from cache import cache_dir, locked, sha256_file
from ui import Failure, Progress, say

PIP_VERSION = "25.3"


def fetch(name, version, sha256, kind):
    """The package's file (kind: "wheel" or "sdist") in the cache; downloaded if it is not there."""
    downloads = cache_dir() / "downloads"
    downloads.mkdir(exist_ok=True)
    target = downloads / f"{name}-{version}-{sha256[:12]}"
    with locked(f"download-{name}"):
        if not target.exists():
            _download(name, version, sha256, kind, target)
    return target


def make_venv(path, description):
    """A Python environment at `path`; nothing happens if it is there and works."""
    python = path / "bin" / "python"
    if python.exists() and subprocess.run([python, "-c", "import pip"],
                                          capture_output=True).returncode == 0:
        return python
    say(f"creating {description} in {path}")
    shutil.rmtree(path, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "venv", path], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure("python3 cannot create an environment; run: apt-get install python3-venv")
    return python


def pip_python():
    """The Python whose pip does our downloads."""
    path = cache_dir() / "fetch-venv"
    with locked("fetch-venv"):
        python = make_venv(path, "a small environment for downloads")
        marker = path / f"pip-{PIP_VERSION}"
        if not marker.exists():
            done = subprocess.run([python, "-m", "pip", "install", "-q", "--no-cache-dir",
                                   f"pip=={PIP_VERSION}"], capture_output=True, text=True)
            if done.returncode != 0:
                raise Failure(f"pip {PIP_VERSION} cannot be fetched ({last_error(done.stderr)}); "
                              "check the network or `pip config list`, then run again")
            marker.touch()
    return python


def last_error(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no output"])[-1][:300]


def _download(name, version, sha256, kind, target):
    python = pip_python()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".part-") as folder:
        wanted = os.path.join(folder, "wanted.txt")
        with open(wanted, "w", encoding="ascii") as handle:
            handle.write(f"{name}=={version} --hash=sha256:{sha256}\n")
        command = [python, "-m", "pip", "download", "--no-deps", "--no-cache-dir",
                   "--no-binary" if kind == "sdist" else "--only-binary", name,
                   "--require-hashes", "-r", wanted, "-d", os.path.join(folder, "out"),
                   "--progress-bar", "raw", "--resume-retries", "20"]
        log = _run_with_progress(command, f"{name} {version}")
        files = sorted(os.scandir(os.path.join(folder, "out")), key=lambda entry: entry.name) \
            if os.path.isdir(os.path.join(folder, "out")) else []
        if len(files) != 1:
            raise Failure(f"{name} {version} cannot be downloaded ({last_error(log)}); check the "
                          "network or `pip config list`, then run again: finished files are kept")
        if sha256_file(files[0].path) != sha256:
            raise Failure(f"{name} {version} has another SHA-256 than the pinned {sha256}; "
                          "do not use this index")
        os.replace(files[0].path, target)


def _run_with_progress(command, label):
    bar = Progress(label)
    lines = []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    try:
        for line in process.stdout:
            if match := re.match(r"Progress (\d+) of (\d+)", line):
                bar.update(int(match[1]), int(match[2]))
            else:
                lines.append(line)
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        bar.close()
    return "".join(lines[-40:])
