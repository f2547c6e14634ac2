"""One attempt of a task's program: how it is started, kept to its limits, and how it ended."""

from __future__ import annotations

import os
from typing import Callable, Iterable, NoReturn, Optional, Tuple

from tfcluster.launch.exits import (
    CANNOT_START,
    EXIT_OUT_OF_MEMORY,
    MODULE_MISSING,
    NO_RESOURCES,
    OUT_OF_MEMORY,
    Stop,
    describe_exit,
    kind_of_exit,
)
from tfcluster.launch.output import Output
from tfcluster.launch.plan import (
    LaunchPlan,
    LaunchRole,
    program_argv,
    program_env,
    read_env_files,
    split_task,
)
from tfcluster.launch.program import Program
from tfcluster.launch.python import missing_module, program_python, with_python
from tfcluster.launch.script import SCRIPT_EXITS, missing_script
from tfcluster.launch.system import EXHAUSTED

MIB = 1 << 20


def start_program(
    plan: LaunchPlan, task: str, attempt: int, output: Output, ended: Callable[[Program], None]
) -> Program:
    """Start a task's program; Stop if that cannot be done."""
    role, index = split_task(plan, task)
    entry = plan["roles"][role]
    argv = program_argv(plan, role, index)
    folder = entry.get("workdir") or None
    try:
        env = {**os.environ, **read_env_files(entry.get("env_files", []))}
        env.update(program_env(plan, role, index))
        env["TFCLUSTER_ATTEMPT"] = str(attempt)
        output.begin_attempt(attempt)
        given, argv = argv[0], with_python(argv, env)
        if argv[0] != given:
            output.announce(f"tfcluster: PATH has no {given}; using {argv[0]}")
        cpus = entry.get("cpus", {}).get(str(index))
        program = Program(argv, env, folder, cpus, output, ended)
        program.python = program_python(argv, env)
        return program
    except (OSError, ValueError) as error:
        cannot_start(argv[0], folder, error)


def cannot_start(command: str, folder: Optional[str], error: Exception) -> NoReturn:
    code = 127 if isinstance(error, FileNotFoundError) else 126
    where = f" in {folder}" if folder else ""
    words = getattr(error, "strerror", None) or str(error)
    named = getattr(error, "filename", None)
    about = f"{words}: {named}" if named and named != command else words
    reason = f"cannot start {command!r}{where}: {about}"
    exhausted = getattr(error, "errno", None) in EXHAUSTED
    raise Stop("failed", code, NO_RESOURCES if exhausted else CANNOT_START, reason) from None


def enforce_memory(program: Program, limit: Optional[int]) -> str:
    """Kill the program if it uses more than its limit; the reason if so."""
    if not limit:
        return ""
    used = program.memory
    if used <= limit:
        return ""
    program.kill()
    return f"out of memory: used {used // MIB} MiB of a limit of {limit // MIB} MiB"


def explain_end(
    entry: LaunchRole, program: Program, killed_by_system: bool, lines: Iterable[str]
) -> Tuple[str, str]:
    """Kind and reason of a program's end; `lines` are those that it printed last."""
    code = program.exit_code
    if code == EXIT_OUT_OF_MEMORY and killed_by_system:
        cap = entry.get("memory_cap")
        limit = f", limit {cap // MIB} MiB" if cap else ""
        return OUT_OF_MEMORY, f"out of memory: killed by the system (exit code 137{limit})"
    folder = entry.get("workdir") or None
    script = missing_script(program.argv, folder) if code in SCRIPT_EXITS else None
    if script is not None:
        return CANNOT_START, f"there is no file {script} (exit code {code})"
    module = missing_module(lines) if code == 1 else None
    if module is not None:
        return MODULE_MISSING, f"exit code 1: {program.python or 'Python'} has no module {module!r}"
    return kind_of_exit(code), describe_exit(code)
