"""The end of .ci/run: how long each part took, what passed only at the second try, and the sum.

    python .ci/summary.py RESULTS

RESULTS holds `parts` (name, seconds, exit code per line) and, for every suite, a folder with the
JUnit files of its first and, where something failed, of its second try. Exit code 1 if a test or a
part has failed, or if more than MOST_SECOND_TRIES tests needed one.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

MOST_SECOND_TRIES = 6
XDIST_GROUP = re.compile("@[a-z]+$")  # which xdist adds to a test's name
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Part:
    """A step of the run."""

    name: str
    seconds: int
    code: int


def read_parts(path: Path) -> list[Part]:
    rows = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    return [Part(name, int(seconds), int(code)) for name, seconds, code in rows]


def read_tries(path: Path) -> dict[str, str]:
    """What became of every test in a JUnit file. A test that fails twice in it has failed once."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        name = XDIST_GROUP.sub("", name)
        kinds = {child.tag for child in case}
        state = SKIPPED if "skipped" in kinds else PASSED
        state = FAILED if kinds & {"failure", "error"} else state
        if found.get(name) != FAILED:
            found[name] = state
    return found


def read_suite(folder: Path) -> tuple[dict[str, str], list[str]]:
    """What became of a suite's tests in the end, and which passed only at the second try."""
    first, second = folder / "first.xml", folder / "second.xml"
    results = read_tries(first) if first.exists() else {}
    again = read_tries(second) if second.exists() else {}
    late = [n for n, state in results.items() if state == FAILED and again.get(n) == PASSED]
    return {**results, **dict.fromkeys(late, PASSED)}, late


def summarise(results: Path) -> tuple[list[str], bool]:
    """What to print, and whether all is well."""
    parts = read_parts(results / "parts")
    states: list[str] = []
    late: list[str] = []
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        outcomes, second = read_suite(folder)
        states += outcomes.values()
        late += [f"{folder.name}: {name}" for name in second]
    lines = ["", "== how long it took"]
    lines += [f"{part.seconds // 60:3}:{part.seconds % 60:02} {part.name}" for part in parts]
    if late:
        lines += ["", "== passed only at the second try", *late]
    broken = [f"{part.name}: exit code {part.code}" for part in parts if part.code]
    if len(late) > MOST_SECOND_TRIES:
        broken += [f"{len(late)} tests needed a second try; at most {MOST_SECOND_TRIES} may"]
    if broken:
        lines += ["", "== failed", *broken]
    # A part that broke without a failing test is a failure too.
    failed = states.count(FAILED) or bool(broken)
    lines += [
        "",
        f"{states.count(PASSED)} passed, {failed:d} failed, {states.count(SKIPPED)} skipped",
    ]
    return lines, not failed


if __name__ == "__main__":
    printed, is_well = summarise(Path(sys.argv[1]))
    print("\n".join(printed))
    sys.exit(not is_well)
