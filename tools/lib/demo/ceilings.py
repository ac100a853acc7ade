"""What this machine can do with the same bytes: a memory copy, a direct read of the disk."""

import mmap
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

CHUNK_BYTES = 1 << 20
READERS = (4, 8, 16, 4, 8, 16)  # in flight; which of them suits a disk best differs


def memory_copy(size_bytes):
    """Bytes a second of a plain copy; the first, which touches the buffers, does not count."""
    source = memoryview(bytearray(os.urandom(1 << 16) * (size_bytes // (1 << 16) + 1)))
    target = memoryview(bytearray(len(source)))
    rates = []
    for _ in range(4):
        started = time.perf_counter()
        target[:] = source
        rates.append(len(source) / (time.perf_counter() - started))
    return statistics.median(rates[1:])


def disk_read(folder, size_bytes):
    """Bytes a second of the best O_DIRECT read of one file; 0 where it is refused."""
    size_bytes = -(-size_bytes // CHUNK_BYTES) * CHUNK_BYTES
    path = os.path.join(folder, "ceiling.bin")
    try:
        _write(path, size_bytes)
        rates = []
        for readers in READERS:
            started = time.perf_counter()
            _read(path, size_bytes, readers)
            rates.append(size_bytes / (time.perf_counter() - started))
        return max(rates)
    except OSError:
        return 0.0  # tmpfs and some overlays know no O_DIRECT
    finally:
        if os.path.exists(path):
            os.unlink(path)


def _write(path, size_bytes):
    buffer = mmap.mmap(-1, CHUNK_BYTES)
    buffer.write(os.urandom(CHUNK_BYTES))
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600)
    try:
        for offset in range(0, size_bytes, CHUNK_BYTES):
            os.pwritev(handle, [buffer], offset)
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path, size_bytes, readers):
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)

    def read_share(reader):
        buffer = mmap.mmap(-1, CHUNK_BYTES)
        for offset in range(reader * CHUNK_BYTES, size_bytes, readers * CHUNK_BYTES):
            if os.preadv(handle, [buffer], offset) != CHUNK_BYTES:
                raise OSError("short read")

    try:
        with ThreadPoolExecutor(readers) as pool:
            list(pool.map(read_share, range(readers)))
    finally:
        os.close(handle)
