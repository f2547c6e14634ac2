"""`tfcluster plan`: every task as it would be started."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcluster import console, tables
from tfcluster.archive import NEXT, Run, next_run
from tfcluster.backends import load_backend
from tfcluster.code.snapshot import snapshot_of
from tfcluster.commands import options
from tfcluster.converge import live_run, place_for
from tfcluster.errors import EXIT_OK, UsageError
from tfcluster.events import SCHEMA_VERSION
from tfcluster.plan import Plan, Resources, Task, masked
from tfcluster.quantities import format_bytes
from tfcluster.redaction import redacted_argv
from tfcluster.spec.loader import LoadedSpec

EXAMPLES = (
    ("tfcluster plan", "every task"),
    ("tfcluster plan worker-1", "all about one task"),
    ("tfcluster plan examples/mnist.yaml -o json", "for a program"),
)


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="SPEC|TASK", help="The spec, and one task such as worker-1."),
    ] = None,
    file: options.File = None,
    var: options.Var = None,
    set_: options.Set = None,
    backend: options.Backend = None,
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "table",
) -> int:
    """Show every task as it would be started; with TASK, everything about that one."""
    spec, task = split_words(words or [])
    loaded = options.load(spec, file, var, set_, backend)
    run = running(loaded) or next_run(place_for(loaded))
    plan = planned(loaded, run)
    if task is not None:
        chosen = plan.task(task)
        if output == "json":
            options.print_json({"schemaVersion": SCHEMA_VERSION, **chosen.to_dict()})
        else:
            console.data("\n".join(task_lines(plan, chosen)))
    elif output == "json":
        print_plan(plan, run)
    else:
        console.data("\n".join(plan_lines(plan, run)))
    return EXIT_OK


def split_words(words: list[str]) -> tuple[str | None, str | None]:
    """A single word is a task unless it is, or looks like, a file."""
    if len(words) > 2:
        raise UsageError(f"one spec and one task, not {len(words)} words")
    if len(words) == 1 and not looks_like_file(words[0]):
        return None, words[0]
    spec, task, *_ = [*words, None, None]
    return spec, task


def looks_like_file(word: str) -> bool:
    return word.endswith((".yaml", ".yml")) or "/" in word or Path(word).exists()


def running(loaded: LoadedSpec) -> Run | None:
    """The run of the job that goes on where the spec wants it, if there is one."""
    found = live_run(place_for(loaded))
    return found[0] if found and found[0].backend == loaded.spec.backend else None


def planned(loaded: LoadedSpec, run: Run | None) -> Plan:
    """The plan, with the addresses and paths of this run, if there is one."""
    backend = load_backend(loaded.spec.backend)
    return backend.plan(loaded.spec, run, loaded.base, snapshot_of(loaded))


def print_plan(plan: Plan, run: Run) -> None:
    """One JSON document, written task by task: each TF_CONFIG names every task."""
    head = {
        "schemaVersion": SCHEMA_VERSION,
        "job": plan.job,
        "backend": plan.backend,
        "strategy": plan.strategy,
        "success": plan.success,
        "logdir": plan.logdir,
        "checkpoints": plan.checkpoints,
        "results": [one.to_dict() for one in load_backend(plan.backend).results(plan, run)],
        "interpreters": {
            role.role: asdict(role.interpreter) for role in plan.roles if role.interpreter
        },
    }
    opening = console.json_text(head, indent=2).removesuffix("\n}")
    console.data(f'{opening},\n  "tasks": [')
    for number, task in enumerate(plan.tasks(), start=1):
        comma = "," if number < plan.size else ""
        console.data(f"    {console.json_text(task.to_dict())}{comma}")
    console.data("  ]\n}")


def resources_text(resources: Resources) -> str:
    parts = []
    if resources.cpu is not None:
        parts.append(f"{resources.cpu:g} cpu")
    if resources.memory is not None:
        parts.append(format_bytes(resources.memory))
    if resources.gpus:
        parts.append(f"{resources.gpus} gpu")
    return ", ".join(parts) or "no limit"


def plan_lines(plan: Plan, run: Run) -> list[str]:
    """Every task, and where their results go."""
    rows = []
    for role in plan.roles:
        resources = resources_text(role.resources)
        restarts = str(role.restarts)
        if role.restart_on is not None:
            restarts += f" (on {', '.join(map(str, role.restart_on))})"
        rows += [
            [f"{role.role}-{index}", role.addresses[index], resources, restarts]
            for index in range(role.replicas)
        ]
    head = f"{plan.job} ({plan.backend}, {plan.strategy}): done when {done_when(plan)}"
    table = console.table(["TASK", "ADDRESS", "RESOURCES", "RESTARTS"], rows)
    results = load_backend(plan.backend).results(plan, run)
    lines = [head, *plan.interpreter_lines, *table, *tables.results_lines(results, look=False)]
    if run.id == NEXT and any(NEXT in line for line in lines):
        lines.append(f"({NEXT}: the run's id, which up chooses)")
    return lines


def done_when(plan: Plan) -> str:
    """`the chief has succeeded`, `all workers have succeeded`, `all tasks of a and b have …`."""
    if plan.success == ("chief",):
        return "the chief has succeeded"
    if plan.success == ("worker",):
        return "all workers have succeeded"
    if len(plan.success) == len(plan.roles):
        return "all tasks have succeeded"
    *names, last = plan.success
    listed = f"{', '.join(names)} and {last}" if names else last
    several = bool(names) or plan.role(last).replicas > 1
    return f"all tasks of {listed} have succeeded" if several else f"{last} has succeeded"


def task_lines(plan: Plan, task: Task) -> list[str]:
    """Everything about one task."""
    role = plan.role(task.role)
    facts = [
        ("address", task.address),
        ("control", task.control),
        ("resources", resources_text(task.resources)),
        ("restarts", str(role.restarts)),
        ("waits for", ", ".join(role.needs) or "nobody"),
        ("folder", role.workdir or "the spec's folder"),
        ("command", shlex.join(redacted_argv(task.argv))),
    ]
    if role.interpreter is not None:
        facts.append((role.interpreter.name, role.interpreter.text))
    lines = [task.name, *(f"  {name:10} {value}" for name, value in facts), "  environment"]
    env = masked(task.env)
    tf_config = env.pop("TF_CONFIG")
    lines += [f"    {name}={value}" for name, value in sorted(env.items())]
    pretty = json.dumps(json.loads(tf_config), indent=2).splitlines()
    return [*lines, "  TF_CONFIG", *(f"    {line}" for line in pretty)]
