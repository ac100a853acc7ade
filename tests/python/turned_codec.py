"""The codecs that turn rows before the hot family codes them, written from src/codec/i2c/README.md
and src/codec/split/README.md alone: a second opinion on what the bytes must be."""

import numpy

import hot_codec


def product(row, matrix):
    """A row times a matrix, number 0 first."""
    out = numpy.zeros(len(row), numpy.float32)
    for number, adds in zip(row, matrix):
        out = hot_codec.fused(number, adds, out)
    return out


def i2c_page(sides, tokens):
    """sides: (rows, mean, bits, forward matrix) of K and of V."""
    turned = []
    for rows, mean, bits, forward in sides:
        out = numpy.zeros_like(rows)
        for t in range(tokens):
            out[t] = product(rows[t] - mean, forward)
        turned.append((out, numpy.zeros_like(mean), bits))
    return hot_codec.encode_page(turned, tokens)


def split_page(sides, tokens):
    """sides: (rows, mean, forward matrix, order of components) of K and of V."""
    dims = len(sides[0][1])
    many = dims // 32 * 16
    turned = []
    for rows, mean, forward, order in sides:
        out = numpy.full_like(rows, numpy.nan)
        for t in range(tokens):
            if numpy.isfinite(rows[t] - mean).all():
                out[t] = product(rows[t] - mean, forward)[order]
        turned.append(out)
    return b"".join(
        hot_codec.encode_page([(rows[:, part], numpy.float32(0), bits) for rows in turned], tokens)
        for bits, part in ((3, slice(0, many)), (2, slice(many, dims))))
