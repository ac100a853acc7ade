"""64 clients at once, a third of them leaving early: the answers are those of a client alone, and
nothing is left behind."""

import os
import random
import threading
import time

import openai
import pytest

SEED = int(os.environ.get("QUIRE_TEST_SEED", "20250101"))
CLIENTS = 64
REQUESTS_PER_CLIENT = 3 if os.environ.get("QUIRE_TEST_LONG") else 1
TOKENS = 12
GAUGES_AT_REST = ("quire_requests_running", "quire_requests_waiting", "quire_leases",
                  "quire_leases_waiting", "quire_pinned_blocks", "quire_pending_loads",
                  "quire_pending_stores", "quire_pending_store_bytes")
WORDS = ("river stone lamp garden winter paper silver engine morning letter bridge forest market "
         "shadow copper island teacher window harvest signal").split()


def make_prompts(rng):
    """Random prompts, most of which share a prefix with others."""
    stems = [" ".join(rng.choices(WORDS, k=rng.choice((20, 60, 150)))) for _ in range(6)]
    return [rng.choice(stems) + " " + " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))
            for _ in range(CLIENTS * REQUESTS_PER_CLIENT // 2)]


def stream_of(client, model, prompt):
    return client.completions.create(model=model, prompt=prompt, max_tokens=TOKENS, temperature=0,
                                     stream=True, extra_body={"ignore_eos": True})


def text_of(stream, pieces=None):
    """The text of a stream, or of its first chunks; then it is closed."""
    text = ""
    for count, chunk in enumerate(stream, 1):
        text += chunk.choices[0].text if chunk.choices else ""
        if count == pieces:
            break
    stream.close()
    return text


def wait_for_rest(server):
    """The gauges that are not zero once everything had its time."""
    deadline = time.monotonic() + 30
    while True:
        series = server.metrics()
        busy = {name: series[name] for name in GAUGES_AT_REST if series[name] != 0}
        if not busy or time.monotonic() > deadline:
            return busy
        time.sleep(0.1)


def run_client(server, model, seed, prompts, alone, failures):
    rng = random.Random(seed)
    try:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0,
                           timeout=300) as client:
            for _ in range(REQUESTS_PER_CLIENT):
                prompt = rng.choice(prompts)
                pieces = rng.randint(1, TOKENS - 2) if seed % 3 == 0 else None
                text = text_of(stream_of(client, model, prompt), pieces)
                expected = alone[prompt]
                good = expected.startswith(text) if pieces else text == expected
                if not good:
                    failures.append(f"client {seed}: {text!r}, alone {expected!r}")
    except Exception as error:  # a thread's exception would be lost
        failures.append(f"client {seed}: {error!r}")


def test_many_clients_get_what_one_gets(server, client, model):
    rng = random.Random(SEED)
    prompts = make_prompts(rng)
    alone = {prompt: text_of(stream_of(client, model, prompt)) for prompt in set(prompts)}
    failures = []
    threads = [threading.Thread(target=run_client,
                                args=(server, model, SEED + i, prompts, alone, failures))
               for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=600)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures, f"seed {SEED}: " + "\n".join(failures[:10])
    assert wait_for_rest(server) == {}, f"seed {SEED}"


def test_drain_on_sigterm_finishes_a_stream(server, client, model):
    """Last in this module: it ends the module's server."""
    stream = client.completions.create(model=model, prompt="The", max_tokens=64, temperature=0,
                                       stream=True, extra_body={"ignore_eos": True})
    chunks = iter(stream)
    next(chunks)
    server.process.terminate()
    rest = list(chunks)
    assert rest[-1].choices[0].finish_reason == "length"
    assert server.process.wait(timeout=60) == 0
    with pytest.raises(openai.APIConnectionError):
        client.completions.create(model=model, prompt="x", max_tokens=1)
