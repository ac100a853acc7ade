"""A server with compressed pages: the same text cold, from memory and from disk after a restart."""

import json
import subprocess

import openai
import pytest

import quire_server
from conftest import skip_without

PROMPT = " ".join(f"Item {i}: the lamp of house {i * 7 % 23} is {i * i % 31} steps from the gate."
                  for i in range(40))


def answer(server, prompt=PROMPT):
    reply = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 40, "temperature": 0,
                                            "ignore_eos": True, "logprobs": 1})
    choice = reply["choices"][0]
    return (choice["text"], choice["logprobs"]["token_logprobs"],
            reply["usage"]["prompt_tokens_details"]["cached_tokens"],
            reply["quire"]["timing"])


@pytest.mark.parametrize("name,codec", [("smollm2", "k8v8"), ("gemma3", "k6v4")])
def test_a_hit_answers_as_a_cold_run_does(tmp_path, name, codec):
    model = quire_server.model_path(name)
    skip_without(quire_server.binary(), model)
    flags = ("--kv-codec", codec, "--disk", f"{tmp_path}/kv:256MiB")
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        kv = server.get("/v1/cache")
        assert f'"codec":"{codec}"' in kv.replace(" ", "") and '"sink_tokens":64' in kv
        assert f"codec    {codec}" in server.log.read_text()
        text, logprobs, cached, _ = answer(server)
        assert cached == 0
        again = answer(server)
        assert again[:2] == (text, logprobs) and again[2] % 64 == 0 and again[2] >= 256
        server.post("/v1/cache/flush", {"tiers": ["g1", "g2"], "write_back": True})
        assert answer(server)[:2] == (text, logprobs)
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        restarted = answer(server)
        assert restarted[:2] == (text, logprobs)
        assert restarted[3]["cached_tokens"]["g3"] == again[2]
    # Another codec finds nothing there, and says why.
    with quire_server.QuireServer(model, tmp_path / "run", "--disk",
                                  f"{tmp_path}/kv:256MiB") as server:
        explained = server.post("/v1/cache/explain", {"prompt": PROMPT})
        assert explained["reason"] == "other_model"
        assert f"{codec} in blocks of 64 tokens" in explained["detail"]
        assert answer(server)[2] == 0


def test_a_schedule_serves_with_widths_per_layer(tmp_path):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    sidecar = tmp_path / "smollm2.sidecar"
    subprocess.run([str(quire_server.binary()), "calibrate", str(model), "--tokens", "256",
                    "--bits", "4.5", "--out", str(sidecar)], check=True, timeout=600,
                   env=quire_server.clean_environment(), capture_output=True)
    flags = ("--kv-codec", "schedule", "--kv-sidecar", str(sidecar),
             "--disk", f"{tmp_path}/kv:256MiB")
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        cold = answer(server)
        assert cold[2] == 0
        again = answer(server)
        assert again[:2] == cold[:2] and again[2] >= 256
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        restarted = answer(server)
        assert restarted[:2] == cold[:2]
        assert restarted[3]["cached_tokens"]["g3"] == again[2]
    # A schedule of another sidecar shares nothing with it.
    subprocess.run([str(quire_server.binary()), "calibrate", str(model), "--tokens", "256",
                    "--bits", "6", "--out", str(sidecar)], check=True, timeout=600,
                   env=quire_server.clean_environment(), capture_output=True)
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        assert answer(server)[2] == 0
    with pytest.raises(RuntimeError, match="--kv-schedule FILE or --kv-sidecar FILE"):
        quire_server.QuireServer(model, tmp_path / "run", "--kv-codec", "schedule")


