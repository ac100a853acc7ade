"""`quire calibrate` and `quire eval --sidecar` as a user runs them, on a real model."""

import json
import os
import subprocess

import pytest
from conftest import skip_without

import quire_server


def quire(*arguments, folder=None):
    environment = quire_server.clean_environment()
    if folder is not None:
        environment["XDG_CACHE_HOME"] = str(folder)
    return subprocess.run([str(quire_server.binary()), *map(str, arguments)], text=True,
                          capture_output=True, timeout=600, env=environment, check=False)


@pytest.fixture(scope="module", name="model")
def smollm2():
    path = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), path)
    return path


def test_means_are_learned_and_judged(model, tmp_path):
    learned = quire("calibrate", model, "--bits", 0, "--tokens", 256, "--json", folder=tmp_path)
    assert learned.returncode == 0, learned.stderr
    report = json.loads(learned.stdout)
    assert report["tokens"] == 256 and len(report["layers"]) == 30
    # Most of a key is its mean, and before RoPE more so than after it.
    before = sum(layer["k_mean_before_rope"] for layer in report["layers"])
    after = sum(layer["k_mean"] for layer in report["layers"])
    assert before > after > 0
    # How keys lose their mean was measured; the fewest pairs near the best are taken.
    forms = {form["pairs"]: form["energy"] for form in report["key_forms"]}
    assert sorted(forms) == [0, 4, 8, 16] and forms[0] == 1
    near = [pairs for pairs in forms if forms[pairs] <= 4 ** 0.2 * min(forms.values())]
    assert report["key_pairs"] == min(near)
    assert os.path.dirname(report["path"]) == str(tmp_path / "quire" / "sidecars")

    judged = quire("eval", model, "--sidecar", report["path"], "--tokens", 128, "--json",
                   "--caches", "k4v4,k4v4:plain,bx,ec:4")
    assert judged.returncode == 0, judged.stderr
    rows = {row["cache"]: row for row in json.loads(judged.stdout)["rows"]}
    assert rows["k4v4"]["kl_mean"] < rows["k4v4:plain"]["kl_mean"]
    # Lossless bf16 moves the model by its rounding only; the cold codec takes what was asked for.
    assert rows["bx"]["kl_mean"] < rows["k4v4"]["kl_mean"] / 10
    assert 16 / rows["bx"]["bits"] > 1.45
    assert abs(rows["ec:4"]["bits"] - 4) < 1  # learned from very little


def test_pairs_may_be_given(model, tmp_path):
    out = tmp_path / "five.sidecar"
    learned = quire("calibrate", model, "--bits", 0, "--tokens", 256, "--key-pairs", 5,
                    "--out", out, "--json")
    assert learned.returncode == 0, learned.stderr
    report = json.loads(learned.stdout)
    assert report["key_pairs"] == 5 and report["key_forms"] == []


def test_what_cannot_be_used_is_named(model, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("too short")
    for arguments, complaint in [
        (["calibrate", model, "--bits", 1], "--bits below 2.1"),
        (["calibrate", model, "--text", short], "at least 256 are needed"),
        (["calibrate", model, "--text", tmp_path], "is a directory"),
        (["calibrate", tmp_path / "none.gguf"], "is missing"),
        (["calibrate", model, "--key-pairs", 33], "--key-pairs 33: heads of this model have 32"),
        (["eval", model, "--sidecar", short], "cut short"),
        (["eval", model, "--caches", "ec:3"], "ec:3 needs --sidecar"),
    ]:
        run = quire(*arguments)
        assert run.returncode == 2, run.stdout
        assert complaint in run.stderr, run.stderr
    help_text = quire("calibrate", "--help").stdout
    assert "--bits 0" in help_text and "means only" in help_text
