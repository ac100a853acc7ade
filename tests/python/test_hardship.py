"""What befalls a process from outside: limits, readers that leave or stall, odd files. The server
goes on, or says in one line why not."""

import os
import pathlib
import resource
import signal
import socket
import subprocess
import time

import pytest

import conftest
import quire_server

BINARY = quire_server.binary()
MODEL = quire_server.model_path("smollm2")
PROMPT = "The quick brown fox jumps over the lazy dog and runs away. " * 8


@pytest.fixture(autouse=True)
def needs():
    conftest.skip_without(BINARY, MODEL)


def serve(folder, *flags, **how):
    return quire_server.QuireServer(MODEL, folder, *flags, **how)


def complete(server, prompt=PROMPT):
    return server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, "temperature": 0})


def fails(*words, seconds=60, **how):
    """The one line of a command that ends with an error."""
    done = subprocess.run([str(word) for word in (BINARY, *words)], capture_output=True, text=True,
                          timeout=seconds, env=quire_server.clean_environment(), **how)
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    return done.stderr.strip()


def test_a_limit_on_file_sizes_degrades_the_disk_and_nothing_else(tmp_path):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    with serve(tmp_path / "run", "--disk", f"{tmp_path}/kv:256MiB",
               preexec_fn=small_files) as server:
        assert complete(server)["choices"]
        degraded = 'quire_tier_degraded{tier="g3"}'
        server.metrics_when(lambda series: series[degraded] == 1)
        assert complete(server)["choices"]
        assert server.stop() == 0
    assert "disk" in server.log.read_text()


def test_the_log_may_lose_its_reader(tmp_path):
    reader, writer = os.pipe()
    with serve(tmp_path, log=writer) as server:
        os.close(writer)
        os.close(reader)
        for _ in range(3):
            assert complete(server)["choices"]
        assert server.stop() == 0


def test_a_log_that_nobody_reads_holds_up_nothing(tmp_path):
    reader, writer = os.pipe()
    with serve(tmp_path, log=writer) as server:
        os.close(writer)
        lost = "quire_log_dropped_total"
        for _ in range(3000):  # some 100 bytes each, and a pipe holds 64 KiB
            server.get("/v1/models")
            if server.metrics()[lost] > 0:
                break
        assert server.metrics()[lost] > 0
        assert complete(server)["choices"]
        text = os.read(reader, 1 << 20)
        deadline = time.monotonic() + 30
        while b"log_dropped" not in text and time.monotonic() < deadline:
            server.get("/v1/models")  # one line each, written soon after the reply
            text += os.read(reader, 1 << 20)
        assert text.count(b"log_dropped") == 1
        assert server.stop() == 0
    os.close(reader)


def test_sigterm_ends_a_server_that_tokenizes(tmp_path):
    body = b'{"prompt":"' + b"x\\n" * 900_000 + b'"}'
    head = f"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with serve(tmp_path, "--drain-timeout", "1s") as server:
        port = int(server.url.rsplit(":", 1)[1])
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        for client in clients:
            client.sendall(head + body)
        began = time.monotonic()
        server.get("/metrics")
        server.get("/v1/cache")
        assert server.stop(signal.SIGTERM) == 0
        assert time.monotonic() - began < 20
        for client in clients:
            client.close()


@pytest.mark.parametrize("option", ["MODEL", "--config", "--api-keys-file"])
def test_a_pipe_in_the_place_of_a_file_is_told(tmp_path, option):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = ("serve", pipe) if option == "MODEL" else ("serve", MODEL, option, pipe)
    said = fails(*words, "--port", "0", "--kv-memory", "64MiB", "--host-memory", "0")
    assert f"{pipe} is a pipe, not a regular file" in said


def test_wrong_starts_are_one_line_with_the_remedy(tmp_path):
    empty = tmp_path / "keys"
    empty.touch()
    assert "names no key" in fails("serve", MODEL, "--api-keys-file", empty)
    assert "the API key file" in fails("serve", MODEL, "--api-keys-file", tmp_path / "none")
    assert "cores" in fails("serve", MODEL, "--threads", "1024")
    for flag in ("--evict", "--admit-host", "--admit-disk"):
        said = fails("serve", MODEL, flag, "foo")
        assert f"{flag}: there is no policy 'foo'; choose one of" in said and "memory" not in said
    assert "quire chat MODEL.gguf" in fails("chat")
    assert "/nonexistent/deep" in fails("bench", "tier", "--dir", "/nonexistent/deep")
    assert not pathlib.Path("/nonexistent").exists()


def test_too_little_memory_is_said_in_a_line(tmp_path):
    """Whatever it is that fails first: weights, KV, a thread's stack. It may also be enough."""
    for mib in range(60, 400, 20):
        def little():
            resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))

        try:
            with serve(tmp_path / str(mib), "--disk", f"{tmp_path}/kv:256MiB", memory="16MiB",
                       preexec_fn=little) as server:
                assert server.stop() == 0
        except RuntimeError as refusal:
            said = str(refusal).strip().splitlines()[-1]
            assert said.startswith("quire serve: "), f"{mib} MiB: {refusal}"
            assert "memory" in said or "refuses" in said, f"{mib} MiB: {refusal}"
            assert "terminate" not in str(refusal)
