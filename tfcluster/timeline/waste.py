"""The largest waste of a run, and what would reduce it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tfcluster.tables import clock
from tfcluster.timeline import spans as kinds
from tfcluster.timeline.spans import Span, Timeline

LITTLE, LEAST = 0.05, 1.0  # of the run's time, and seconds: less is not worth a word
# Kind of waste -> what the task did, and what would reduce it. {about} is the peer or the phase.
WASTES = {
    kinds.PENDING: (
        "was pending for {time}",
        "`tfcluster fit` says what the cluster has room for; ask for less, or free some",
    ),
    kinds.PULLING: (
        "waited {time} for its image",
        "use a smaller image, or put it on the nodes before",
    ),
    kinds.WAITING: ("waited {time} for {about}", "`tfcluster logs {about}` shows what kept it"),
    kinds.IMPORTING: (
        "took {time} to start its program",
        "every attempt pays this once: import and read less before the first step, or train longer",
    ),
    kinds.EVALUATING: (
        "evaluated for {time}",
        "evaluate less often (`train.eval_every`), or on fewer examples",
    ),
    kinds.SAVING: (
        "saved checkpoints for {time}",
        "save less often (`train.checkpoint_steps`), or to a faster disk",
    ),
    kinds.STALLED: (
        "made no progress for {time}",
        "`tfcluster why` and `tfcluster logs {task}` say more",
    ),
    kinds.RESTARTING: (
        "was being restarted for {time}",
        "`tfcluster logs {task} --previous` shows why it ended",
    ),
}


@dataclass(frozen=True)
class Waste:
    """Time in which a task did not do its work."""

    task: str
    kind: str
    about: str
    seconds: float
    sentence: str
    advice: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "kind": self.kind,
            "about": self.about or None,
            "seconds": round(self.seconds, 3),
            "sentence": self.sentence,
            "advice": self.advice,
        }


def largest_waste(timeline: Timeline) -> Waste | None:
    """The largest one that is worth a word: of the tasks that wait alike, the first."""
    sums: dict[tuple[str, str, str], float] = {}
    for task, spans in timeline.tasks.items():
        for span in spans:
            if span.kind in WASTES:
                key = (task, span.kind, span.about)
                sums[key] = sums.get(key, 0.0) + span.seconds
    if not sums:
        return None
    (task, kind, about), seconds = max(sums.items(), key=lambda item: item[1])
    if seconds < max(LITTLE * timeline.seconds, LEAST):
        return None
    words, advice = WASTES[kind]
    named = {"task": task, "about": about or "its peers", "time": clock(seconds)}
    sentence = f"{task} {words.format(**named)}"
    if kind == kinds.WAITING and about:
        busy = main_work(timeline.tasks.get(about, ()), timeline.tasks[task], about)
        if busy is not None:
            sentence += f", which was {busy} meanwhile"
            advice = WASTES.get(busy, ("", advice))[1]
            named["task"], named["about"] = about, about
    elif kind == kinds.WAITING:
        advice = "`tfcluster events` shows which task came last"
    return Waste(task, kind, about, seconds, sentence, advice.format(**named))


def main_work(peer: Iterable[Span], waiting: Iterable[Span], about: str) -> str | None:
    """What a peer was at for most of the time in which it was waited for."""
    sums: dict[str, float] = {}
    waits = [span for span in waiting if span.kind == kinds.WAITING and span.about == about]
    for wait in waits:
        for span in peer:
            shared = min(wait.end, span.end) - max(wait.start, span.start)
            if shared > 0:
                sums[span.kind] = sums.get(span.kind, 0.0) + shared
    return max(sums, key=lambda kind: sums[kind]) if sums else None


def closing(timeline: Timeline, waste: Waste | None) -> list[str]:
    """The last lines: the largest waste and its advice, or that there is none."""
    if waste is None:
        share = " (5 %)" if LITTLE * timeline.seconds >= LEAST else ""
        least = clock(max(LITTLE * timeline.seconds, LEAST))
        return [f"No task lost more than {least}{share} to one thing."]
    return [f"Largest waste: {waste.sentence}.", f"hint: {waste.advice}"]