def test_an_edited_schedule_is_served(tmp_path):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    schedule = tmp_path / "schedule.yaml"
    lines = ["  - {k: 6, v: 4}", "  - {k: 4, v: 3}"] * 15
    schedule.write_text("\n".join(["layers:", *lines]))
    flags = ("--kv-codec", "schedule", "--kv-schedule", str(schedule),
             "--disk", f"{tmp_path}/kv:256MiB")
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        cold = answer(server)
        assert cold[2] == 0
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        restarted = answer(server)
        assert restarted[:2] == cold[:2] and restarted[2] >= 256
    # One width edited: nothing of it is taken for the other.
    schedule.write_text("\n".join(["layers:", *lines[:-1], "  - {k: 4, v: 4}"]))
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        assert answer(server)[2] == 0
    for text, complaint in [("layers: [{k: 6, v: 4}]", "it has 1 layers and the model 30"),
                            ("\n".join(["layers:", *lines[1:], "  - {k: 9, v: 4}"]),
                             "layer 29 has k: 9; a width is 2 to 8 bits")]:
        schedule.write_text(text)
        with pytest.raises(RuntimeError, match=f"--kv-schedule: .*{complaint}"):
            quire_server.QuireServer(model, tmp_path / "run", *flags)


def test_means_are_learned_once_and_used_from_the_next_start(tmp_path):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    path = tmp_path / "smollm2.sidecar"
    flags = ("--kv-codec", "k6v4", "--kv-sidecar", f"learn:{path}", "--kv-learn-tokens", "300",
             "--threads", "1", "--disk", f"{tmp_path}/kv:256MiB")
    plain = ("--kv-codec", "k6v4", "--threads", "1")
    with quire_server.QuireServer(model, tmp_path / "plain", *plain) as server:
        assert server.sidecar() == {"state": "none"}
        without = answer(server)
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        assert server.sidecar() == {"state": "learning", "tokens": 0, "of_tokens": 300}
        short = "The lamp of the first house is three steps from the gate, and that of the next one"
        answer(server, short)
        state = server.sidecar()
        assert state["state"] == "learning" and 0 < state["tokens"] < 300
        # What is read from the cache is computed by nobody: its last block and the answer are.
        answer(server, short)
        assert state["tokens"] <= server.sidecar()["tokens"] < 2 * state["tokens"] + 64
        assert answer(server)[:2] == without[:2], "seeing changes nothing that is served"
        assert answer(server)[2] >= 256
        learned = server.sidecar_when(lambda state: state["state"] != "learning")
        assert learned["state"] == "learned" and learned["used"] == "from the next start"
        assert f"hash {learned['hash']}" in server.log.read_text()
    before = path.read_bytes()
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        assert server.sidecar() == {"state": "used", "hash": learned["hash"]}
        explained = server.post("/v1/cache/explain", {"prompt": PROMPT})
        assert explained["reason"] == "other_model" and explained["hit_tokens"] == 0
        assert "another sidecar" in explained["detail"]
        first = answer(server)
        assert first[2] == 0 and first[1] != without[1], "keys and values lose their means"
        assert answer(server)[2] >= 256
    assert path.read_bytes() == before, "frozen"

    gemma = quire_server.model_path("gemma3")
    skip_without(quire_server.binary(), gemma)
    with pytest.raises(RuntimeError, match="--kv-sidecar: the sidecar has 30 layers"):
        quire_server.QuireServer(gemma, tmp_path / "run", "--kv-codec", "k6v4",
                                 "--kv-sidecar", f"learn:{path}")
    path.write_bytes(before[:-1])
    with pytest.raises(RuntimeError, match="--kv-sidecar"):
        quire_server.QuireServer(model, tmp_path / "run", *flags)


@pytest.mark.parametrize("folder", ["none", "/proc"])
def test_a_place_that_cannot_keep_means_is_refused_at_once(tmp_path, folder):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    path = tmp_path / folder / "m.sidecar"  # an absolute folder stands for itself
    with pytest.raises(RuntimeError, match=f"{path.parent}"):
        quire_server.QuireServer(model, tmp_path / "run", "--kv-codec", "k6v4", "--kv-sidecar",
                                 f"learn:{path}", "--kv-learn-tokens", "256", "--threads", "1")


