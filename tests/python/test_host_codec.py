"""Blocks packed in host memory (--kv-codec-host): what loses nothing gives the same answers, what
does loses little, and nothing that stands on it is taken by a server that was not told to."""

import json
import time

import pytest

import quire_server
from conftest import skip_without
from test_codec_serving import answer
from test_cold_codec import sidecar  # noqa: F401

CPU = ("--cold-cpu", "100")


def row(server, tier):
    return next(r for r in json.loads(server.get("/v1/cache"))["tiers"] if r["tier"] == tier)


def hit_from_host(server, cold):
    """Leaves the prompt in G2 alone and asks again."""
    server.post("/v1/cache/flush", {"tiers": ["g1"], "write_back": True})
    hit = answer(server)
    assert hit[3]["cached_tokens"]["g2"] >= 256, hit[3]
    assert 'quire_unpacked_blocks_total{tier="g2"}' in server.get("/metrics")
    return hit


def stored_in_host(server, wait_s=60):
    end = time.monotonic() + wait_s
    while row(server, "g2")["blocks"] == 0 or json.loads(
            server.get("/v1/cache"))["pending_stores"] > 0:
        assert time.monotonic() < end, "blocks do not reach G2"


@pytest.mark.parametrize("codec", ["raw16", "k8v8"])
def test_zstd_in_memory_gives_the_same_answer(tmp_path, codec):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    flags = ("--kv-codec", codec, "--kv-codec-host", "zstd", *CPU)
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        cold = answer(server)
        assert hit_from_host(server, cold)[:2] == cold[:2]
        said = row(server, "g2")
        assert said["packing"]["name"] == "zstd"
        assert 0 < said["packing"]["to_bytes"] <= said["packing"]["from_bytes"]
        assert "packed with zstd" in server.log.read_text()


@pytest.mark.parametrize("codec,share", [("raw16", 0.5), ("k6v4", 1.0)])
def test_ec_in_memory_takes_less_of_it(tmp_path, sidecar, codec, share):  # noqa: F811
    model = quire_server.model_path("smollm2")
    used = {}
    for packing in ("none", "ec:4"):
        ec = () if packing == "none" else ("--kv-codec-host", packing, *CPU)
        with quire_server.QuireServer(model, tmp_path / "run", "--kv-codec", codec,
                                      "--block-tokens", "64", "--kv-sidecar", str(sidecar),
                                      *ec, "--kv-codec-cold", "zstd", "--disk",
                                      f"{tmp_path}/{packing}:256MiB") as server:
            cold = answer(server)
            server.post("/v1/cache/flush", {"tiers": ["g1"], "write_back": True})
            used[packing] = row(server, "g2")["used_bytes"]
            if packing != "none":
                hit = hit_from_host(server, cold)
                assert abs(hit[1][0] - cold[1][0]) < 0.3
    assert 0 < used["ec:4"] < share * used["none"], used


@pytest.mark.parametrize("disk_codec,write_through", [
    ("none", True), ("none", False), ("zstd", False), ("ec:4", False), ("ec:3", True)])
def test_three_tiers_and_a_restart(tmp_path, sidecar, disk_codec, write_through):  # noqa: F811
    model = quire_server.model_path("smollm2")
    common = ("--kv-codec", "k8v8", "--disk", f"{tmp_path}/kv:256MiB", "--kv-sidecar",
              str(sidecar), "--kv-codec-cold", disk_codec)
    ours = (*common, "--kv-codec-host", "ec:4", *CPU)
    if not write_through:
        ours += ("--no-write-through-disk",)
    with quire_server.QuireServer(model, tmp_path / "run", *ours) as server:
        cold = answer(server)
        if not write_through:  # the disk gets what G2 has, as it lies there
            stored_in_host(server)
            server.post("/v1/cache/flush", {"tiers": ["g1"]})
            assert row(server, "g3")["blocks"] == 0
        server.post("/v1/cache/flush", {"tiers": ["g1", "g2"], "write_back": True})
        assert row(server, "g3")["blocks"] > 0
        if not write_through and disk_codec in ("none", "ec:4"):
            assert row(server, "g3")["packing"]["to_bytes"] == 0, "stored as it came"
    with quire_server.QuireServer(model, tmp_path / "run", *ours) as server:
        again = answer(server)
        assert again[3]["cached_tokens"]["g3"] >= 256, again[3]
        assert abs(again[1][0] - cold[1][0]) < 0.3
    if disk_codec == "ec:4":
        return  # who packs the disk so was told to
    with quire_server.QuireServer(model, tmp_path / "run", *common) as server:
        other = answer(server)
        assert other[3]["cached_tokens"]["g3"] < 256
        assert other[3]["miss_reason"] == "other_packing"
        assert other[:2] == cold[:2], "a miss is computed, exactly"


def test_what_cannot_be_is_refused_by_name(tmp_path):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    for flags, words in ((("--kv-codec-host", "lzma"), "--kv-codec-host: .*zstd"),
                         (("--kv-codec-host", "ec:2.7"), "--kv-codec-host: .*quire calibrate")):
        with pytest.raises(RuntimeError, match=words):
            quire_server.QuireServer(model, tmp_path / "run", *flags)
