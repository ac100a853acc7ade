"""The numbers that go in, and checksums; tests/codec/interop_vectors.h makes the same in C++."""

import numpy
import torch

ROWS = 12
HEADS = {32: 6, 64: 4, 128: 2, 256: 1}
MASK = (1 << 64) - 1


def _splitmix(state):
    while True:
        state = state + 0x9e3779b97f4a7c15 & MASK
        z = state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
        z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
        yield z ^ z >> 31


def _plain(dim):
    """Rows 10 to 21 of K and of V of the golden input with 22 tokens and seed 2."""
    stream = _splitmix(2)
    tokens = 10 + ROWS

    def numbers():
        sums = [sum(next(stream) >> 44 for _ in range(3)) - 3 * 2 ** 19
                for _ in range(tokens * dim)]
        return numpy.array(sums, numpy.float32).reshape(tokens, dim) * numpy.float32(2.0 ** -18)

    return numbers()[10:], numbers()[10:]


def element(dim):
    return torch.float16 if dim == 128 else torch.bfloat16


def slot_rows(dim):
    """K and V [ROWS][dim], rounded to the model's 16-bit numbers."""
    k, v = _plain(dim)
    d = numpy.arange(dim)
    k[1] = 0
    v[1] = -0.0
    v[2] = 1.5
    for rows in (k, v):
        rows[3, 2] *= 128
        rows[4] *= numpy.float32(2.0 ** -12)
        rows[5] *= 1024
    k[6] = d == 0
    v[6] = d % 16 - 3.0
    v[7] = d % 31 / 2
    return tuple(torch.from_numpy(rows).to(element(dim)) for rows in (k, v))


def mla_rows(dim):
    """Rows [ROWS][dim], rounded to bf16; their last 64 numbers are the rotary part."""
    rows, _ = _plain(dim)
    latent = rows[:, :-64]
    latent[1] = 0
    rows[2] = 1.5
    latent[3, 2] *= 128
    for row, exponent in ((4, -12), (5, 10), (7, -60), (8, -7)):
        rows[row] *= numpy.float32(2.0 ** exponent)
    latent[6] = 448
    latent[9] = 3.5
    return torch.from_numpy(rows).to(torch.bfloat16)


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xffffffff


def crc_of(tensor):
    """Of the bits of 16-bit numbers, as four bytes."""
    words = tensor.contiguous().view(torch.int16).numpy().astype("<i2")
    return crc32c(words.tobytes()).to_bytes(4, "little")
