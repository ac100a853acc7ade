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
    """sides: (rows, mean, order of dimensions) of K and of V."""
    dims = len(sides[0][1])
    many = dims // 32 * 16
    page = b""
    for bits, part in ((3, slice(0, many)), (2, slice(many, dims))):
        halves = []
        for rows, mean, order in sides:
            centred = rows - mean
            centred[~numpy.isfinite(centred).all(1)] = numpy.nan
            halves.append((centred[:, order[part]], numpy.float32(0), bits))
        page += hot_codec.encode_page(halves, tokens)
    return page
