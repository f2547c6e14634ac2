"""How fast the trainer is, as ratios within one run: `python benchmarks/trainer.py`.

Everything is a pair of two sides that take turns on this machine; ratios are taken within a pair,
and the median over the pairs is held to its limit. docs/benchmarks.md says what is measured and
how. Exit code 1 if a limit is missed or a side fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from accuracy import time_to_accuracy
from clusters import ROOT, BenchmarkError, Running, Side, SideFailed, clean_environment
from table import HEAD, Limit, Row

CLUSTER = {"ps": 1, "worker": 2}
ENDLESS = {"epochs": 1_000_000, "learning_rate": 0.001, "init": "normal", "batch_size": 100}
TALK = {"eval_every": 0, "log_format": "json", "log_every": 100, "log_seconds": 0.1}
BASELINE = Side("baseline", {**ENDLESS, "frequency": 50}, CLUSTER, old_style=True)
WINDOWED = ("agn", "downpour-sgd", "aeasgd")
RATE, CPU = "steps/s", "CPU s/step"
START, ACCURACY = "start", "accuracy"
IMPORT = [sys.executable, "-c", "import tensorflow; print('imported')"]


@dataclass(frozen=True)
class Case:
    """Two sides and what their ratios are held to."""

    name: str
    ours: Side
    other: Side
    limits: tuple[Limit, ...]


def trainer_side(name: str, roles: dict[str, int] | None = None, **settings: object) -> Side:
    return Side(name, {**ENDLESS, **TALK, **settings}, CLUSTER if roles is None else roles)


def cases() -> list[Case]:
    """Every comparison of steady training, in the order of the table."""
    hogwild = trainer_side("hogwild", algorithm="hogwild")
    sync = trainer_side("sync", algorithm="sync")
    found = [
        Case("hogwild", hogwild, BASELINE, (Limit(CPU, most=0.65), Limit(RATE, least=1.5))),
        Case("sync", sync, BASELINE, (Limit(RATE, least=1.5),)),
    ]
    for window, least, aim in ((10, 5.0, 8.0), (40, 7.5, 12.0)):
        for algorithm in WINDOWED:
            side = trainer_side(f"{algorithm}-{window}", algorithm=algorithm, window=window)
            found.append(Case(side.name, side, BASELINE, (Limit(RATE, least=least, aim=aim),)))
    allreduce = trainer_side("allreduce", {"worker": 2}, algorithm="allreduce")
    found.append(Case("allreduce", allreduce, BASELINE, (Limit(RATE, least=1.7),)))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    alone = trainer_side("one process", {}, algorithm="single", threads=cores)
    two = trainer_side("two workers", algorithm="agn", window=40)
    found.append(Case("two-workers", two, alone, (Limit(RATE, least=1.3),)))
    return found


def why_not(side: Side) -> str | None:
    """Why the trainer cannot run this side, judged by its table of settings."""
    if side.old_style:
        return None
    rows = json.loads((ROOT / "trainer" / "settings.json").read_text(encoding="utf-8"))
    table = {row["name"]: row for row in rows}
    for name, value in side.settings.items():
        if name not in table:
            return f"the trainer has no setting {name}"
        choices = table[name].get("choices")
        if choices and value not in choices:
            return f"the trainer has no {name} {value}"
    return None


class Bench:
    """Runs the comparisons and keeps their rows; what is not there or fails is noted."""

    def __init__(self, folder: Path, pairs: int, seconds: float) -> None:
        self.rows: list[Row] = []
        self.skipped: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self._folder = folder
        self._pairs = pairs
        self._seconds = seconds
        self._other: Running | None = None

    def run(self, only: list[str], quick: bool) -> Iterator[Row]:
        """The rows of everything that is wanted, as they are measured."""
        for row in self._measured(only, quick):
            self.rows.append(row)
            yield row

    def _measured(self, only: list[str], quick: bool) -> Iterator[Row]:
        yield from self._compare([case for case in cases() if case.name in only])
        for name, rows in ((START, self._start()), (ACCURACY, self._accuracy(quick))):
            if name in only:
                try:
                    yield from rows
                except BenchmarkError as error:
                    self.failed[name] = str(error)

    def _compare(self, wanted: list[Case]) -> Iterator[Row]:
        try:
            for case in wanted:
                reason = why_not(case.ours)
                if reason:
                    self.skipped[case.name] = reason
                    continue
                try:
                    yield from self._compared(case)
                except BenchmarkError as error:
                    self.failed[case.name] = str(error)
        finally:
            self._drop_other()

    def _compared(self, case: Case) -> list[Row]:
        """The rows of one case.

        The old style has been seen not to go on after it was held. That is no result, and it gets
        a second chance; a side of ours that stalls has failed.
        """
        try:
            return self._take_turns(case)
        except SideFailed as error:
            if not error.side.old_style:
                raise
            say(f"{str(error).splitlines()[0]}; {case.name} once more")
        return self._take_turns(case)

    def _other_side(self, side: Side) -> Running:
        """The side to compare with; stays, held, for as long as the next case wants it."""
        if self._other is None or self._other.side != side:
            self._drop_other()
            self._other = self._started(side)
        return self._other

    def _drop_other(self) -> None:
        if self._other is not None:
            self._other.close()
            self._other = None

    def _started(self, side: Side) -> Running:
        """A side that has made its first steps, and is held."""
        say(f"starting {side.name}")
        with ExitStack() as stack:
            running = stack.enter_context(Running(side, self._folder))
            running.wait_for_lines(3)
            running.hold()
            stack.pop_all()  # it lives on; the caller closes it
        return running

    def _take_turns(self, case: Case) -> list[Row]:
        try:
            other = self._other_side(case.other)
            with closing(self._started(case.ours)) as ours:
                for each in (other, ours):
                    each.slice(min(1.0, self._seconds))  # warm-up, not counted
                say(f"measuring {case.name} against {case.other.name}")
                length = self._seconds
                turns = [(ours.slice(length), other.slice(length)) for _ in self._turns]
        except BenchmarkError:
            self._drop_other()
            raise
        limits = {limit.measure: limit for limit in case.limits}
        rows = []
        for measure, name in ((RATE, "steps_per_second"), (CPU, "cpu_per_step")):
            limit = limits.get(measure, Limit(measure))
            columns = [[getattr(turn[i], name) for turn in turns] for i in (0, 1)]
            rows.append(Row(case.name, case.other.name, limit, *columns))
        return rows

    def _start(self) -> Iterator[Row]:
        """Process start to first update; the first pair fills the caches and does not count."""
        say("measuring start")
        # Under a launcher, the last of a task's steps is told at once: here, its first.
        alone = ["env", "TFCLUSTER_TASK=worker-0", sys.executable, "-m", "trainer"]
        alone += ["--algorithm=single", "--steps=1", "--log_format=json", "--eval_every=0"]
        first_line(IMPORT)
        times = [(first_line(alone), first_line(IMPORT)) for _ in self._turns]
        ours, other = (list(column) for column in zip(*times, strict=True))
        yield Row("start", "import tensorflow", Limit("seconds", most=1.6), ours, other)
        tasks = sum(CLUSTER.values())
        times = [(self._first_updates(), first_line(*[IMPORT] * tasks)) for _ in self._turns]
        ours, other = (list(column) for column in zip(*times, strict=True))
        yield Row("start of the cluster", f"{tasks} imports at once", Limit("seconds"), ours, other)

    def _first_updates(self) -> float:
        """Seconds from starting a cluster until every worker has made its first updates."""
        side = trainer_side("start", algorithm="hogwild", log_every=10, log_seconds=0)
        begun = time.monotonic()
        with Running(side, self._folder) as running:
            running.wait_for_lines(1)
            return max(worker.spoken[0][0] for worker in running.workers.values()) - begun

    def _accuracy(self, quick: bool) -> Iterator[Row]:
        found = time_to_accuracy(self._folder, self._pairs, quick)
        limit = Limit("seconds", most=0.18, aim=0.1)
        name = f"to {found.target:g}: {found.ours}"
        yield Row(name, found.other, limit, *found.seconds)

    @property
    def _turns(self) -> range:
        return range(self._pairs)


def first_line(*commands: list[str]) -> float:
    """Seconds from starting processes until each has said a line; then they are killed."""
    begun = time.perf_counter()
    with ExitStack() as stack:
        processes = []
        for command in commands:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=clean_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            if process.stdout is None or not process.stdout.readline():
                raise BenchmarkError(f"{' '.join(map(str, process.args))} said nothing")
        return time.perf_counter() - begun


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    names = [*(case.name for case in cases()), START, ACCURACY]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs per comparison")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a side's turn")
    parser.add_argument("--only", help=f"comma-separated, of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="see that it works; judges nothing")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    given = parser.parse_args()
    given.only = given.only.split(",") if given.only else names
    unknown = sorted(set(given.only) - set(names))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    if given.pairs < 1:
        parser.error("--pairs must be 1 or more")
    return given


def main() -> int:
    given = parse_arguments()
    table = given.output == "table"
    if table:
        print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), given.pairs, 0.4 if given.quick else given.seconds)
        for row in bench.run(given.only, given.quick):
            if table:
                print(row, flush=True)
    for name, reason in bench.skipped.items():
        say(f"skipped {name}: {reason}")
    for name, reason in bench.failed.items():
        say(f"FAILED {name}: {reason}")
    if not table:
        rows = [row.to_dict() for row in bench.rows]
        notes = {"skipped": bench.skipped, "failed": bench.failed}
        print(json.dumps({"pairs": given.pairs, "rows": rows, **notes}, indent=2))
    good = given.quick or all(row.passed for row in bench.rows)
    return 0 if good and not bench.failed else 1


if __name__ == "__main__":
    sys.exit(main())
