"""A streaming chat request over plain http.client, timed where a person would feel it."""

import json
import time
from dataclasses import dataclass, field

from ui import Failure


@dataclass
class Answer:
    ttft_s: float = 0.0  # request sent until the first piece of text arrived
    pieces: list = field(default_factory=list)
    timing: dict = field(default_factory=dict)  # the server's own account, `quire.timing`

    @property
    def text(self):
        return "".join(self.pieces)

    def loaded(self, tier):
        """Bytes loaded from a tier and the milliseconds that waiting for them took."""
        return (self.timing.get("load_bytes", {}).get(tier, 0),
                self.timing.get("load_ms", {}).get(tier, 0.0))

    def cached_tokens(self):
        return sum(self.timing.get("cached_tokens", {}).values())


def ask(server, prompt, max_tokens):
    """Sends the prompt as one user message, greedy, and reads the stream to its end."""
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens,
            "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    connection = server.connect()
    answer = Answer()
    started = time.monotonic()
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise Failure(f"the server answered {response.status}: {response.read()[:300]!r}")
        for event in _events(response):
            _take(event, answer, started)
    except OSError as error:
        raise Failure(f"the stream broke: {error}; see {server.log}") from error
    finally:
        connection.close()
    if not answer.pieces:
        raise Failure(f"the stream held no text; see {server.log}")
    return answer


def _events(response):
    for line in response:
        line = line.strip()
        if line == b"data: [DONE]":
            return
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def _take(event, answer, started):
    if "error" in event:
        raise Failure(f"the server reports: {event['error'].get('message')} (is the machine busy? "
                      "demo-results/server.log says more)")
    for choice in event.get("choices", []):
        text = choice.get("delta", {}).get("content")
        if text:
            if not answer.pieces:
                answer.ttft_s = time.monotonic() - started
            answer.pieces.append(text)
    if "quire" in event:
        answer.timing = event["quire"].get("timing", {})
