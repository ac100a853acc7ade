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


def _top(tile):
    return numpy.abs(numpy.where(numpy.isfinite(tile), tile, F32(0))).max()


def _exponent(step):
    mantissa, exponent = numpy.frexp(step)
    return int(exponent) - (mantissa == 0.5)


def v32(row, is_exact):
    codes, scales = b"", b""
    for tile in row[:512].reshape(4, 128):
        step = _top(tile) / F32(448)
        scale = (max(step, F32(2.0 ** -126)) if is_exact
                 else F32(2.0 ** _exponent(max(step, F32(1e-4)))))
        codes += _e4m3(tile / scale).tobytes()
        scales += F32(scale).tobytes()
    return codes + scales + _bf16(row[512:])


def v4_block(rows):
    bodies, scales = b"", b""
    for row in rows:
        for tile in row[:448].reshape(7, 64):
            exponent = _exponent(max(_top(tile), F32(1e-4)) / F32(448))
            bodies += _e4m3(tile / F32(2.0 ** exponent)).tobytes()
            scales += bytes([exponent + 127])
        bodies += _bf16(row[448:])
        scales += b"\0"
    whole = bodies + scales
    return whole + bytes(-len(whole) % 576)
