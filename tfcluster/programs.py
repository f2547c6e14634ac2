"""From a program to the spec that nobody has to write: what `tfcluster run` runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcluster.errors import MissingFile, UsageError
from tfcluster.inspection import ProgramTraits, imported_names, inspect_program
from tfcluster.requirements import REQUIREMENTS_FILE
from tfcluster.similar import did_you_mean

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec

PYTHON = "python"
MOST_FILES = 60  # of a program that are looked at
STRATEGIES = ("between-graph", "multi-worker", "coordinator", "in-graph")
NEEDS_PS = ("between-graph", "coordinator")
NEEDS_CHIEF = ("coordinator", "in-graph")
MARKS = ("{{", "{%", "{#")  # what a template would take for its own


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line."""

    words: tuple[str, ...]  # the program and its arguments
    workers: int | None = None
    ps: int | None = None
    chief: bool = False
    evaluator: bool = False
    gpus: int = 0
    strategy: str | None = None
    name: str | None = None
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None  # the folder to send; that of the program if not said
    send: bool = True
    live: bool = False
    requirements: str | tuple[str, ...] | None = None  # a file, or packages
    find_requirements: bool = True  # take requirements.txt beside the program, if it is there


@dataclass(frozen=True)
class Program:
    """A program on this machine: the command that starts it in its folder."""

    folder: Path
    command: tuple[str, ...]
    script: str | None  # the Python file, relative to the folder
    title: str


def find_program(words: Sequence[str], folder: Path, code: str | None) -> Program:
    """The program that these words call; a Python file is started with Python."""
    if not words:
        raise UsageError("run what?", hint="as in: tfcluster run train.py --lr 0.1")
    first, rest = words[0], tuple(words[1:])
    path = (folder / first).resolve()
    if first.endswith(".py") and not path.is_file():
        near = [item.name for item in folder.glob("*.py")]
        raise MissingFile(f"there is no {first}", hint=did_you_mean(first, near))
    if path.is_dir():
        raise UsageError(f"{first} is a folder, not a program", hint="name the file in it")
    # A path such as /usr/bin/env is a command of the machine that the task runs on.
    own = path.is_file() and (first.endswith(".py") or not os.path.isabs(first))
    base = (folder / code).resolve() if code else path.parent if own else folder.resolve()
    if not own:
        return Program(base, (first, *rest), None, path.name)
    if not path.is_relative_to(base):
        raise UsageError(f"{first} is not in {base}", hint="--code names a folder around it")
    inside = path.relative_to(base).as_posix()
    if first.endswith(".py"):
        return Program(base, (PYTHON, inside, *rest), inside, path.stem)
    return Program(base, (f"./{inside}", *rest), None, path.stem)


def sources_of(program: Program) -> dict[str, str]:
    """The Python files that the program consists of: itself, and its own modules."""
    if program.script is None:
        return {}
    found: dict[str, str] = {}
    waiting = [program.script]
    while waiting and len(found) < MOST_FILES:
        name = waiting.pop(0)
        path = program.folder / name
        if name in found or not path.is_file():
            continue
        found[name] = path.read_text(encoding="utf-8", errors="replace")
        roots = {"", os.path.dirname(program.script), os.path.dirname(name)}
        for module in imported_names(found[name]):
            stem = module.replace(".", "/")
            for root in sorted(roots):
                below = f"{root}/{stem}" if root else stem
                waiting += [f"{below}.py", f"{below}/__init__.py"]
    return found


@dataclass(frozen=True)
class Choice:
    """The strategy, the roles, and the words that say why."""

    strategy: str | None
    roles: Mapping[str, Mapping[str, Any]]
    arguments: tuple[str, ...]
    why: str


def choose(wanted: Wanted, traits: ProgramTraits) -> Choice:
    """What the program runs as: as asked for, else as it looks, else as one worker."""
    strategy = wanted.strategy or traits.strategy
    if wanted.strategy:
        why = "as asked for"
    elif traits.evidence:
        why = str(traits.evidence)
    elif wanted.ps:
        strategy, why = "between-graph", "because of --ps"
    else:
        why = "nothing in the program says more"
    roles: dict[str, dict[str, Any]] = {}
    if wanted.chief or strategy in NEEDS_CHIEF:
        roles["chief"] = {}
    servers = wanted.ps if wanted.ps is not None else int(strategy in NEEDS_PS)
    if servers:
        roles["ps"] = {"replicas": servers}
    count = wanted.workers if wanted.workers is not None else 2 if strategy else 1
    if count:
        gpus = {"gpus": wanted.gpus} if wanted.gpus else {}
        roles["worker"] = {"replicas": count, **gpus}
    if wanted.evaluator:
        roles["evaluator"] = {}
    return Choice(strategy, roles, traits.arguments, why)


