"""Blocks packed on disk: what loses nothing gives the same answers after a restart; what does loses
little; what was packed otherwise is a miss that says why."""

import json
import subprocess

import pytest

import quire_server
from conftest import skip_without
from test_codec_serving import PROMPT, answer


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    path = tmp_path_factory.mktemp("sidecar") / "smollm2.sidecar"
    subprocess.run([str(quire_server.binary()), "calibrate", str(model), "--tokens", "1024",
                    "--bits", "0", "--out", str(path)], check=True, timeout=600,
                   env=quire_server.clean_environment(), capture_output=True)
    return path


def packing(server):
    tiers = json.loads(server.get("/v1/cache"))["tiers"]
    return next(tier["packing"] for tier in tiers if tier["tier"] == "g3")


def run_and_restart(tmp_path, *flags):
    """Answers cold, from G1, and from disk after a restart; and what the disk tier said."""
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    flags += ("--disk", f"{tmp_path}/kv:256MiB", "--cold-cpu", "100")
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        cold = answer(server)
        assert cold[2] == 0
        assert answer(server)[:2] == cold[:2]
        server.post("/v1/cache/flush", {"tiers": ["g1", "g2"], "write_back": True})
        said = packing(server)
        assert "packed with" in server.log.read_text()
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        restarted = answer(server)
        assert restarted[3]["cached_tokens"]["g3"] >= 256
        assert 'quire_unpacked_blocks_total{tier="g3"}' in server.get("/metrics")
        return cold, restarted, said


@pytest.mark.parametrize("codec", ["raw16", "k8v8"])
def test_zstd_gives_the_same_answer_after_a_restart(tmp_path, codec):
    cold, restarted, said = run_and_restart(tmp_path, "--kv-codec", codec,
                                            "--kv-codec-cold", "zstd")
    assert restarted[:2] == cold[:2]
    assert said["name"] == "zstd" and 0 < said["to_bytes"] <= said["from_bytes"]


def test_bx_packs_pages_of_bf16_without_loss(tmp_path):
    cold, restarted, said = run_and_restart(tmp_path, "--kv-dtype", "bf16", "--kv-codec-cold", "bx",
                                            "--block-tokens", "64")
    assert restarted[:2] == cold[:2]
    assert said["name"] == "bx" and 0 < said["to_bytes"] < 0.75 * said["from_bytes"]


@pytest.mark.parametrize("codec,share", [("raw16", 0.5), ("k6v4", 1.0)])
def test_ec_answers_nearly_the_same_and_takes_less(tmp_path, sidecar, codec, share):
    cold, restarted, said = run_and_restart(tmp_path, "--kv-codec", codec, "--kv-codec-cold",
                                            "ec:4", "--kv-sidecar", str(sidecar))
    assert said["name"] == "ec:4" and 0 < said["to_bytes"] < share * said["from_bytes"]
    # The first token's probability is that of nearly the same numbers.
    assert abs(restarted[1][0] - cold[1][0]) < 0.3


def test_what_was_packed_otherwise_is_a_miss_that_says_why(tmp_path, sidecar):
    model = quire_server.model_path("smollm2")
    disk = ("--disk", f"{tmp_path}/kv:256MiB", "--cold-cpu", "100", "--kv-codec", "k8v8")
    ec = ("--kv-sidecar", str(sidecar), "--kv-codec-cold")
    with quire_server.QuireServer(model, tmp_path / "run", *disk, *ec, "ec:4") as server:
        cold = answer(server)
    for flags in ((*ec, "ec:3"), ec[:2]):
        used = disk if flags[-1] == "ec:3" else disk[:2] + disk[4:]  # --cold-cpu is a packer's
        with quire_server.QuireServer(model, tmp_path / "run", *used, *flags) as server:
            missed = answer(server)
            assert missed[:2] == cold[:2], "a miss is computed, exactly"
            assert missed[3]["cached_tokens"]["g3"] < 256
            assert missed[3]["miss_reason"] == "other_packing"
            server.post("/v1/cache/flush", {"tiers": ["g1", "g2"], "write_back": True})
            assert answer(server)[3]["cached_tokens"]["g3"] >= 256, "and stored anew"
    # What is stored as it is can be read by all.
    with quire_server.QuireServer(model, tmp_path / "run", *disk, *ec, "ec:4") as server:
        hit = answer(server)
        assert hit[:2] == cold[:2] and hit[3]["cached_tokens"]["g3"] >= 256


def transcode(*args):
    run = subprocess.run([str(quire_server.binary()), "codec", "transcode", "--json",
                          *map(str, args)], timeout=600, env=quire_server.clean_environment(),
                         capture_output=True, text=True)
    return run.returncode, json.loads(run.stdout) if run.stdout else run.stderr


