"""The golden vectors of the hot codecs against an implementation written from its README."""

import pathlib
import struct

import numpy

import hot_codec

FILE = pathlib.Path(__file__).parents[1] / "golden" / "codec" / "hot.bin"
MASK = (1 << 64) - 1
TOKENS = 13  # of 16; the others are absent


def splitmix(state):
    while True:
        state = state + 0x9e3779b97f4a7c15 & MASK
        z = state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
        z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
        yield z ^ z >> 31


def inputs(head_dim, seed):
    """As the README beside the vectors says: K, V, mean of K, mean of V."""
    stream = splitmix(seed)

    def numbers(count):
        sums = [sum(next(stream) >> 44 for _ in range(3)) - 3 * 2 ** 19 for _ in range(count)]
        return numpy.array(sums, numpy.float32) * numpy.float32(2.0 ** -18)

    k, v = (numbers(16 * head_dim).reshape(16, head_dim) for _ in range(2))
    k_mean, v_mean = numbers(head_dim), numbers(head_dim)
    for rows in (k, v):
        rows[1] *= 0
        rows[3] = 1.5
        rows[5, 5] = numpy.nan
        rows[6, 2] *= 128
        rows[7] *= numpy.float32(2.0 ** -14)
        rows[8] *= numpy.float32(2.0 ** 40)
        rows[9] *= numpy.float32(2.0 ** -130)
    return k, v, k_mean, v_mean


def records():
    data = FILE.read_bytes()
    magic, version, count = struct.unpack_from("<4sII", data)
    assert magic == b"QCGV" and version == 1
    at = 16
    for _ in range(count):
        codec, head_dim = struct.unpack_from("<I4xH", data, at)
        page_bytes, = struct.unpack_from("<I", data, at + 16)
        seed, = struct.unpack_from("<Q", data, at + 40)
        at += 56
        yield codec, head_dim, seed, data[at:at + page_bytes]
        at += page_bytes
    assert at == len(data)


def test_hot_pages_are_what_the_readme_says():
    checked = 0
    with numpy.errstate(all="ignore"):
        for codec, head_dim, seed, page in records():
            k_bits, v_bits = codec >> 8 & 15, codec >> 12 & 15
            k, v, k_mean, v_mean = inputs(head_dim, seed)
            ours = hot_codec.encode_page([(k, k_mean, k_bits), (v, v_mean, v_bits)], TOKENS)
            assert ours == page, f"k{k_bits}v{v_bits}, head_dim {head_dim}"
            checked += 1
    assert checked >= 20
