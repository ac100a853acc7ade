"""MLA rows a second time, from src/codec/mla/README.md alone."""

import numpy

from small_floats import E4M3, F32, nearest


def _e4m3(x):
    codes = nearest(E4M3, x)
    return numpy.where(numpy.isnan(x), codes & 128 | 127, codes).astype(numpy.uint8)


def _bf16(x):
    bits = x.view(numpy.uint32)
    rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    return rounded.astype(numpy.uint16).tobytes()


def _step(tile):
    finite = numpy.abs(numpy.where(numpy.isfinite(tile), tile, F32(0)))
    return finite.max() / F32(448)


def _exponent(step):
    mantissa, exponent = numpy.frexp(max(step, F32(1e-4)))
    return int(exponent) - (mantissa == 0.5)


def v32(row, is_exact):
    codes, scales = b"", b""
    for tile in row[:512].reshape(4, 128):
        step = _step(tile)
        scale = max(step, F32(2.0 ** -126)) if is_exact else F32(2.0 ** _exponent(step))
        codes += _e4m3(tile / scale).tobytes()
        scales += F32(scale).tobytes()
    return codes + scales + _bf16(row[512:])


def v4_block(rows):
    bodies, scales = b"", b""
    for row in rows:
        for tile in row[:448].reshape(7, 64):
            exponent = _exponent(_step(tile))
            bodies += _e4m3(tile / F32(2.0 ** exponent)).tobytes()
            scales += bytes([exponent + 127])
        bodies += _bf16(row[448:])
        scales += b"\0"
    whole = bodies + scales
    return whole + bytes(-len(whole) % 576)
