"""Runs every test, in parts, and ends with a table and the line `N passed, N failed`.

--long gives crash, soak and property tests their long limits (hours instead of minutes).
"""

import argparse
import sys
import time

from counts import Counts
from parts import PARTS, Options, Outcome
from ui import Failure, run_main, say


def main():
    parser = argparse.ArgumentParser(prog="tools/test", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS), metavar="PART",
                        help=f"run only this part (repeatable): {', '.join(PARTS)}")
    parser.add_argument("--long", action="store_true", help="long limits")
    parser.add_argument("--fuzz-seconds", type=int, default=10, help="seconds for each fuzzer")
    arguments = parser.parse_args()
    options = Options(long=arguments.long, fuzz_seconds=arguments.fuzz_seconds)
    rows = [run_part(name, options) for name in (arguments.only or PARTS)]
    return report(rows)


def run_part(name, options):
    """One row of the table. A part that cannot run at all counts as one failure."""
    print(f"\n=== {name} ===", flush=True)
    started = time.monotonic()
    try:
        outcome = PARTS[name](options)
    except Failure as failure:
        say(str(failure))
        outcome = Outcome(Counts(failed=1), [str(failure)])
    if outcome.counts.total == 0:
        outcome.note = "no tests"
    return name, outcome, time.monotonic() - started


def report(rows):
    total = Counts()
    print("\n  part     passed  failed  skipped   seconds")
    for name, outcome, seconds in rows:
        counts = outcome.counts
        total.add(counts)
        print(f"  {name:<8} {counts.passed:>6}  {counts.failed:>6}  {counts.skipped:>7}  "
              f"{seconds:>8.1f}   {outcome.note}")
    failures = [(name, failure) for name, outcome, _ in rows for failure in outcome.failures]
    for name, failure in failures:
        print(f"  FAILED {name}: {failure}")
    seconds = sum(row[2] for row in rows)
    print(f"  {seconds / 60:.1f} minutes\n")
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}", flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    run_main(main)
