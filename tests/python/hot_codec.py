"""The hot family written from src/codec/hot/README.md alone, in NumPy: a second opinion on what
the bytes must be. Slow, and independent of the C++."""

import math

import numpy

F32 = numpy.float32

# Lloyd-Max levels of the normal distribution, positive half, and the middles between them.
LEVELS = {
    2: [0.452780035, 1.51041761],
    3: [0.245094179, 0.756005281, 1.34390928, 2.15194570],
    4: [0.128395030, 0.388048300, 0.656759119, 0.942340457, 1.25623120, 1.61804639, 2.06901723,
        2.73258957],
    5: [0.0658896598, 0.198051830, 0.331378306, 0.466699523, 0.604933624, 0.747135704, 0.894565117,
        1.04878332, 1.21180438, 1.38634034, 1.57622808, 1.78723322, 2.02872840, 2.31773940,
        2.69111958, 3.26073249],
}
THRESHOLDS = {
    2: [0.981598822],
    3: [0.500549730, 1.04995728, 1.74792749],
    4: [0.258221665, 0.522403709, 0.799549788, 1.09928583, 1.43713879, 1.84353181, 2.40080340],
    5: [0.131970745, 0.264715068, 0.399038914, 0.535816574, 0.676034664, 0.820850411, 0.971674219,
        1.13029385, 1.29907236, 1.48128421, 1.68173065, 1.90798081, 2.17323390, 2.50442949,
        2.97592604],
}
# Highest and lowest step around the anchor.
WINDOW = {8: (0, -1), 7: (0, -1), 6: (0, -3), 5: (5, -2), 4: (1, -5), 3: (0, -10), 2: (3, -5)}
PLANES = {8: [8], 7: [4, 2, 1], 6: [4, 2], 5: [4, 1], 4: [4], 3: [2, 1], 2: [2]}


def fused(a, b, c):
    """a * b + c rounded once (but for the rare case that double precision rounds first)."""
    return (numpy.float64(a) * numpy.float64(b) + numpy.float64(c)).astype(F32)


def hadamard(row):
    x = row.copy()
    block = min(len(x) & -len(x), 256)
    h = 1
    while h < block:
        pairs = x.reshape(-1, 2, h)
        x = numpy.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).reshape(-1)
        h *= 2
    return x * F32(1 / math.sqrt(block))


def octaves(bits):
    return 9 if bits <= 5 else 7 + bits


def scale(bits, u):
    return F32(2.0 ** ((u & 15) / 16)) * F32(2.0 ** ((u >> 4) - octaves(bits)))


def inverse_scale(bits, u):
    return F32(2.0 ** (-(u & 15) / 16)) * F32(2.0 ** (octaves(bits) - (u >> 4)))


def sum_of_squares(x):
    lanes = numpy.zeros(16, F32)
    for i in range(0, len(x), 16):
        lanes = fused(x[i:i + 16], x[i:i + 16], lanes)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def nearest(bits, z):
    """Codes and levels of numbers over their scale."""
    half = 1 << (bits - 1)
    if bits > 5:
        level = numpy.rint(numpy.clip(z, -half, half - 1)).astype(F32)
        return (level + half).astype(int), level
    index = (numpy.abs(z)[:, None] >= numpy.array(THRESHOLDS[bits], F32)).sum(1)
    level = numpy.array(LEVELS[bits], F32)[index]
    minus = numpy.signbit(z)
    return numpy.where(minus, half - 1 - index, half + index), numpy.where(minus, -level, level)


def anchor_of(bits, x, largest):
    reach = F32(LEVELS[bits][-1]) if bits <= 5 else F32(2 ** (bits - 1) - 0.5)
    amplitude = largest * (F32(1) / reach)
    if bits == 2:
        amplitude = largest
        if largest < 2 ** 20:
            amplitude = numpy.sqrt(sum_of_squares(x) / F32(len(x)))
    mantissa, exponent = numpy.frexp(amplitude)
    steps = sum(F32(2.0 ** (i / 16)) < F32(mantissa * 2) for i in range(16))
    return 16 * (int(exponent) - 1 + octaves(bits)) + int(steps)


def encode_row(row, mean, bits):
    x = hadamard(row - mean)
    zero = numpy.zeros(len(x), int), 0
    if not numpy.isfinite(x).all():
        return zero
    largest = numpy.abs(x).max()
    innermost = F32(LEVELS[bits][0]) if bits <= 5 else F32(1)
    if largest <= F32(0.5) * innermost * scale(bits, 1):
        return zero
    anchor = anchor_of(bits, x, largest)
    least, best = None, None
    for step in range(WINDOW[bits][0], WINDOW[bits][1] - 1, -1):
        u = min(255, max(1, anchor + step))
        level = nearest(bits, x * inverse_scale(bits, u))[1]
        error = sum_of_squares(fused(-level, scale(bits, u), x))
        if least is None or error < least:
            least, best = error, u
    return nearest(bits, x * inverse_scale(bits, best))[0], best


def encode_page(sides, tokens):
    """sides: (rows, mean, bits) of K and of V. Tokens from `tokens` on are absent."""
    planes, scales = [], []
    for side, (rows, mean, bits) in enumerate(sides):
        n, dims = rows.shape
        codes, own_scales = numpy.zeros((n, dims), int), numpy.zeros(n, numpy.uint8)
        for t in range(tokens):
            codes[t], own_scales[t] = encode_row(rows[t], mean, bits)
        if side == 0:  # dim-major: lanes are keys
            codes = codes.reshape(-1, 16, dims).transpose(0, 2, 1)
        lanes = codes.reshape(-1, 16)
        shift = bits
        for width in PLANES[bits]:
            shift -= width
            part = (lanes >> shift & (1 << width) - 1).reshape(-1, 8 // width, 16)
            packed = sum(part[:, j] << j * width for j in range(8 // width))
            planes.append(packed.astype(numpy.uint8).tobytes())
        scales.append(own_scales.tobytes())
    return b"".join(planes + scales)