def describe(choice: Choice) -> str:
    """`Runs as multi-worker: 2 workers (MultiWorkerMirroredStrategy in train.py:3)`."""
    counts = [role_count(role, entry.get("replicas", 1)) for role, entry in choice.roles.items()]
    kind = f" as {choice.strategy}" if choice.strategy else ""
    filled = f", with {' '.join(choice.arguments)}" if choice.arguments else ""
    return f"Runs{kind}: {', '.join(counts)} ({choice.why}){filled}. Otherwise: --strategy"


def role_count(role: str, count: int) -> str:
    return f"{count} {role}" if count == 1 or role == "ps" else f"{count} {role}s"


def program_spec(
    wanted: Wanted, program: Program, choice: Choice, *, base: Path, backend: str | None
) -> dict[str, Any]:
    """The spec, as data. Paths are relative to `base`, where the spec is or would be."""
    folder = os.path.relpath(program.folder, base)
    spec: dict[str, Any] = {"name": wanted.name or job_name(program.title)}
    if backend and backend != "local":
        spec["backend"] = backend
    if wanted.image:
        spec["image"] = wanted.image
    spec["command"] = list(program.command)
    if choice.arguments:
        spec["args"] = list(choice.arguments)
    if packages := requirements_for(wanted, program, base):
        spec["requirements"] = packages
    if wanted.live:
        spec["code"] = {"folder": folder, "live": True}
    elif wanted.send:
        spec["code"] = folder
    spec["results"] = ["*"]
    if wanted.env:
        spec["env"] = dict(wanted.env)
    if choice.strategy:
        spec["strategy"] = choice.strategy
    spec["roles"] = {role: dict(entry) for role, entry in choice.roles.items()}
    return spec


def requirements_for(wanted: Wanted, program: Program, base: Path) -> str | list[str] | None:
    """The packages to install: as asked for, else the file beside the program or in its folder."""
    if isinstance(wanted.requirements, str):
        return os.path.relpath(wanted.requirements, base)
    if wanted.requirements is not None:
        return list(wanted.requirements)
    if program.script is None or not wanted.find_requirements:
        return None
    beside = (program.folder / program.script).parent
    for folder in (beside, program.folder):
        if (folder / REQUIREMENTS_FILE).is_file():
            return os.path.relpath(folder / REQUIREMENTS_FILE, base)
    return None


def job_name(title: str) -> str:
    """A job's name made of a program's: `Train_MNIST` becomes train-mnist."""
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    name = re.sub(r"^[0-9-]+", "", name)[:40].strip("-")
    return name or "program"


def spec_text(spec: Mapping[str, Any]) -> str:
    """The spec as YAML; as JSON, which is YAML too, if a value would look like a template."""
    from tfcluster.spec.yamldata import write_yaml

    text = write_yaml(dict(spec))
    if not any(mark in text for mark in MARKS):
        return text
    text = json.dumps(spec, indent=2, ensure_ascii=False)
    return re.sub(r"\{(?=[{%#])", r"\\u007b", text) + "\n"


def inspected(program: Program) -> ProgramTraits:
    return inspect_program(sources_of(program))


@dataclass(frozen=True)
class MadeSpec:
    """The spec of a program: what was chosen, as text, and checked like any other."""

    choice: Choice
    text: str
    loaded: LoadedSpec
    found_requirements: bool = False  # a file that was not asked for

    @property
    def words(self) -> list[str]:
        """What a person is told of the choices."""
        lines = [describe(self.choice)]
        if self.found_requirements:
            file = self.loaded.spec.requirements
            lines.append(f"Requirements: {file}, beside the program. Otherwise: --no-requirements")
        return lines


def make_spec(
    wanted: Wanted, backend: str | None, target: Path | None, overrides: tuple[str, ...]
) -> MadeSpec:
    """The spec of a program in this folder; `target` is where it will be kept, if anywhere."""
    from tfcluster.spec.loader import load_spec_text

    here = Path.cwd().resolve()
    program = find_program(wanted.words, here, wanted.code)
    choice = choose(wanted, inspected(program))
    base = target.parent if target else here
    text = spec_text(program_spec(wanted, program, choice, base=base, backend=backend))
    name = str(target) if target else "the spec of run"
    loaded = load_spec_text(text, name=name, overrides=overrides)
    found = wanted.requirements is None and loaded.spec.requirements is not None
    loaded = replace(loaded, path=target, overrides=overrides)
    return MadeSpec(choice, text, loaded, found_requirements=found)
