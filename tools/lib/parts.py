"""The parts of `make test`: what each builds, runs and counts."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

import models
import venv
from counts import Counts, from_cases, from_ctest
from ui import Failure, say

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Sanitizers cover our own code; the engine's arithmetic is ggml's and would only be slow there.
ASAN_PROGRAMS = ("base", "core", "codec", "kernels", "format", "index", "policy", "tier", "cache",
                 "engine", "model", "server")
TSAN_PROGRAMS = ("base", "kernels", "tier", "cache", "server")


@dataclass
class Outcome:
    counts: Counts = field(default_factory=Counts)
    failures: list = field(default_factory=list)
    note: str = ""


@dataclass
class Options:
    long: bool = False
    fuzz_seconds: int = 10


def run(command, **kwargs):
    """Runs a command with its output on ours; True if it succeeded."""
    print(f"\n$ {' '.join(str(word) for word in command)}", flush=True)
    return subprocess.run(command, cwd=ROOT, **kwargs).returncode == 0


def build(preset, targets=(), **variables):
    words = [f"-D{name}={value}" for name, value in variables.items()]
    if not run([ROOT / "tools" / "build", preset, *targets],
               env={**os.environ, "QUIRE_CMAKE_ARGS": " ".join(words)}):
        raise Failure(f"the {preset} build failed; its first error is above")


def ctest(preset, options, *selection):
    """Runs ctest in build/<preset> and counts what ran."""
    folder = ROOT / "build" / preset
    results = folder / "test-results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    junit = results / "ctest-junit.xml"
    environment = {**os.environ, "GTEST_OUTPUT": f"xml:{results}/", "GTEST_COLOR": "no",
                   "GTEST_BRIEF": "1", **SANITIZER_OPTIONS}
    if options.long:
        environment["QUIRE_TEST_LONG"] = "1"
    run(["ctest", "--test-dir", folder, "--output-on-failure", "-j", "2",
         "--output-junit", junit, *selection], env=environment)
    if not junit.exists():
        raise Failure(f"ctest wrote no {junit}; run it by hand: ctest --test-dir {folder}")
    counts, failures = from_ctest(junit, results)
    return Outcome(counts, failures)


SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def known_tests(preset):
    """Names of the tests that ctest knows in build/<preset>."""
    command = ["ctest", "--test-dir", ROOT / "build" / preset, "--show-only=json-v1"]
    listing = subprocess.run(command, capture_output=True, text=True)
    return [test["name"] for test in json.loads(listing.stdout or "{}").get("tests", [])]


def part_tidy(options):
    build("release", ["quire_tidy", "quire_tidy_rules_test", "quire_header_check"])
    outcome = ctest("release", options, "-L", "tidy")
    outcome.counts.passed += 1  # the headers compiled, each alone
    outcome.note = "style rules; every header compiles alone"
    return outcome


def part_unit(options):
    for name in models.MODELS:  # the engine's tests run both
        models.ensure(name)
    build("release")
    outcome = ctest("release", options, "-LE", "tidy")
    outcome.note = "release build, every layer"
    return outcome


def part_e2e(options):
    build("release")
    paths = {name: models.ensure(name) for name in models.MODELS}
    try:
        python, note = venv.ensure(oracle=True), ""
    except Failure as failure:
        say(f"the logits test will be skipped: {failure}")
        python, note = venv.ensure(oracle=False), "; logits test skipped"
    results = ROOT / "build" / "release" / "pytest.xml"
    results.unlink(missing_ok=True)
    environment = {**os.environ, "QUIRE_BINARY": str(ROOT / "build" / "release" / "quire"),
                   "QUIRE_MODEL_SMOLLM2": str(paths["smollm2"]),
                   "QUIRE_MODEL_GEMMA3": str(paths["gemma3"]), "PYTHONDONTWRITEBYTECODE": "1"}
    if options.long:
        environment["QUIRE_TEST_LONG"] = "1"
    ok = run([python, "-m", "pytest", "-ra", "-p", "no:cacheprovider", f"--junitxml={results}",
              "tests/python"], env=environment)
    if not results.exists():
        raise Failure("pytest did not run; its output is above")
    counts, failures = from_cases(results)
    if not ok and counts.failed == 0 and counts.total > 0:
        counts.failed, failures = 1, ["pytest: stopped before its end"]
    return Outcome(counts, failures, f"both models, stock openai client{note}")


def sanitizer_part(preset, programs, options, note):
    build(preset, ["--configure"], CMAKE_UNITY_BUILD="ON")
    wanted = {f"quire_{program}_test" for program in programs}
    targets = [name for name in known_tests(preset) if name in wanted]
    if not targets:
        return Outcome()
    build_batched(preset, targets)
    outcome = ctest(preset, options, "-R", f"^({'|'.join(targets)})$")
    outcome.note = note
    return outcome


def build_batched(preset, targets):
    """Builds in batches of files (cmake/quire_unity.cmake), file by file if that fails."""
    try:
        build(preset, targets)
    except Failure:
        say("compiling file by file instead; if that works, two files share a private name: see "
            "cmake/quire_unity.cmake")
        build(preset, targets, CMAKE_UNITY_BUILD="OFF")


def part_asan(options):
    return sanitizer_part("asan", ASAN_PROGRAMS, options, "address and undefined behaviour")


def part_tsan(options):
    return sanitizer_part("tsan", TSAN_PROGRAMS, options, "data races, layers with threads")


def part_fuzz(options):
    build("fuzz", ["--configure"], CMAKE_UNITY_BUILD="ON",
          QUIRE_FUZZ_SECONDS=options.fuzz_seconds)
    programs = [name for name in known_tests("fuzz") if name.endswith("_fuzz")]
    if not programs:
        return Outcome()
    build_batched("fuzz", programs)
    outcome = ctest("fuzz", options, "-L", "fuzz")
    outcome.note = f"seeds, then {options.fuzz_seconds} s each"
    return outcome


def part_cuda(options):
    """The CUDA kernels compile without spilling; their tests run where there is a GPU, and many
    of them on an emulator of it too."""
    if shutil.which("nvcc") is None:
        return Outcome(Counts(skipped=1), [], "nvcc is not on the PATH")
    if not (ROOT / "build" / "captured" / "gemma3.kv").exists():
        run([ROOT / "tools" / "gpu" / "run.sh", "capture"])  # without it tests say so
    found = [gpu_tests("test"), gpu_tests("emulate")]
    outcome = Outcome(Counts(sum(f["passed"] for f in found), sum(len(f["failed"]) for f in found),
                             sum(f["skipped"] for f in found)),
                      [name for f in found for name in f["failed"]])
    device = found[0]["device"] or "no GPU: only what needs none"
    outcome.note = f"kernels for sm_90a; {device}, and an emulator"
    return outcome


def gpu_tests(word):
    """The results of tools/gpu/run.sh test or emulate."""
    results = ROOT / "build" / "gpu" / f"{word}.json"
    results.unlink(missing_ok=True)
    run([ROOT / "tools" / "gpu" / "run.sh", word, "--json", results])
    if not results.exists():
        raise Failure(f"tools/gpu/run.sh {word} failed before the tests; its output is above")
    return json.loads(results.read_text())


PARTS = {
    "tidy": part_tidy,
    "unit": part_unit,
    "cuda": part_cuda,
    "e2e": part_e2e,
    "asan": part_asan,
    "tsan": part_tsan,
    "fuzz": part_fuzz,
}


if __name__ == "__main__":
    sys.exit("run tools/test")
