"""Before `up` ends or restarts what runs: what differs, what would be lost, and the question.

On a terminal the person is asked; elsewhere `--yes` has to say it, and without it nothing happens.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.changes import FieldChange, differences
from tfcluster.code.snapshot import snapshot_of
from tfcluster.commands import options
from tfcluster.commands.diff import short
from tfcluster.converge import Outlook, live_run, look_ahead, place_for
from tfcluster.decision import AGAIN, NOTHING, REPLACE, Decision, training_words
from tfcluster.errors import TfclusterError, UsageError
from tfcluster.events import JobStatus
from tfcluster.jobs import DEFAULT_SPEC
from tfcluster.redaction import is_harmless, is_masked_override, masked_override
from tfcluster.spec.kept import parse_kept
from tfcluster.tables import clock, counted

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec

SHOWN = 8  # settings that differ, and tasks
YES, WATCH, NO = "yes", "watch", "no"


@dataclass(frozen=True)
class Call:
    """What `up` was called with."""

    loaded: LoadedSpec
    backend: str | None = None  # --backend
    yes: bool = False
    command: str = "up"
    consent: str = "--yes"  # how this kind of call says yes


@dataclass(frozen=True)
class Consent:
    """What a person has agreed to."""

    call: Call
    answer: str = YES
    decision: Decision | None = None  # what they were asked about
    run: Run | None = None  # the one that runs

    def check(self, found: Outlook) -> None:
        """Raise unless this is what was agreed to; asked again when nobody can come between."""
        now, then = found.decision, self.decision
        if not now.disturbs or self.call.yes:
            return
        if then is None:
            raise refusal(self.call, found)
        same = (now.kind, now.ends) == (then.kind, then.ends)
        if not same or not set(now.disturbs) <= set(then.disturbs):
            raise TfclusterError(
                f'job "{found.plan.job}" has changed while you were asked; nothing was done',
                hint="call it again",
            )


def obtain_consent(call: Call) -> Consent:
    """Ask, if there is something to ask about; raises where nobody can be asked."""
    if call.yes or live_run(place_for(call.loaded)) is None:
        return Consent(call)
    found = look_ahead(call.loaded, snapshot_of(call.loaded))
    if not found.decision.disturbs:
        return Consent(call)
    if not (console.is_terminal(sys.stdin) and console.is_terminal(sys.stderr)):
        raise refusal(call, found)
    text = headline(found)
    console.say("\n".join([f"{text[:1].upper()}{text[1:]}:", *evidence(call, found)]))
    missing = missing_overrides(call, found.run)
    if missing.explains(call):
        console.say("\n".join(console.hint(f"as it runs now: {command_line(call, missing)}")))
    return Consent(call, ask(found.decision), found.decision, found.run)


def ask(decision: Decision) -> str:
    """The person's answer; no unless they say otherwise."""
    if decision.kind == REPLACE:
        question = f"End run {decision.ends} and begin a new one?"
    else:
        question = f"Restart {listed(decision.disturbs)}?"
    text = f"{question} [y/N, or w to watch it as it is]"
    given: str = typer.prompt(text, default="n", show_default=False, err=True)
    return {"y": YES, "w": WATCH}.get(given.strip().lower()[:1], NO)


def refusal(call: Call, found: Outlook) -> UsageError:
    """The error for a call that nobody can be asked about."""
    missing = missing_overrides(call, found.run)
    if missing.explains(call):
        said = command_line(call, missing)
        hint = f"as it runs now: {said}. Or add {call.consent} to this call"
    else:
        hint = f"if that is wanted, add {call.consent}. To watch it as it is: tfcluster logs -f"
    return UsageError(headline(found), evidence=evidence(call, found), hint=hint)


# -- In words ----------------------------------------------------------------------------------


def headline(found: Outlook) -> str:
    decision = found.decision
    if decision.kind == REPLACE:
        return f'this would end run {decision.ends} of job "{found.plan.job}" and begin a new one'
    return f'this would restart {listed(decision.disturbs)} of job "{found.plan.job}"'


def listed(tasks: Sequence[str]) -> str:
    if len(tasks) > SHOWN:
        return f"{counted(len(tasks), 'task')}"
    *first, last = tasks
    return f"{', '.join(first)} and {last}" if first else last


def evidence(call: Call, found: Outlook) -> list[str]:
    """What runs, what differs, what would be lost."""
    assert found.run is not None and found.status is not None
    changed = changed_settings(found.run, call.loaded)
    lines = [f"  it has been running for {clock(age(found.status))}{progress(found.status)}"]
    lines += [f"  {one.path}: {shown(one.before)} → {shown(one.after)}" for one in changed[:SHOWN]]
    if len(changed) > SHOWN:
        lines.append(f"  … and {len(changed) - SHOWN} more settings")
    if not changed:
        reasons = dict.fromkeys(one.why for one in found.decision.changes if one.why)
        lines += [f"  what differs: {', '.join(reasons)}"] if reasons else []
    missing = missing_overrides(call, found.run)
    if missing.words:
        lines.append(f"  it was brought up with {shlex.join(missing.words)}; this call lacks that")
    return [*lines, *(f"  {line}" for line in lost(found))]


