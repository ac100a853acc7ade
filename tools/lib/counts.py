"""Reads how many tests passed, failed and were skipped from the XML that the runners write."""

import pathlib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    @property
    def total(self):
        return self.passed + self.failed + self.skipped


def from_cases(path):
    """Counts of a JUnit-like file's test cases (GoogleTest, pytest and ctest all write one)."""
    counts, failures = Counts(), []
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failed += 1
            failures.append(name)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts, failures


def from_ctest(junit, gtest_folder):
    """Counts of one ctest run: GoogleTest programs by their cases, other programs as one test each.

    A program that failed without a failing case (a crash, a sanitizer report, a time-out) is one
    failure more, so that it can never hide behind the cases it finished.
    """
    counts, failures = Counts(), []
    for case in ElementTree.parse(junit).iter("testcase"):
        name = case.get("name")
        ok = case.get("status") == "run" and case.find("failure") is None
        detail = pathlib.Path(gtest_folder) / f"{name}.xml"
        if detail.exists():
            inner, inner_failures = from_cases(detail)
            counts.add(inner)
            failures += [f"{name}: {inner_failure}" for inner_failure in inner_failures]
            if ok or inner.failed:
                continue
        elif ok:
            counts.passed += 1
            continue
        counts.failed += 1
        failures.append(f"{name}: the program failed (see its output above)")
    return counts, failures
