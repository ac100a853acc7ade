"""Where downloads, built dependencies and models live: outside git, kept between checkouts."""

import contextlib
import fcntl
import hashlib
import os
import pathlib

from ui import Failure, say


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = pathlib.Path(base) / "quire"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"cannot create {path}: {error.strerror}; set XDG_CACHE_HOME to a folder "
                      "you can write") from error
    return path


@contextlib.contextmanager
def locked(name):
    """One process at a time does the work called `name`; others wait for it, and say so."""
    path = cache_dir() / f".{name}.lock"
    with open(path, "w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is preparing {name}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def sha256_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while chunk := handle.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def need_space(path, need_bytes, what):
    stat = os.statvfs(path)
    free = stat.f_bavail * stat.f_frsize
    if free < need_bytes:
        raise Failure(f"{what} needs {need_bytes / 1e6:.0f} MB in {path}, {free / 1e6:.0f} MB are "
                      "free; make room or set XDG_CACHE_HOME")
