"""Floats of 4 and 8 bits, from the tables of the OCP specifications: E2M1, E4M3, E8M0."""

import numpy

F32 = numpy.float32


def _values(exponent_bits, mantissa_bits, bias):
    """Magnitudes of all codes, as exact doubles."""
    codes = numpy.arange(1 << exponent_bits + mantissa_bits)
    exponent = codes >> mantissa_bits
    mantissa = codes & (1 << mantissa_bits) - 1
    is_normal = exponent > 0
    fraction = mantissa / 2.0 ** mantissa_bits + is_normal
    return fraction * 2.0 ** (numpy.maximum(exponent, 1) - bias)


E2M1 = _values(2, 1, 1)         # 0 to 6
E4M3 = _values(4, 3, 7)[:127]   # 0 to 448; code 127 is NaN


def nearest(magnitudes, x):
    """Codes: nearest, ties to the even code, saturated; the sign in the bit above. NaN: 0."""
    size = numpy.minimum(numpy.abs(numpy.asarray(x, numpy.float64)), magnitudes[-1])
    distance = numpy.abs(size[..., None] - magnitudes)
    is_odd = numpy.arange(len(magnitudes)) % 2
    order = numpy.lexsort((numpy.broadcast_to(is_odd, distance.shape), distance), axis=-1)
    code = numpy.where(numpy.isnan(size), 0, order[..., 0])
    sign_bit = 1 << (len(magnitudes) - 1).bit_length()
    return (code + numpy.signbit(x) * sign_bit).astype(numpy.uint8)


def e2m1_value(code):
    return (numpy.where(code & 8, -1, 1) * E2M1[code & 7]).astype(F32)


def e4m3_value(code):
    """REQUIRES: no NaN."""
    return (numpy.where(code & 128, -1, 1) * E4M3[code & 127]).astype(F32)
