"""TurboQuant's paper a second time, from src/codec/turbo/README.md alone."""

import functools
import math

import numpy

from slots_codec import packed

MASK = (1 << 64) - 1
SEED = 250419874


def _outputs(stream, count):
    """splitmix64 from the stream's state."""
    start = SEED + stream * 0xd1342543de82ef95 & MASK
    steps = numpy.arange(1, count + 1, dtype=numpy.uint64)
    z = numpy.uint64(start) + steps * numpy.uint64(0x9e3779b97f4a7c15)
    z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94d049bb133111eb)
    return z ^ z >> numpy.uint64(31)


def _numbers(stream, count):
    ones = numpy.bitwise_count(_outputs(stream, 4 * count)).astype(int).reshape(-1, 4).sum(1)
    return (ones - 128) / 8


def _signs(dims):
    words = _outputs(0, -(-dims // 64))
    return numpy.array([-1.0 if int(words[i // 64]) >> i % 64 & 1 else 1.0 for i in range(dims)])


@functools.cache
def random_rotation(dims):
    """P as a matrix."""
    p = numpy.diag(_signs(dims))
    for k in range(2, dims + 1):
        u = _numbers(k, k)
        u[0] += math.copysign(numpy.linalg.norm(u), u[0])
        p[-k:] -= numpy.outer(2 * u / (u @ u), u @ p[-k:])
    return p


def hadamard(x):
    """After the signs, by butterflies, so that what cancels is exactly zero."""
    x = x * _signs(len(x))
    block, h = len(x) & -len(x), 1
    while h < block:
        pairs = x.reshape(-1, 2, h)
        x = numpy.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).reshape(-1)
        h *= 2
    return x / math.sqrt(block)


@functools.cache
def projection(dims):
    return numpy.array([_numbers(2 ** 16 + i, dims) for i in range(dims)])


def _means(level, dims):
    """Means of the density between the levels' midpoints."""
    x, weight = numpy.polynomial.legendre.leggauss(80)
    reach = min(math.sqrt(dims), 12.0)
    cuts = numpy.concatenate([[0], (level[1:] + level[:-1]) / 2])
    edges = numpy.concatenate([cuts, numpy.linspace(cuts[-1], reach, 17)[1:]])
    low, high = edges[:-1, None], edges[1:, None]
    t = (high - low) / 2 * x + (high + low) / 2
    density = (1 - numpy.minimum(t * t / dims, 1)) ** ((dims - 3) / 2) * (high - low) / 2 * weight
    first = numpy.arange(len(level))
    return (numpy.add.reduceat((density * t).sum(1), first)
            / numpy.add.reduceat(density.sum(1), first))


@functools.cache
def levels(bits, dims):
    """Lloyd-Max for the sphere's coordinate, times sqrt(dims), by Newton's method."""
    n = 2 ** (bits - 1)
    level = numpy.linspace(0.13, 2.5, n) if n > 1 else numpy.array([0.8])
    for _ in range(200):
        level = _means(level, dims)
    for _ in range(8):
        near = 1e-6 * numpy.eye(n)
        slopes = numpy.array([_means(level + e, dims) - _means(level - e, dims) for e in near])
        slopes = slopes.T / 2e-6 - numpy.eye(n)
        level = level - numpy.linalg.solve(slopes, _means(level, dims) - level)
    return level.astype(numpy.float32)


def _half(x):
    return numpy.float32(min(x, 65504.0)).astype(numpy.float16).tobytes()


def encode_row(row, bits, is_product, is_hadamard):
    dims = len(row)
    size = dims * bits // 8 + (4 if is_product else 2)
    row = row.astype(float)
    if not numpy.isfinite(row).all() or not row.any():
        return bytes(size)
    norm = numpy.linalg.norm(row)
    y = hadamard(row / norm) if is_hadamard else random_rotation(dims) @ (row / norm)
    half = levels(bits - is_product, dims).astype(float) / math.sqrt(dims)
    level = numpy.concatenate([-half[::-1], half])
    codes = (y[:, None] >= (level[1:] + level[:-1]) / 2).sum(1)
    coded = packed(codes, bits - is_product)
    if not is_product:
        return coded + _half(norm)
    rest = y - level[codes]
    signs = (projection(dims) @ rest >= 0).astype(int)
    return coded + packed(signs, 1) + _half(norm) + _half(numpy.linalg.norm(rest))


def encode_page(k, v, bits, option, tokens):
    """Option 1: inner product for K; 2: Hadamard. Tokens from `tokens` on are absent."""
    page = b""
    for rows, is_product in ((k, option & 1), (v, 0)):
        coded = [encode_row(row, bits, is_product, option >> 1) for row in rows[:tokens]]
        page += b"".join(coded) + bytes(len(coded[0]) * (len(rows) - tokens))
    return page
