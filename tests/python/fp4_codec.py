"""nvfp4, nvfp4_4over6 and mxfp4 a second time, from src/codec/fp4/README.md alone."""

import numpy

from small_floats import E2M1, E4M3, F32, e2m1_value, e4m3_value, nearest

KINDS = ["nvfp4", "nvfp4_4over6", "mxfp4"]


def _top(block):
    return numpy.abs(numpy.where(numpy.isfinite(block), block, F32(0))).max()


def _codes(block, inverse):
    codes = nearest(E2M1, block * inverse)
    signs = numpy.signbit(block) * 8
    return (codes & 7 | signs).astype(numpy.uint8)


def _error(block, codes, step):
    squares = (e2m1_value(codes) * step - block) ** 2
    while len(squares) > 1:
        half = len(squares) // 2
        squares = squares[:half] + squares[half:]
    return squares[0]


def _nv_block(block, four_over_six, over):
    choices = []
    for part in [F32(1) / F32(6), F32(0.25)][:1 + four_over_six]:
        scale = nearest(E4M3, _top(block) * part * (F32(1) / over))
        step = e4m3_value(scale) * over
        codes = numpy.zeros(16, numpy.uint8)
        if step != 0:
            codes = _codes(block, F32(1) / step)
        choices.append((scale, codes, _error(block, codes, step)))
    best = choices[-1] if choices[-1][2] < choices[0][2] else choices[0]
    return best[:2]


def _mx_block(block):
    top = _top(block)
    exponent = int(numpy.frexp(top)[1]) - 1 if top > 0 else -200
    scale = max(exponent - 2 + 127, 0)
    return scale, _codes(block, F32(2.0 ** (127 - scale)))


def encode_side(rows, kind, over, shuffled, tokens):
    """Codes and scales of one side, as bytes. Tokens from `tokens` on are absent."""
    size = 32 if kind == "mxfp4" else 16
    n, dims = rows.shape
    codes = numpy.zeros((n, dims // 2), numpy.uint8)
    scales = numpy.zeros((n, dims // size), numpy.uint8)
    for t in range(tokens):
        for b in range(dims // size):
            block = rows[t, b * size:(b + 1) * size]
            if kind == "mxfp4":
                scale, own = _mx_block(block)
            else:
                scale, own = _nv_block(block, kind == "nvfp4_4over6", over)
            scales[t, b] = scale
            codes[t, b * size // 2:(b + 1) * size // 2] = own[::2] | own[1::2] << 4
    if shuffled:
        scales = scales.reshape(n // 4, 4, 4, -1).transpose(0, 2, 3, 1).reshape(scales.shape)
    return codes.tobytes() + scales.tobytes()


def encode_page(k, v, kind, k_over, v_over, tokens):
    shuffled = kind != "mxfp4" and k.shape[1] % 64 == 0
    return (encode_side(k, kind, k_over, False, tokens)
            + encode_side(v, kind, v_over, shuffled, tokens))
