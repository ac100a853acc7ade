"""Shows on a real model what a prompt cache that outlives the process is worth.

A long prompt is answered four times: cold, from G1 (what attention reads), from G2 (host memory)
and from G3 (disk) after the server was killed with -9 and started again. QUIRE_DEMO_SHORT=1 takes
a prompt of about 1,000 tokens instead of 4,000, and one hit a tier instead of three.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import models  # noqa: E402
from demo.ceilings import disk_read, memory_copy  # noqa: E402
from demo.client import ask  # noqa: E402
from demo.report import Row, milliseconds, svg, table  # noqa: E402
from demo.server import Server  # noqa: E402
from demo.watch import Watch  # noqa: E402
from ui import Failure, run_main, say  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
RESULTS = ROOT / "demo-results"
TEXTS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md", "README.md", "LICENSE")
QUESTION = "\n\nIn two sentences, what is the text above about?"
SHORT = os.environ.get("QUIRE_DEMO_SHORT") == "1"
PROMPT_TOKENS = 1000 if SHORT else 4000
ANSWER_TOKENS = 16 if SHORT else 32
REPEATS = 1 if SHORT else 3


def main():
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument("--model", choices=list(models.MODELS), default="smollm2")
    options = parser.parse_args()
    binary = pathlib.Path(os.environ.get("QUIRE_BINARY", ROOT / "build" / "release" / "quire"))
    if not binary.exists():
        raise Failure(f"{binary} is missing; run: make build")
    model = models.ensure(options.model)
    cache = RESULTS / "cache"
    if cache.exists():
        say(f"removing what an earlier demo left in {cache.relative_to(ROOT)}")
        shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)
    log = RESULTS / "server.log"
    log.unlink(missing_ok=True)
    server = Server(binary, model, cache, log)
    try:
        rows, answers = measure(server, cache)
    finally:
        server.stop()
    return report(rows, answers, model, cache)


def measure(server, cache):
    """The four rows and the four answers, cold first."""
    say(f"started quire serve on port {server.port} in {server.start():.1f} s")
    warm_up(server)
    prompt, tokens = make_prompt(server)
    say(f"sending a prompt of about {tokens:,} tokens, cold")
    with Watch(server, tokens):
        cold = ask(server, prompt, ANSWER_TOKENS)
    say(f"cold: first token after {milliseconds(cold.ttft_s)}; now the same prompt again")
    in_g1 = [ask(server, prompt, ANSWER_TOKENS) for _ in range(REPEATS)]
    say(f"G1: first token after {milliseconds(median_answer(in_g1).ttft_s)}; now with G1 emptied")
    in_g2, copies = hits_in_g2(server, prompt)
    in_g3, reads = hits_in_g3(server, prompt, cache)
    rows = [row_of("cold", cold, "", 0.0, ""),
            row_of("hit in G1 (attention)", median_answer(in_g1), "g1", 0.0, ""),
            row_of("hit in G2 (host memory)", median_answer(in_g2), "g2",
                   statistics.median(copies), "memcpy"),
            row_of("hit in G3 after kill -9", median_answer(in_g3), "g3",
                   statistics.median(reads), "O_DIRECT read")]
    return rows, [cold, *in_g1, *in_g2, *in_g3]


def hits_in_g2(server, prompt):
    """Answers with G1 emptied before each, and a plain copy of as many bytes after each."""
    answers, copies = [], []
    for _ in range(REPEATS):
        flush(server, ["g1"])
        answers.append(ask(server, prompt, ANSWER_TOKENS))
        copies.append(memory_copy(answers[-1].loaded("g2")[0] or 64 << 20))
    say(f"G2: first token after {milliseconds(median_answer(answers).ttft_s)}; now from disk")
    return answers, copies


def hits_in_g3(server, prompt, cache):
    """Answers of servers that were killed and started again, and plain reads of as many bytes."""
    answers, reads = [], []
    for _ in range(REPEATS):
        flush(server, ["g1", "g2"])
        pid = server.process.pid
        server.kill()
        say(f"killed process {pid} with -9; ready again after {server.start():.2f} s")
        warm_up(server)
        answers.append(ask(server, prompt, ANSWER_TOKENS))
        say(f"G3: first token after {milliseconds(answers[-1].ttft_s)}")
        reads.append(disk_read(cache, answers[-1].loaded("g3")[0] or 64 << 20))
    return answers, reads


def median_answer(answers):
    middle = statistics.median_low([answer.ttft_s for answer in answers])
    return next(answer for answer in answers if answer.ttft_s == middle)


def row_of(name, answer, tier, ceiling, ceiling_name):
    loaded, load_ms = answer.loaded(tier) if tier else (0, 0.0)
    return Row(name, answer.ttft_s, answer.timing.get("prompt_tokens", 0), answer.cached_tokens(),
               loaded, load_ms / 1e3, ceiling, ceiling_name)


def warm_up(server):
    """Touches the weights with words that share nothing with the prompt."""
    server.post("/v1/completions", {"prompt": "One, two, three,", "max_tokens": 2,
                                    "temperature": 0})


def flush(server, tiers):
    """Empties tiers after what they hold has reached the next one down."""
    server.post("/v1/cache/flush", {"tiers": tiers, "write_back": True})


def make_prompt(server):
    """Our own documents, cut to the wanted length, and a question about them."""
    text = "\n\n".join((ROOT / name).read_text() for name in TEXTS if (ROOT / name).exists())
    for _ in range(3):  # the count of tokens is nearly in proportion to the length
        count = server.post("/tokenize", {"prompt": text + QUESTION})["count"]
        if count <= PROMPT_TOKENS:
            break
        text = text[:max(1, len(text) * PROMPT_TOKENS // count)]
    return text + QUESTION, count


def report(rows, answers, model, cache):
    identical = all(answer.text == answers[0].text for answer in answers)
    picture = RESULTS / "ttft.svg"
    title = "Time to first token: the same long prompt, four times"
    note = f"{model.name}, {rows[0].prompt_tokens:,} tokens, {os.cpu_count()} CPUs"
    picture.write_text(svg(rows, title, note))
    text = table(rows)
    (RESULTS / "ttft.txt").write_text(text + "\n")
    relative = picture.relative_to(ROOT)
    print(f"\n{note}\n\n{text}\n")
    print(f"  answer: {answers[0].text.strip()[:160]!r}")
    print(f"  generated tokens identical in all four: {'yes' if identical else 'NO'} "
          f"({len(answers)} runs of {ANSWER_TOKENS} tokens)")
    print(f"  picture: {relative}\n")
    command = ["build/release/quire", "serve", str(model), "--disk", str(cache.relative_to(ROOT))]
    print("Start it again (what was cached is still there), and ask it something:\n")
    print(f"  {shlex.join(command)}")
    print("  curl -N http://127.0.0.1:8000/v1/chat/completions "
          "-H 'Content-Type: application/json' "
          """-d '{"messages":[{"role":"user","content":"What is a quire?"}],"stream":true,"""
          """"max_tokens":100}'\n""")
    if not identical:
        say("the answers differ: this must never happen; please report it with demo-results/")
        return 1
    missed = [row.name for row in rows[1:] if row.cached_tokens == 0]
    if missed:
        say(f"nothing came from the cache in: {', '.join(missed)}; see demo-results/server.log")
        return 1
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    run_main(main)