def test_a_directory_is_packed_otherwise(tmp_path, sidecar):
    model = quire_server.model_path("smollm2")
    size = ":256MiB"
    with quire_server.QuireServer(model, tmp_path / "run", "--disk",
                                  f"{tmp_path}/plain{size}") as server:
        cold = answer(server)
        assert transcode(tmp_path / "plain", tmp_path / "new", "--to", "zstd")[0] == 2, "in use"
    ec = ("--model", model, "--kv-sidecar", sidecar)
    for source, target, flags in (("plain", "zstd", ("--to", "zstd")),
                                  ("zstd", "ec", ("--to", "ec:4", *ec)),
                                  ("ec", "back", ("--from", "ec:4", *ec))):
        code, report = transcode(tmp_path / source, tmp_path / target, *flags)
        assert code == 0 and report["written"] == report["blocks"] > 0, report
    assert report["to_bytes"] > 2 * report["from_bytes"]
    code, report = transcode(tmp_path / "ec", tmp_path / "lost", "--to", "zstd")
    assert code == 1 and report["refused"] > 0 and "--from" in report["first_refusal"]
    for name, flags in (("zstd", ("--kv-codec-cold", "zstd")), ("back", ()),
                        ("ec", ("--kv-codec-cold", "ec:4", "--kv-sidecar", str(sidecar),
                                "--block-tokens", "16"))):
        with quire_server.QuireServer(model, tmp_path / "run", "--disk", f"{tmp_path}/{name}{size}",
                                      *flags) as server:
            hit = answer(server)
            assert hit[3]["cached_tokens"]["g3"] >= 256, name
            assert name != "zstd" or hit[:2] == cold[:2]
    listed = subprocess.run([str(quire_server.binary()), "inspect", "--verify",
                             str(tmp_path / "ec")], check=True, capture_output=True, text=True)
    assert "packing" in listed.stdout and "ec: " in listed.stdout
    assert transcode(tmp_path / "plain", tmp_path / "x", "--to", "ec:3")[0] == 2
    for wrong in ((tmp_path / "zstd", "--to", "none"), (tmp_path / "plain", "--to", "zstd"),
                  (tmp_path / "plain" / "sub", "--to", "zstd"), (tmp_path / "x", "--to", ""),
                  (tmp_path / "x1", "--to", "ec:4", *ec, "--block-tokens", "32"),
                  (tmp_path / "x2", "--to", "ec:4", *ec, "--kv-sinks", "1")):
        assert transcode(tmp_path / "plain", *wrong)[0] == 2, wrong
    assert transcode(tmp_path / "nothing", tmp_path / "x", "--to", "zstd")[0] == 2


def test_a_directory_with_a_layer_schedule_is_packed_otherwise(tmp_path, sidecar):
    model = quire_server.model_path("smollm2")
    schedule = tmp_path / "widths.yaml"
    widths = "".join(f"  - {{k: {8 if layer < 10 else 6}, v: 5}}\n" for layer in range(30))
    schedule.write_text(f"layers:\n{widths}skip_layers: [0, 29]\n")
    coding = ("--kv-codec", "schedule", "--kv-schedule", str(schedule), "--kv-sidecar",
              str(sidecar))
    size = ":256MiB"
    with quire_server.QuireServer(model, tmp_path / "run", *coding, "--disk",
                                  f"{tmp_path}/plain{size}") as server:
        cold = answer(server)
    for source, target, flags in (("plain", "ec", ("--to", "ec:4")),
                                  ("ec", "back", ("--from", "ec:4")),
                                  ("plain", "zstd", ("--to", "zstd"))):
        code, report = transcode(tmp_path / source, tmp_path / target, *flags, "--model", model,
                                 *coding)
        assert code == 0 and report["written"] == report["blocks"] > 0, report
        assert (report["packed"] > 0) == (target == "ec") or target == "zstd", report
    other = tmp_path / "other.yaml"
    other.write_text(schedule.read_text().replace("k: 6", "k: 7"))
    code, complaint = transcode(tmp_path / "plain", tmp_path / "never", "--to", "ec:4", "--model",
                                model, *(str(other) if word == str(schedule) else word
                                         for word in coding))
    assert code == 2 and "no block was packed" in complaint
    assert not list(tmp_path.glob("never*")), "nothing is left"
    for name, flags in (("zstd", ("--kv-codec-cold", "zstd")), ("back", ()),
                        ("ec", ("--kv-codec-cold", "ec:4"))):
        with quire_server.QuireServer(model, tmp_path / "run", *coding, "--disk",
                                      f"{tmp_path}/{name}{size}", *flags) as server:
            hit = answer(server)
            assert hit[3]["cached_tokens"]["g3"] >= 256, name
            assert name != "zstd" or hit[:2] == cold[:2]


def test_cold_codecs_that_cannot_be_are_refused_by_name(tmp_path, sidecar):
    model = quire_server.model_path("smollm2")
    disk = ("--disk", f"{tmp_path}/kv:256MiB")
    for flags, words in ((("--kv-codec-cold", "lzma"), "zstd"),
                         (("--kv-codec-cold", "ec:9"), "0.5 to 8"),
                         (("--kv-codec-cold", "ec:8", "--kv-sidecar", str(sidecar)), "at most"),
                         (("--kv-codec-cold", "ec:2.7"), "quire calibrate"),
                         (("--kv-codec-cold", "bx"), "bf16"),
                         (("--kv-codec-cold", "ec:2", "--kv-sidecar", "/nowhere"), "/nowhere")):
        with pytest.raises(RuntimeError, match=words):
            quire_server.QuireServer(model, tmp_path / "run", *disk, *flags)
    with pytest.raises(RuntimeError, match="--disk DIR"):
        quire_server.QuireServer(model, tmp_path / "run", "--kv-codec-cold", "zstd")
