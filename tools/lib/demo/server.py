"""One `quire serve` process: start, wait until it is ready, ask, kill."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time

from ui import Failure

READY_TIMEOUT_S = 60
REQUEST_TIMEOUT_S = 300


class Server:
    def __init__(self, binary, model, disk, log):
        self.command = [str(binary), "serve", str(model), "--kv-memory", "1GiB",
                        "--host-memory", "1GiB", "--disk", f"{disk}:4GiB"]
        self.log = log
        self.port = _free_port()
        self.process = None

    def start(self):
        """Starts the process and returns the seconds until it said that it is ready."""
        started = time.monotonic()
        # The demo shows the defaults: QUIRE_ variables are the tools' or another server's.
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("QUIRE_")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*self.command, "--port", str(self.port)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment)
        while time.monotonic() - started < READY_TIMEOUT_S:
            if self.process.poll() is not None:
                raise Failure(f"quire serve ended with status {self.process.returncode}; the last "
                              f"line of {self.log}: {self._last_line()}")
            if self._is_ready():
                return time.monotonic() - started
            time.sleep(0.02)
        raise Failure(f"quire serve was not ready after {READY_TIMEOUT_S} s; see {self.log}")

    def kill(self):
        """kill -9: no handler runs, nothing is flushed."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def post(self, path, body):
        """The answer's JSON; a Failure names what the server refused."""
        connection = self.connect()
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except OSError as error:
            raise Failure(f"{path}: {error}; see {self.log}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise Failure(f"{path} answered {response.status}: {text[:300]}")
        return json.loads(text)

    def metric(self, name):
        """One number of /metrics, or None while the server does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
            return next((float(line.split()[1]) for line in lines if line.startswith(name + " ")),
                        None)
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_TIMEOUT_S)

    def _is_ready(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _last_line(self):
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "(empty)"


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
