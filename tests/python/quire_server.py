"""Starts `quire serve` for a test and stops it again.

The binary is $QUIRE_BINARY (default: build/release/quire); models are $QUIRE_MODEL_SMOLLM2 and
$QUIRE_MODEL_GEMMA3 (default: the cache folder that tools/models fills).
"""

import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL_FILES = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": "gemma-3-270m-q4_k_m.gguf"}
START_SECONDS = 120


def binary():
    return pathlib.Path(os.environ.get("QUIRE_BINARY", ROOT / "build" / "release" / "quire"))


def model_path(name):
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    default = pathlib.Path(cache) / "quire" / "models" / MODEL_FILES[name]
    return pathlib.Path(os.environ.get(f"QUIRE_MODEL_{name.upper()}", default))


def clean_environment():
    """The environment without the tests' own QUIRE_ variables, which are none of the program's."""
    return {k: v for k, v in os.environ.items() if not k.startswith("QUIRE_")}


class QuireServer:
    """A running server; use as a context manager. Its output goes to a file, or to `log`."""

    def __init__(self, model, folder, *flags, log=None, preexec_fn=None,
                 memory="512MiB"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "server.log"
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        command = [binary(), "serve", model, "--port", "0", "--port-file", port_file,
                   "--kv-memory", memory, "--host-memory", memory, *flags]
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen([str(word) for word in command],
                                            stdout=file if log is None else log,
                                            stderr=subprocess.STDOUT, env=clean_environment(),
                                            preexec_fn=preexec_fn)
        deadline = time.monotonic() + START_SECONDS
        while not (port_file.exists() and port_file.read_text().endswith("\n")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"quire serve did not start:\n{self.log.read_text()}")
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port_file.read_text().strip()}"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()

    def stop(self, how=signal.SIGTERM):
        """Ends the server; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=60)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as reply:
            return reply.read().decode()

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def sidecar(self):
        return json.loads(self.get("/v1/cache"))["sidecar"]

    def sidecar_when(self, holds, seconds=10):
        """The first state of the sidecar for which holds(state): files are written aside."""
        deadline = time.monotonic() + seconds
        while not holds(state := self.sidecar()):
            assert time.monotonic() < deadline, f"the sidecar stays {state}"
        return state

    def metrics_when(self, holds, seconds=10):
        """The first metrics for which holds(metrics): the engine's are a moment old."""
        deadline = time.monotonic() + seconds
        while not holds(series := self.metrics()):
            assert time.monotonic() < deadline, "the metrics never came to that"
        return series

    def metrics(self):
        """Every series of /metrics: "name{labels}" to its value."""
        series = {}
        for line in self.get("/metrics").splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                series[name] = float(value)
        return series
