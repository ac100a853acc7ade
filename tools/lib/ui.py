"""What the tools say to a person: one-line errors with a remedy, and progress on stderr.

stdout is kept for answers (a path, a table), so that scripts can use it.
"""

import os
import sys
import time


class Failure(Exception):
    """Something the person must know: what failed, and what to do. Printed as one line."""


def say(text):
    print(f"quire: {text}", file=sys.stderr, flush=True)


def run_main(main):
    """Runs main() and turns failures into one line and an exit status."""
    try:
        sys.exit(main() or 0)
    except Failure as failure:
        say(str(failure))
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted; run the same command again to go on")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


class Progress:
    """A bar on a terminal; elsewhere a line at every tenth of the way."""

    WIDTH = 28

    def __init__(self, label, unit="MB", scale=1e6):
        self.label, self.unit, self.scale = label, unit, scale
        self.tty = sys.stderr.isatty()
        self.started = time.monotonic()
        self.shown_at = 0.0
        self.tenth = -1

    def update(self, done, total):
        if total <= 0:
            return
        now = time.monotonic()
        share = min(done / total, 1.0)
        if self.tty:
            if now - self.shown_at < 0.1 and share < 1:
                return
            self.shown_at = now
            filled = int(share * self.WIDTH)
            bar = "#" * filled + "." * (self.WIDTH - filled)
            print(f"\r  {self.label} [{bar}] {self._amount(done, total)}", end="",
                  file=sys.stderr, flush=True)
        elif int(share * 10) > self.tenth:
            self.tenth = int(share * 10)
            print(f"  {self.label} {share * 100:3.0f}% {self._amount(done, total)}",
                  file=sys.stderr, flush=True)

    def close(self):
        if self.tty and self.shown_at:
            print(file=sys.stderr)

    def seconds(self):
        return time.monotonic() - self.started

    def _amount(self, done, total):
        if self.scale == 1:
            return f"{done:.0f}/{total:.0f} {self.unit}"
        return f"{done / self.scale:.1f}/{total / self.scale:.1f} {self.unit}"
