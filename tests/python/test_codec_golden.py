"""The golden vectors of the codecs against implementations written from their READMEs."""

import pathlib
import struct

import ml_dtypes
import numpy
import pytest

import ec_block
import fp4_codec
import hot_codec
import mla_rows
import slots_codec
import small_floats
import turbo_codec
import turned_codec

FOLDER = pathlib.Path(__file__).parents[1] / "golden" / "codec"
MASK = (1 << 64) - 1
TOKENS = 13  # of 16; the others are absent
K_SCALE, V_SCALE = numpy.float32(0.03125), numpy.float32(0.046875)


def splitmix(state):
    while True:
        state = state + 0x9e3779b97f4a7c15 & MASK
        z = state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
        z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
        yield z ^ z >> 31


def inputs(head_dim, seed, maps=False):
    """As the README beside the vectors says: K, V, mean of K, mean of V; with maps the matrices and
    the orders of dimensions."""
    stream = splitmix(seed)

    def numbers(count):
        sums = [sum(next(stream) >> 44 for _ in range(3)) - 3 * 2 ** 19 for _ in range(count)]
        return numpy.array(sums, numpy.float32) * numpy.float32(2.0 ** -18)

    k, v = (numbers(16 * head_dim).reshape(16, head_dim) for _ in range(2))
    k_mean, v_mean = numbers(head_dim), numbers(head_dim)
    if maps:
        matrices = [numbers(head_dim * head_dim).reshape(head_dim, head_dim) for _ in range(4)]
        orders = [numpy.argsort(numpy.array([next(stream) for _ in range(head_dim)], numpy.uint64))
                  for _ in range(2)]
    for rows in (k, v):
        rows[1] *= 0
        rows[3] = 1.5
        rows[5, 5] = numpy.nan
        rows[6, 2] *= 128
        rows[7] *= numpy.float32(2.0 ** -14)
        rows[8] *= numpy.float32(2.0 ** 40)
        rows[9] *= numpy.float32(2.0 ** -130)
    return (k, v, k_mean, v_mean) + ((matrices, orders) if maps else ())


def records(family):
    data = (FOLDER / f"{family}.bin").read_bytes()
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


def hot_page(codec, k, v, k_mean, v_mean):
    k_bits, v_bits = codec >> 8 & 15, codec >> 12 & 15
    return hot_codec.encode_page([(k, k_mean, k_bits), (v, v_mean, v_bits)], TOKENS)


def i2c_page(codec, k, v, k_mean, v_mean, matrices, _orders):
    k_bits, v_bits = codec >> 8 & 15, codec >> 12 & 15
    return turned_codec.i2c_page([(k, k_mean, k_bits, matrices[0]),
                                  (v, v_mean, v_bits, matrices[2])], TOKENS)


def split_page(_codec, k, v, k_mean, v_mean, matrices, orders):
    return turned_codec.split_page([(k, k_mean, matrices[0], orders[0]),
                                    (v, v_mean, matrices[2], orders[1])], TOKENS)


def fp4_page(codec, k, v, _k_mean, _v_mean):
    return fp4_codec.encode_page(k, v, fp4_codec.KINDS[codec >> 16], K_SCALE, V_SCALE, TOKENS)


def slots_page(codec, k, v, _k_mean, _v_mean):
    return slots_codec.encode_page(k, v, codec >> 8 & 15, codec >> 12 & 15, codec >> 16, TOKENS)


def turbo_page(codec, k, v, _k_mean, _v_mean):
    return turbo_codec.encode_page(k, v, codec >> 8 & 15, codec >> 16, TOKENS)


@pytest.mark.parametrize("family, page_of, least",
                         [("hot", hot_page, 60), ("i2c", i2c_page, 12), ("split", split_page, 4),
                          ("fp4", fp4_page, 11), ("slots", slots_page, 13),
                          ("turbo", turbo_page, 40)])
def test_pages_are_what_the_readme_says(family, page_of, least):
    checked = 0
    with numpy.errstate(all="ignore"):
        for codec, head_dim, seed, page in records(family):
            ours = page_of(codec, *inputs(head_dim, seed, family in ("i2c", "split")))
            first = next((i for i, (a, b) in enumerate(zip(ours, page)) if a != b), None)
            assert ours == page, f"codec {codec:#x}, head_dim {head_dim}, byte {first}"
            checked += 1
    assert checked >= least


def test_mla_rows_are_what_the_readme_says():
    ours = b""
    with numpy.errstate(all="ignore"):
        for is_exact in (False, True):
            ours += b"".join(mla_rows.v32(row, is_exact) for row in inputs(576, 1)[0])
        ours += mla_rows.v4_block(inputs(512, 1)[0])
    page = (FOLDER / "mla.rows").read_bytes()
    first = next((i for i, (a, b) in enumerate(zip(ours, page)) if a != b), None)
    assert ours == page, f"byte {first}"


@pytest.mark.parametrize("magnitudes, theirs, limit",
                         [(small_floats.E2M1, ml_dtypes.float4_e2m1fn, 6.0),
                          (small_floats.E4M3, ml_dtypes.float8_e4m3fn, 448.0)])
def test_small_floats_are_those_of_another_library(magnitudes, theirs, limit):
    random = numpy.random.default_rng(7)
    spread = random.normal(size=20000) * 2.0 ** random.uniform(-12, 9, 20000)
    middles = (magnitudes[1:] + magnitudes[:-1]) / 2
    x = numpy.concatenate([spread, middles, -middles, magnitudes, [0.0, -0.0]])
    x = numpy.clip(x.astype(numpy.float32), -limit, limit)
    assert (small_floats.nearest(magnitudes, x) == x.astype(theirs).view(numpy.uint8)).all()


def test_ec_block():
    layers, dim, tokens = 2, 16, 24
    file = ec_block.Numbers((FOLDER / "ec.block").read_bytes())
    section = file.take("u1", file.take("<u4", 1)[0]).tobytes()
    k_mean, v_mean = (file.take("<f4", layers * dim).reshape(layers, dim) for _ in range(2))
    block = file.take("u1", file.take("<u4", 1)[0]).tobytes()
    expected = file.take("<f4", layers * 2 * tokens * dim).reshape(layers, 2, tokens, dim)
    assert file.at == len(file.data)
    rows = ec_block.decode(block, section, k_mean, v_mean, tokens)
    numpy.testing.assert_array_equal(rows, expected)
