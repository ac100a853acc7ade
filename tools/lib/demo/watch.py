"""Shows how far a prompt is while the server computes it."""

import threading

from ui import Progress

COMPUTED = "quire_computed_tokens_total"
PERIOD_S = 0.5


class Watch:
    """A context: a bar of the prompt's computed tokens, until it is left."""

    def __init__(self, server, tokens):
        self.server, self.tokens = server, tokens
        self.before = server.metric(COMPUTED) or 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.ended.set()
        self.thread.join()

    def _run(self):
        bar = Progress("cold: prompt computed", "tokens", 1)
        while not self.ended.wait(PERIOD_S):
            now = self.server.metric(COMPUTED)
            if now is not None:
                bar.update(min(now - self.before, self.tokens), self.tokens)
        bar.close()
