"""What a program says about how it distributes its work, from a look at its source. Pure.

Nothing is imported or run: the source is parsed, and names that only distributed programs use are
looked for. A wrong guess costs one option (`--strategy`), so every guess comes with its evidence.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# What decides, the first that is found; each with the strategy of a spec that it stands for.
COORDINATOR = ("ParameterServerStrategy", "ParameterServerStrategyV2", "ClusterCoordinator")
MULTI_WORKER = ("MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy")
SERVERS = ("train.Server", "distribute.Server")
SUPERVISED = ("Supervisor", "MonitoredTrainingSession", "SyncReplicasOptimizer")
# A flag's usual names -> what tfcluster fills in for it.
HOST_FLAGS = {
    "ps_hosts": "$(PS_HOSTS)",
    "worker_hosts": "$(WORKER_HOSTS)",
    "chief_hosts": "$(CHIEF_HOSTS)",
}
TASK_FLAGS = {
    **dict.fromkeys(("job_name", "job", "task_type"), "$(ROLE)"),
    **dict.fromkeys(("task_index", "task_id", "task"), "$(INDEX)"),
}
DEFINES = (
    *("add_argument", "add_option", "option"),
    *("DEFINE_string", "DEFINE_integer", "DEFINE_list", "DEFINE_enum"),
)
SHORTEST = ("job", "task")  # too common to mean anything where no host lists are asked for


@dataclass(frozen=True)
class Evidence:
    """Where something was seen."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.text} in {self.file}:{self.line}"


@dataclass(frozen=True)
class Flag:
    """A command-line flag that the program takes, and the placeholder that fills it."""

    name: str  # as the program spells it
    value: str

    @property
    def argument(self) -> str:
        return f"--{self.name}={self.value}"


@dataclass(frozen=True)
class ProgramTraits:
    """What a look at a program has found."""

    strategy: str | None = None  # None: nothing says that it is distributed at all
    flags: tuple[Flag, ...] = ()
    evidence: Evidence | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that say to every task who is who."""
        return tuple(flag.argument for flag in self.flags)


def inspect_program(sources: Mapping[str, str]) -> ProgramTraits:
    """The traits of a program of these files, name -> text; the program itself comes first.

    A file that is not Python of this version says nothing.
    """
    seen: dict[str, Evidence] = {}
    flags: dict[str, Flag] = {}
    for file, text in sources.items():
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for name, line in names_in(tree):
            seen.setdefault(name, Evidence(file, line, name))
        for name, line in flags_in(tree):
            plain = name.replace("-", "_")
            value = HOST_FLAGS.get(plain) or TASK_FLAGS.get(plain)
            if value is not None and plain not in flags:
                flags[plain] = Flag(name, value)
                seen.setdefault(f"--{plain}", Evidence(file, line, f"--{name}"))
    if not flags.keys() & HOST_FLAGS.keys():
        flags = {plain: flag for plain, flag in flags.items() if plain not in SHORTEST}
    return decided(seen, flags)


def decided(seen: Mapping[str, Evidence], flags: Mapping[str, Flag]) -> ProgramTraits:
    """What is seen, weighed: a strategy says more than a server, and flags of hosts the most."""
    order = (
        *((f"--{name}", "between-graph") for name in HOST_FLAGS),
        *((name, "coordinator") for name in COORDINATOR),
        *((name, "multi-worker") for name in MULTI_WORKER),
        *((name, "between-graph") for name in (*SERVERS, *SUPERVISED)),
    )
    ordered = tuple(sorted(flags.values(), key=lambda flag: list(PLACES).index(plain_of(flag))))
    for name, strategy in order:
        if name in seen:
            return ProgramTraits(strategy, ordered, seen[name])
    return ProgramTraits(None, ordered)


PLACES = {**HOST_FLAGS, **TASK_FLAGS}


def plain_of(flag: Flag) -> str:
    return flag.name.replace("-", "_")


def names_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that decides, with its line: as an attribute, by itself, or imported."""
    wanted = {*COORDINATOR, *MULTI_WORKER, *SUPERVISED}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            pair = f"{last_name(node.value)}.{node.attr}"
            if pair in SERVERS:
                yield pair, node.lineno
            elif node.attr in wanted and not is_old(node):
                yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in wanted:
                    yield alias.name, node.lineno


def is_old(node: ast.Attribute) -> bool:
    """Whether this is tf.compat.v1's ParameterServerStrategy, which needs no coordinator."""
    if node.attr not in COORDINATOR:
        return False
    part: ast.AST = node.value
    while isinstance(part, ast.Attribute):
        if part.attr == "v1":
            return True
        part = part.value
    return False


def last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def flags_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The flags that a program defines with argparse, absl, tf.app.flags or click."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or last_name(node.func) not in DEFINES:
            continue
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                name = argument.value
                is_definition = last_name(node.func).startswith("DEFINE_")
                if name.startswith("--") or is_definition:
                    yield name.lstrip("-"), node.lineno
                if is_definition:
                    break


def imported_names(text: str) -> tuple[str, ...]:
    """The modules that a source imports, by their dotted names; none if it cannot be parsed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(dict.fromkeys(found))
