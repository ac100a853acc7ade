"""A decoder of ec's blocks written from src/codec/ec/README.md alone, in NumPy: a second opinion on
what the bytes mean. Slow, and independent of the C++."""

import math
import struct

import numpy

F32 = numpy.float32
SYMBOLS, LARGEST, CLASSES, LOWEST_OCTAVE = 49, 24, 49, -5
STATES, LANES, GROUPS = 64, 16, 4


def fused(a, b, c):
    """a * b + c rounded once (but for the rare case that double precision rounds first)."""
    return (numpy.float64(a) * numpy.float64(b) + numpy.float64(c)).astype(F32)


class Numbers:
    """What follows in the bytes of a section."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, kind, count):
        numbers = numpy.frombuffer(self.data, kind, count, self.at)
        self.at += numbers.nbytes
        return numbers


def heads(section, layers, dim):
    """Classes, and the heads of K and then of V, one for each layer."""
    numbers = Numbers(section)
    classes = [(numbers.take("<u2", SYMBOLS).astype(int), *numbers.take("<f4", 2))
               for _ in range(CLASSES)]
    sides = []
    for _ in range(2):
        side = []
        for _ in range(layers):
            step, = numbers.take("<f4", 1)
            inputs, = numbers.take("<u4", 1)
            side.append({"step": step, "spreads": numbers.take("<f4", dim),
                         "deviations": numbers.take("<f4", dim),
                         "components": numbers.take("<f4", dim * dim).reshape(dim, dim),
                         "restore": numbers.take("<f4", dim * dim).reshape(dim, dim),
                         "weights": numbers.take("<f4", inputs * dim).reshape(inputs, dim)})
        sides.append(side)
    assert numbers.at == len(section)
    return classes, sides


def class_of(deviation, step):
    ratio = math.log2(float(deviation) / float(step)) if deviation > 0 else -math.inf
    return int(min(max(round((ratio - LOWEST_OCTAVE) * 4) if deviation > 0 else 0, 0), CLASSES - 1))


class Symbols:
    def __init__(self, block):
        self.step, = struct.unpack_from("<f", block)
        words, = struct.unpack_from("<I", block, 4)
        self.states = [int(s) for s in numpy.frombuffer(block, "<u4", STATES, 8)]
        self.words = iter(numpy.frombuffer(block, "<u2", words, 264))
        self.escapes = iter(block[264 + 2 * words:])
        self.turn = 0

    def component(self, frequencies, tokens):
        first = numpy.concatenate([[0], numpy.cumsum(frequencies)])
        out = []
        for begin in range(0, tokens, LANES):
            for lane in range(min(LANES, tokens - begin)):
                at = self.turn * LANES + lane
                slot = self.states[at] & 4095
                symbol = int(numpy.searchsorted(first, slot, "right")) - 1
                state = int(frequencies[symbol]) * (self.states[at] >> 12)
                state += slot - int(first[symbol])
                if state < 1 << 15:
                    state = state << 16 | int(next(self.words))
                self.states[at] = state
                out.append(symbol - LARGEST)
            self.turn = (self.turn + 1) % GROUPS
        return out

    def escape(self):
        value = shift = 0
        while True:
            byte = next(self.escapes)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def ended(self):
        return (all(s == 1 << 15 for s in self.states) and next(self.words, None) is None
                and next(self.escapes, None) is None)


def sizes(head):
    """Powers of two at or below the spread of each component."""
    bounded = numpy.clip(head["spreads"], 2.0 ** -40, 2.0 ** 40)
    return numpy.array([math.ldexp(1.0, math.frexp(x)[1] - 1) for x in bounded], F32)


def remember(components, head):
    """Bytes less 128, and a scale a token."""
    numbers = components * (F32(1) / sizes(head))
    largest = numpy.clip(numpy.abs(numbers).max(1), F32(2.0 ** -60), F32(2.0 ** 60))
    scaled = numbers * (F32(127) / largest)[:, None]
    return numpy.rint(numpy.clip(scaled, -127, 127)).astype(int), largest / F32(127)


def decode(block, section, k_mean, v_mean, tokens):
    """Rows [layer][K, V][tokens][dim] of a model that has one head a layer."""
    layers, dim = k_mean.shape
    classes, sides = heads(section, layers, dim)
    symbols = Symbols(block)
    history, out = [], []
    for layer in range(layers):
        pair = [(sides[0][layer], k_mean[layer]), (sides[1][layer], v_mean[layer])]
        kinds = [class_of(d, F32(symbols.step) * head["step"])
                 for head, _ in pair for d in head["deviations"]]
        integers = [None] * len(kinds)
        for c in sorted(range(len(kinds)), key=lambda c: (kinds[c], c)):
            integers[c] = symbols.component(classes[kinds[c]][0], tokens)
        for side, (head, mean) in enumerate(pair):
            expected = numpy.zeros((tokens, dim), F32)
            inputs = len(head["weights"]) // dim
            for back in range(inputs, 0, -1):
                earlier, numbers, scales = history[-back]
                part = head["weights"][(inputs - back) * dim:(inputs - back + 1) * dim]
                part = part * sizes(earlier)[:, None]
                weight_scales = numpy.abs(part).max(0) / F32(127)
                weights = numpy.rint(numpy.clip(part / weight_scales, -127, 127)).astype(int)
                sums = (numbers @ weights).astype(F32) * weight_scales
                expected = fused(sums, scales[:, None], expected)
            rows = numpy.tile(mean, (tokens, 1))
            components = numpy.empty((tokens, dim), F32)
            step = F32(symbols.step) * head["step"]
            for c in range(dim):
                own = side * dim + c
                _, one, more = classes[kinds[own]]
                values = []
                for integer in integers[own]:
                    size = abs(integer)
                    if size == LARGEST:
                        size += symbols.escape()
                    value = (F32(size) - (one if size == 1 else more)) * step if size else F32(0)
                    values.append(math.copysign(value, integer))
                components[:, c] = numpy.array(values, F32) + expected[:, c]
                if inputs or any(integers[own]):
                    rows = fused(components[:, c][:, None], head["restore"][c], rows)
            history.append((head, *remember(components, head)))
            out.append(rows)
    assert symbols.ended()
    return numpy.stack(out).reshape(layers, 2, tokens, dim)
