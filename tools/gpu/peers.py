#!/usr/bin/env python3
"""Attention of decode steps beside other people's, in one run on one GPU: cuDNN's over contiguous
bf16 keys (torch), and a 4-bit decode in Triton as vLLM's is built (a program for each query head
and share of the keys, levels gathered from a table, sums without matrix products).

Needs torch with CUDA, Triton and libquire_kernels.so (tools/gpu/run.sh build). Every row is the
median of some replays of a CUDA graph of 20 steps. Exit code 1: a bar was missed.
"""

import argparse
import json
import pathlib
import statistics
import sys

import torch
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))

from quire import kernels  # noqa: E402  pylint: disable=wrong-import-position

HEADS, KV_HEADS, DIM, BLOCK = 64, 8, 128, 64
GROUP = HEADS // KV_HEADS
SCALE = DIM**-0.5


def seconds(step):
    """Of one step."""
    steps, runs = 20, 7
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(steps):
            step()
    times = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / steps)
    return statistics.median(times)


@triton.jit
def four_bit_shares(q, codes, scales, levels, lengths, blocks, table, sums, scores,
                    scale: tl.constexpr, heads: tl.constexpr, group: tl.constexpr,
                    dim: tl.constexpr, block: tl.constexpr, shares: tl.constexpr,
                    tile: tl.constexpr):
    """codes: [blocks, block, kv_heads, dim] bytes, of K then of V; scales: [.., 3] of K, of V and
    V's least number."""
    request, head, share = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kv_heads: tl.constexpr = heads // group
    half: tl.constexpr = dim // 2
    pair = tl.arange(0, half)
    n = tl.load(lengths + request)
    each = tl.cdiv(tl.cdiv(n, shares), tile) * tile
    begin, end = share * each, tl.minimum(share * each + each, n)
    row = (request * heads + head) * dim
    even = tl.load(q + row + 2 * pair).to(tl.float32)
    odd = tl.load(q + row + 2 * pair + 1).to(tl.float32)
    top, weight = -float("inf"), 0.0
    out_even, out_odd = tl.zeros([half], tl.float32), tl.zeros([half], tl.float32)
    for start in range(begin, end, tile):
        t = start + tl.arange(0, tile)
        seen = t < end
        page = tl.load(blocks + request * table + t // block, mask=seen, other=0).to(tl.int64)
        slot = (page * block + t % block) * kv_heads + head // group
        k = tl.load(codes + (slot * dim)[:, None] + pair[None, :], mask=seen[:, None], other=0)
        key = tl.sum(tl.load(levels + (k & 15)) * even[None, :] +
                     tl.load(levels + (k >> 4)) * odd[None, :], 1)
        score = key * tl.load(scales + slot * 3, mask=seen, other=0.0) * scale
        score = tl.where(seen, score, -float("inf"))
        larger = tl.maximum(top, tl.max(score, 0))
        keep, p = tl.exp(top - larger), tl.exp(score - larger)
        v = tl.load(codes + (slot * dim + half)[:, None] + pair[None, :], mask=seen[:, None],
                    other=0)
        step = tl.load(scales + slot * 3 + 1, mask=seen, other=0.0)[:, None]
        least = tl.load(scales + slot * 3 + 2, mask=seen, other=0.0)[:, None]
        out_even = out_even * keep + tl.sum(p[:, None] * ((v & 15) * step + least), 0)
        out_odd = out_odd * keep + tl.sum(p[:, None] * ((v >> 4) * step + least), 0)
        weight = weight * keep + tl.sum(p, 0)
        top = larger
    at = (request * heads + head) * shares + share
    tl.store(sums + at * dim + 2 * pair, out_even)
    tl.store(sums + at * dim + 2 * pair + 1, out_odd)
    tl.store(scores + at * 2, top)
    tl.store(scores + at * 2 + 1, weight)


@triton.jit
def join_shares(sums, scores, out, dim: tl.constexpr, shares: tl.constexpr):
    row = tl.program_id(0)
    d, i = tl.arange(0, dim), tl.arange(0, shares)
    top = tl.load(scores + (row * shares + i) * 2)
    scale = tl.exp(top - tl.max(top, 0))
    weight = tl.sum(tl.load(scores + (row * shares + i) * 2 + 1) * scale, 0)
    parts = tl.load(sums + ((row * shares + i) * dim)[:, None] + d[None, :])
    tl.store(out + row * dim + d, tl.sum(parts * scale[:, None], 0) / weight)


class Batch:
    """Requests of one length, whose blocks lie in random order."""

    def __init__(self, requests, tokens):
        self.requests, self.tokens = requests, tokens
        self.name = f"{requests} x {tokens // 1024}k"
        each = tokens // BLOCK
        self.tables = torch.randperm(requests * each, device="cuda").int().view(requests, each)
        self.lengths = torch.full((requests,), tokens, dtype=torch.int32, device="cuda")
        self.q = torch.randn(requests, 1, HEADS, DIM, device="cuda", dtype=torch.bfloat16)
        self.k, self.v = (torch.randn(requests, KV_HEADS, tokens, DIM, device="cuda",
                                      dtype=torch.bfloat16) for _ in range(2))
        self.out = torch.empty_like(self.q)

    def cudnn(self):
        q = self.q.transpose(1, 2)
        def step():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(q, self.k, self.v,
                                                                        enable_gqa=True)
        return step, step().transpose(1, 2).clone()

    def pages(self):
        """[blocks, kv_heads, numbers] of bf16, in the order of tables."""
        sides = [x.view(self.requests, KV_HEADS, -1, BLOCK, DIM).transpose(1, 2).flatten(0, 1)
                 for x in (self.k, self.v)]
        pages = torch.empty(sides[0].shape[0], KV_HEADS, 2 * BLOCK * DIM, device="cuda",
                            dtype=torch.bfloat16)
        order = self.tables.flatten().long()
        pages[order, :, :BLOCK * DIM] = sides[0].transpose(2, 3).flatten(2)
        pages[order, :, BLOCK * DIM:] = sides[1].flatten(2)
        return pages

    def codes(self, bits):
        pages = torch.zeros(self.tables.numel(), KV_HEADS,
                            kernels.page_bytes(DIM, BLOCK, bits, bits), dtype=torch.uint8,
                            device="cuda")
        slots = (self.tables.long()[:, :, None] * BLOCK +
                 torch.arange(BLOCK, device="cuda")).flatten()
        rows = [x.transpose(1, 2).flatten(0, 1) for x in (self.k, self.v)]
        rows = [x.contiguous() for x in rows]
        kernels.encode(pages, slots, *rows, block_tokens=BLOCK, k_bits=bits, v_bits=bits)
        return pages

    def ours(self, pages, **bits):
        memory = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        def step():
            kernels.decode(self.q, pages, self.lengths, self.tables, block_tokens=BLOCK,
                           out=self.out, workspace=memory, **bits)
        step()
        return step, self.out

    def triton(self, shares, tile, warps):
        n = self.tables.numel() * BLOCK * KV_HEADS
        codes = torch.randint(0, 256, (n * DIM,), dtype=torch.uint8, device="cuda")
        scales = torch.rand(n * 3, device="cuda").half()
        levels = torch.linspace(-2.7, 2.7, 16, device="cuda")
        rows = self.requests * HEADS
        sums = torch.empty(rows * shares * DIM, device="cuda")
        scores = torch.empty(rows * shares * 2, device="cuda")
        def step():
            four_bit_shares[(self.requests, HEADS, shares)](
                self.q, codes, scales, levels, self.lengths, self.tables, self.tables.shape[1],
                sums, scores, SCALE, HEADS, GROUP, DIM, BLOCK, shares, tile, num_warps=warps)
            join_shares[(rows,)](sums, scores, self.out, DIM, shares)
        step()
        return step


def check(name, out, expected, most):
    error = ((out.double() - expected.double()).norm() / expected.double().norm()).item()
    if not error < most:
        raise SystemExit(f"{name}: results differ by {error:.4f}")


def row(what, measured, reference, bar=None, comparison="<="):
    """Times in microseconds. The bar is for the ratio, or with >= for its inverse."""
    ratio = measured / reference if comparison == "<=" else reference / measured
    good = bar is None or (ratio <= bar if comparison == "<=" else ratio >= bar)
    print(f"{what:66} {measured * 1e6:9.1f} us {reference * 1e6:9.1f} us  {ratio:6.3f} "
          f"{'' if bar is None else f'{comparison} {bar}'} {'' if good else 'NO'}", flush=True)
    return {"what": what, "measured": measured * 1e6, "unit": "us", "reference": reference * 1e6,
            "ratio": ratio, "bar": bar, "comparison": comparison, "ok": good}


def bf16_rows():
    for requests, tokens, bar in ((1, 1024, 1.0), (8, 1024, 1.0), (64, 8192, None),
                                  (8, 32768, None), (1, 131072, None)):
        batch = Batch(requests, tokens)
        peer, expected = batch.cudnn()
        step, out = batch.ours(batch.pages())
        check(batch.name, out, expected, 0.01)
        yield row(f"decode bf16, {batch.name}, over cuDNN's", seconds(step), seconds(peer), bar)


def four_bit_row():
    batch = Batch(64, 8192)
    _, expected = batch.cudnn()
    step, out = batch.ours(batch.codes(4), k_bits=4, v_bits=4)
    check("k4v4", out, expected, 0.3)
    peer = min(seconds(batch.triton(shares, tile, warps))
               for shares in (8, 32) for tile in (4, 16, 32) for warps in (1, 2, 4))
    return row(f"decode k4v4, {batch.name}: speed over a 4-bit decode in Triton", seconds(step),
               peer, 5, ">=")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    args = parser.parse_args()
    torch.manual_seed(1)
    rows = list(bf16_rows()) + [four_bit_row()]
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"bench": "gpu peers", "machine": {"device": torch.cuda.get_device_name()},
             "bars": rows}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(r["ok"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