def shown(value: Any) -> str:
    return "(not set)" if value is None else short(value)


def age(status: JobStatus) -> float:
    return time.time() - (status.started or time.time())


def progress(status: JobStatus) -> str:
    """`, at step 640 of 1200`: the task that is farthest."""
    known = [task.progress for task in status.tasks if task.progress]
    farthest = max((one for one in known if one.step), key=lambda one: one.step or 0, default=None)
    if farthest is None:
        return ""
    total = f" of {farthest.total:g}" if farthest.total else ""
    return f", at step {farthest.step:g}{total}"


def lost(found: Outlook) -> list[str]:
    """`what would be lost: 640 steps, 12 min 5 s; training starts again`, and what is kept."""
    assert found.status is not None
    decision = found.decision
    words = training_words(decision.training)
    if decision.kind != REPLACE:
        return [words]
    seen = [task.progress for task in found.status.tasks if task.progress]
    steps = max((one.global_step or one.step or 0 for one in seen), default=0)
    resumed = decision.training.checkpoint
    if resumed is not None and resumed.step <= steps:
        return [f"{words}; what would be lost: {counted(steps - resumed.step, 'step')} since then"]
    done = f"{counted(steps, 'step')}, " if steps else ""
    lines = [f"what would be lost: {done}{clock(age(found.status))}; {words}"]
    saved = decision.saved
    if decision.training.kind == AGAIN and saved is not None and saved.newest is not None:
        number, step = saved.newest.number, saved.newest.step
        lines.append(f"its checkpoint {number} (global step {step}) stays; to go on from it:")
        lines.append("  " + shlex.join(["--set", f"checkpoints={saved.folder}"]))
    return lines


# -- What differs ------------------------------------------------------------------------------


def changed_settings(run: Run, loaded: LoadedSpec) -> list[FieldChange]:
    """The settings of the run that this call would change, by their path."""
    before = parse_kept(run.files.read_spec())
    # Without it, or where it is damaged, the question can still be asked.
    return [] if before is None else list(differences(before, parse_kept(loaded.masked_yaml())))


@dataclass(frozen=True)
class Missing:
    """What the run was brought up with, and this call lacks."""

    backend: str | None = None
    variables: dict[str, str | None] = field(default_factory=dict)  # None: a secret, not kept
    overrides: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """As they are typed."""
        found = ["--backend", self.backend] if self.backend else []
        for name, value in self.variables.items():
            found += ["--var", f"{name}={'…' if value is None else value}"]
        return [*found, *(word for text in self.overrides for word in ("--set", typed(text)))]

    def explains(self, call: Call) -> bool:
        """Whether with these the call would change nothing."""
        loaded = call.loaded
        hidden = None in self.variables.values() or any(map(is_masked_override, self.overrides))
        if not self.words or hidden or call.command != "up":
            return False
        from tfcluster.spec.loader import load_spec

        try:
            whole = load_spec(
                loaded.path or Path(DEFAULT_SPEC),
                variables={**known(self.variables), **loaded.variables},
                overrides=(*self.overrides, *loaded.overrides),
                backend=self.backend or call.backend,
            )
            return look_ahead(whole, snapshot_of(whole)).decision.kind == NOTHING
        except TfclusterError:
            return False


def typed(text: str) -> str:
    """An override as it would be typed, with … for a secret."""
    shown = masked_override(text)
    return f"{text.partition('=')[0]}=…" if is_masked_override(shown) else shown


def known(variables: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if value is not None}


def missing_overrides(call: Call, run: Run | None) -> Missing:
    if run is None:
        return Missing()
    record, loaded = run.record, call.loaded
    given = {text.partition("=")[0] for text in loaded.overrides}
    moved = call.backend is None and record.backend != loaded.spec.backend
    return Missing(
        record.backend if moved else None,
        {name: value for name, value in record.variables.items() if name not in loaded.variables},
        tuple(text for text in record.overrides if text.partition("=")[0] not in given),
    )


def command_line(call: Call, missing: Missing) -> str:
    """The whole call, with what it lacked."""
    loaded = call.loaded
    words: list[Any] = ["tfcluster", "up"]
    if loaded.path != (Path.cwd() / DEFAULT_SPEC).resolve():
        words.append(options.shown_path(loaded))
    words += ["--backend", call.backend] if call.backend else []
    words += missing.words
    for name, value in loaded.variables.items():
        words += ["--var", f"{name}={value if is_harmless(name, value) else '…'}"]
    for text in loaded.overrides:
        words += ["--set", typed(text)]
    return shlex.join(words)
