"""`quire eval` as a user runs it, on a real model."""

import json
import subprocess

import pytest
from conftest import skip_without

import quire_server


def quire_eval(model, *arguments):
    return subprocess.run([str(quire_server.binary()), "eval", str(model), *map(str, arguments)],
                          text=True, capture_output=True, timeout=600,
                          env=quire_server.clean_environment(), check=False)


@pytest.fixture(scope="module", name="model")
def smollm2():
    path = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), path)
    return path


def test_every_measure_is_there_and_ranks_codecs(model):
    run = quire_eval(model, "--caches", "k8v8,k2v2:plain", "--tokens", 512, "--greedy", 2,
                     "--greedy-tokens", 32, "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    rows = {row["cache"]: row for row in report["rows"]}
    floor, fine, coarse = rows["bf16"], rows["k8v8"], rows["k2v2:plain"]
    assert floor["noise_floor"] and not floor["peer"] and floor["bits"] == 16
    assert not fine["noise_floor"]
    assert 0 < floor["kl_mean"] < coarse["kl_mean"] / 100

    # All 30 layers, and the worst of them is the one that is named.
    for row in rows.values():
        error = row["attention_error"]
        assert len(error["layers"]) == 30
        assert error["worst"] == max(error["layers"]) == error["layers"][error["worst_layer"]]
    assert fine["attention_error"]["mean"] < coarse["attention_error"]["mean"] / 10

    assert report["greedy"] == {"prompts": 2, "prompt_tokens": 256, "tokens": 32}
    assert coarse["greedy"]["earliest"] < 32
    same = [prompt["same"] for prompt in coarse["greedy"]["prompts"]]
    assert coarse["greedy"]["earliest"] == min(same)
    assert sum(p["same"] for p in fine["greedy"]["prompts"]) > sum(same)

    keys = report["keys"]
    assert keys["asked"] == len(keys["by_depth"]) == len(keys["depths"]) == 4
    assert keys["depths"] == sorted(keys["depths"])
    assert keys["found_by_16_bit"] >= 3  # it is a task that the model can do
    assert fine["keys"]["found"] == keys["found_by_16_bit"]
    assert coarse["keys"]["found"] < fine["keys"]["found"]


def test_what_is_left_out_is_not_measured(model):
    arguments = ["--caches", "k8v8", "--tokens", 128, "--no-noise-floor", "--no-layer-errors",
                 "--greedy", 0, "--keys", 0]
    run = quire_eval(model, *arguments, "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert [row["cache"] for row in report["rows"]] == ["k8v8"]
    for name in ("attention_error", "greedy", "keys"):
        assert name not in report and name not in report["rows"][0]


def test_sinks_and_tail_are_counted(model):
    arguments = ["--caches", "k4v4,kivi4", "--tokens", 512, "--no-noise-floor",
                 "--no-layer-errors", "--greedy", 0, "--keys", 0, "--json"]
    plain = json.loads(quire_eval(model, *arguments).stdout)
    assert (plain["sink_tokens"], plain["tail_tokens"]) == (16, 64)
    run = quire_eval(model, *arguments, "--sink-tokens", 64, "--tail-tokens", 128)
    assert run.returncode == 0, run.stderr
    wide = json.loads(run.stdout)
    assert (wide["sink_tokens"], wide["tail_tokens"]) == (64, 128)
    for before, row in zip(plain["rows"], wide["rows"], strict=True):
        exact = 64 + 128 - 32  # half of the span at hand is there
        assert abs(row["total_bits"] - (row["bits"] * (512 - exact) + 16 * exact) / 512) < 1e-9
        assert row["kl_mean"] < before["kl_mean"]


def test_what_is_served_is_a_row(model):
    run = quire_eval(model, "--caches", "k4v4:plain,k4v4:served", "--skip-layers", "29,0,29",
                     "--tokens", 256, "--no-noise-floor", "--no-layer-errors", "--greedy", 0,
                     "--keys", 0, "--json")
    assert run.returncode == 0, run.stderr
    rows = {row["cache"]: row for row in json.loads(run.stdout)["rows"]}
    plain = rows["k4v4:plain, layers 0+29 exact"]
    served = rows["k4v4:served, layers 0+29 exact"]
    assert served["sink_tokens"] == 64 and plain["sink_tokens"] == 16
    assert abs(served["bits"] - plain["bits"]) < 1e-6
    assert 0.1 < served["kl_mean"] / plain["kl_mean"] < 10  # without a sidecar both have no mean


def test_a_model_writes_its_own_text(model, tmp_path):
    saved = tmp_path / "own.txt"
    arguments = ["--caches", "k4v4", "--generate", 128, "--no-noise-floor", "--no-layer-errors",
                 "--greedy", 0, "--keys", 0, "--json"]
    run = quire_eval(model, *arguments, "--seed", 3, "--save-text", saved)
    assert run.returncode == 0, run.stderr
    assert "tokens written by the model" in run.stderr
    report = json.loads(run.stdout)
    assert report["text"] == "the model's own text (seed 3)"
    assert report["tokens"] == 128
    assert report["rows"][0]["positions"] == 64
    assert saved.read_text().startswith("The history of the town begins")
    assert len(saved.read_text()) > 128
    for arguments, complaint in [
        (["--generate", 128, "--text", saved], "--generate"),
        (["--save-text", saved], "--generate"),
        (["--generate", 9000], "--generate: 9000 tokens and a prompt are past the model's "
                               "context of 8192"),
        (["--generate", 128, "--tokens", 512], "--tokens 512: more than the 128"),
    ]:
        run = quire_eval(model, "--caches", "k8v8", *arguments)
        assert run.returncode == 2 and complaint in run.stderr, run.stderr


def test_what_cannot_be_measured_is_named(model, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("Too short.")
    long = tmp_path / "long.txt"
    long.write_text("A quire of pages. " * 2000)
    for arguments, complaint in [
        (["--text", short], "2049 are needed"),
        (["--tokens", 128, "--key-tokens", 512], "--keys 0 plants none"),
        (["--sink-tokens", 20], "--sink-tokens 20: not a multiple of 16"),
        (["--tail-tokens", 100], "--tail-tokens 100: not a multiple of 64"),
        (["--tokens", 128, "--sink-tokens", 128], "leave nothing coded before the second half"),
        (["--skip-layers", 30], "there is no layer 30; this model has 30, from 0 on"),
        (["--tokens", 9000, "--text", long], "9000 tokens are past the model's context of 8192"),
    ]:
        run = quire_eval(model, "--caches", "k8v8", *arguments)
        assert run.returncode == 2, run.stdout
        assert complaint in run.stderr, run.stderr
    help_text = quire_eval(model, "--help").stdout
    for word in ("--greedy", "--keys", "--no-noise-floor", "--no-layer-errors", "bf16"):
        assert word in help_text
