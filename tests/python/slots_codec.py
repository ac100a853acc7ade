"""vLLM's TurboQuant slots a second time, from src/codec/slots/README.md alone."""

import functools
import math

import numpy

from hot_codec import hadamard, sum_of_squares
from small_floats import E4M3, F32, nearest


@functools.cache
def table(bits, dims):
    """Levels, by the rule in src/codec/slots/table.h."""
    deviation = math.sqrt(1 / dims)
    low, high = -3.5 * deviation, 3.5 * deviation
    n = 2 ** bits
    levels = [low + (high - low) * (i + 0.5) / n for i in range(n)]

    def density(x):
        variance = 1 / dims
        return 1 / math.sqrt(2 * math.pi * variance) * math.exp(-x * x / (2 * variance))

    def integral(f, a, b):
        h = (b - a) / 200
        return (0.5 * (f(a) + f(b)) + sum(f(a + i * h) for i in range(1, 200))) * h

    for _ in range(200):
        inner = [(a + b) / 2 for a, b in zip(levels, levels[1:])]
        edges = [3 * low, *inner, 3 * high]
        new = []
        for i in range(n):
            a, b = edges[i], edges[i + 1]
            weight = integral(density, a, b)
            moment = integral(lambda x: x * density(x), a, b)
            new.append(moment / weight if weight > 1e-15 else levels[i])
        moved = max(abs(a - b) for a, b in zip(new, levels))
        if moved < 1e-10:
            break
        levels = new
    return numpy.array(levels, F32)


def packed(codes, bits):
    """Codes side by side, the first in the lowest bits."""
    bit = codes[:, None] >> numpy.arange(bits) & 1
    return numpy.packbits(bit.astype(numpy.uint8).reshape(-1), bitorder="little").tobytes()


def half(x):
    return numpy.clip(x, F32(-65504), F32(65504)).astype(numpy.float16).tobytes()


def key(row, bits):
    if bits == 8:
        codes = nearest(E4M3, row)  # a magnitude of 127 is NaN; the sign is the number's
        return numpy.where(numpy.isnan(row), codes & 128 | 127, codes).astype(numpy.uint8).tobytes()
    norm = numpy.sqrt(sum_of_squares(row))
    if not numpy.isfinite(norm):
        return bytes(len(row) * bits // 8 + 2)
    y = hadamard(row / (norm + F32(1e-8)))
    levels = table(bits, len(row))
    midpoints = (levels[1:] + levels[:-1]) / F32(2)
    codes = (y[:, None] >= midpoints).sum(1)
    return packed(codes, bits) + half(norm)


def value(row, bits):
    zeros = bytes(len(row) * bits // 8 + 4)
    if not numpy.isfinite(row).all():
        return zeros
    low = row.min()
    if low == 0:  # no number is negative: -0 is smaller than 0
        low = F32(-0.0) if numpy.signbit(row).any() else F32(0)
    if not numpy.isfinite(row.max() - low):
        return zeros
    top = F32(2 ** bits - 1)
    step = max((row.max() - low) / top, F32(1e-8))
    codes = numpy.floor(numpy.minimum((row - low) / step + F32(0.5), top)).astype(int)
    return packed(codes, bits) + half(step) + half(low)


def encode_page(k, v, k_bits, v_bits, planes, tokens):
    """Slots of all tokens; with `planes` in the layout of qgroup4."""
    slot_bytes = len(key(k[0] * 0, k_bits)) + len(value(v[0] * 0, v_bits))
    slots = numpy.zeros((len(k), slot_bytes), numpy.uint8)
    for t in range(tokens):
        slots[t] = numpy.frombuffer(key(k[t], k_bits) + value(v[t], v_bits), numpy.uint8)
    if not planes:
        return slots.tobytes()
    k_codes, v_codes = k.shape[1] * k_bits // 8, v.shape[1] * v_bits // 8
    first, last = k_codes + 2, k_codes + 2 + v_codes
    meta = numpy.concatenate([slots[:, k_codes:first], slots[:, last:]], 1)
    return slots[:, :k_codes].T.tobytes() + slots[:, first:last].T.tobytes() + meta.tobytes()