def test_means_that_cannot_be_kept_any_more_are_a_warning(tmp_path):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    folder = tmp_path / "gone"
    folder.mkdir()
    with quire_server.QuireServer(model, tmp_path / "run", "--kv-codec", "k6v4", "--kv-sidecar",
                                  f"learn:{folder}/m.sidecar", "--kv-learn-tokens", "256",
                                  "--threads", "1") as server:
        folder.rmdir()
        cold = answer(server)
        state = server.sidecar_when(lambda state: state["state"] != "learning")
        assert state["state"] == "failed" and str(folder) in state["why"]
        assert "serving goes on without them" in server.log.read_text()
        assert answer(server)[:2] == cold[:2]


def ask_in(client, name, codec):
    """The answer in that codec (None: the server's default), and how many tokens were cached."""
    body = {"ignore_eos": True} | ({"kv_codec": codec} if codec else {})
    reply = client.completions.create(model=name, prompt=PROMPT, max_tokens=24, temperature=0,
                                      logprobs=0, extra_body=body)
    return (reply.choices[0].logprobs.token_logprobs,
            reply.usage.prompt_tokens_details.cached_tokens)


def test_each_request_chooses_its_codec(tmp_path):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    codecs = ("raw16", "k8v8", "k3v2")
    flags = ("--kv-codec", codecs[0], "--kv-codec-allow", ",".join(codecs[1:]),
             "--disk", f"{tmp_path}/kv:256MiB")
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
        name = client.models.list().data[0].id
        cold = {codec: ask_in(client, name, codec) for codec in codecs}
        assert all(cached == 0 for _, cached in cold.values()), "codecs share no blocks"
        assert cold["raw16"][0] != cold["k3v2"][0] != cold["k8v8"][0]
        for codec in codecs:
            logprobs, cached = ask_in(client, name, codec)
            assert logprobs == cold[codec][0] and cached >= 256
        default = ask_in(client, name, None)
        assert default[0] == cold["raw16"][0] and default[1] >= 256
        with pytest.raises(openai.BadRequestError, match="raw16, k8v8, k3v2"):
            ask_in(client, name, "k6v4")
        with pytest.raises(openai.BadRequestError, match="raw16, k8v8, k3v2"):
            client.chat.completions.create(model=name, max_tokens=1, extra_body={"kv_codec": "x"},
                                           messages=[{"role": "user", "content": "Hi"}])
        explained = server.post("/v1/cache/explain", {"prompt": PROMPT, "kv_codec": "k8v8"})
        assert explained["hit_tokens"] % 64 == 0 and explained["hit_tokens"] >= 256
        rows = json.loads(server.get("/v1/cache"))["codecs"]
        assert [row["codec"] for row in rows] == list(codecs)
        assert all(row["g1_used_bytes"] > 0 for row in rows)
    with quire_server.QuireServer(model, tmp_path / "run", *flags) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
        for codec in reversed(codecs):
            logprobs, cached = ask_in(client, name, codec)
            assert logprobs == cold[codec][0] and cached >= 256, "found again on disk"


def test_codecs_that_cannot_serve_are_refused_by_name(tmp_path):
    model = quire_server.model_path("smollm2")
    skip_without(quire_server.binary(), model)
    for flags, words in ((("--kv-codec", "k9v9"), "nearest"),
                         (("--kv-codec", "fp8_e4m3"), "k{2..8}v{2..8}"),
                         (("--kv-codec", "k8v8", "--kv-sidecar", "/nowhere"), "--kv-sidecar"),
                         (("--kv-codec-allow", "k9v9"), "--kv-codec-allow: "),
                         (("--kv-codec-allow", "k2v2,k3v3,k4v4,k5v5"), "at most 4 codecs")):
        with pytest.raises(RuntimeError, match=words.replace("{", r"\{").replace(".", r"\.")):
            quire_server.QuireServer(model, tmp_path / "run", *flags)
