"""Random rows through vLLM's store kernel and through tests/python/slots_codec.py."""

import sys

import numpy
import torch

import slots

DIMS = (32, 64, 128, 256)
TOKENS, HEADS = 32, 8
BORDER = 1e-6  # how far from a border of two codes rounding may push a number, for rows of norm 1


def run(folder, rows):
    sys.path.insert(0, str(folder))
    import slots_codec
    random = numpy.random.default_rng(1)
    wrong = 0
    for preset in slots.presets():
        for dim in DIMS:
            for element in (torch.bfloat16, torch.float16):
                seen = [_compare(slots_codec, preset, _normal(random, dim, element))
                        for _ in range(-(-rows // (TOKENS * HEADS)))]
                total, equal, borders, bad = numpy.array(seen).sum(0)
                wrong += bad
                print(f"{preset} {dim} {element}: {equal} of {total} rows equal, {borders} differ "
                      f"on a border, {bad} are wrong", flush=True)
    return int(wrong > 0)


def _normal(random, dim, element):
    return [torch.from_numpy(random.normal(0, 2, (TOKENS, HEADS, dim)).astype(numpy.float32))
            .to(element) for _ in range(2)]


def _compare(codec, preset, numbers):
    k, v = numbers
    theirs, _ = slots.write(preset, k, v)
    k_bits, v_bits = {"turboquant_k8v4": (8, 4), "turboquant_4bit_nc": (4, 4),
                      "turboquant_k3v4_nc": (3, 4), "turboquant_3bit_nc": (3, 3)}[preset]
    equal = borders = bad = 0
    for k_row, v_row, slot in zip(*(x.float().reshape(-1, x.shape[2]).numpy() for x in (k, v)),
                                  theirs.reshape(-1, theirs.shape[2]).numpy()):
        ours = codec.key(k_row, k_bits) + codec.value(v_row, v_bits)
        if ours == slot.tobytes():
            equal += 1
        elif k_bits < 8 and _is_border(codec, k_row, k_bits, ours, slot.tobytes()):
            borders += 1
        else:
            bad += 1
    return equal + borders + bad, equal, borders, bad


def _is_border(codec, row, bits, ours, theirs):
    """Whether only codes of numbers on a border, and the norm's last bit, are others."""
    size = len(row) * bits // 8
    if ours[size + 2:] != theirs[size + 2:]:
        return False
    norms = [int.from_bytes(x[size:size + 2], "little") for x in (ours, theirs)]
    codes = [_codes(x[:size], bits) for x in (ours, theirs)]
    exact = row.astype(float) / numpy.sqrt(numpy.sum(row.astype(float) ** 2))
    levels = codec.table(bits, len(row)).astype(float)
    for i in numpy.flatnonzero(codes[0] != codes[1]):
        signs = [1 - 2 * (bin(i & d).count("1") & 1) for d in range(len(row))]
        turned = numpy.dot(signs, exact) / numpy.sqrt(len(row))
        if numpy.abs(turned - (levels[1:] + levels[:-1]) / 2).min() > BORDER:
            return False
    return abs(norms[0] - norms[1]) <= 1


def _codes(data, bits):
    flat = numpy.unpackbits(numpy.frombuffer(data, numpy.uint8), bitorder="little")
    return flat.reshape(-1, bits) @ (1 << numpy.arange(bits))
