"""Work in a child process, which cannot use more than so much time and memory.

What is counted in the sandbox ends a runaway loop with a good message. This ends the rest: a
comparison of two lists is one instruction, and nothing in the same process could interrupt it.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import re
import resource
import signal
import warnings
from collections.abc import Callable
from typing import NoReturn, TypeVar

CPU_SECONDS = 2
MEMORY = 256 * 2**20  # on top of what the process has already
WALL_SECONDS = 60  # a machine may be busy, but nothing waits for ever

Result = TypeVar("Result")


class Exhausted(Exception):
    """The work took too much; `line` is that of the code called <template> that was at it."""

    def __init__(self, message: str, line: int | None = None):
        super().__init__(message)
        self.line = line

    @staticmethod
    def memory() -> str:
        return f"it needs more than {MEMORY // 2**20} MiB of memory"


def bounded(work: Callable[[], Result]) -> Result:
    """What `work` returns, computed in a child process; Exhausted if it takes too much.

    The result has to be picklable. An exception is no result: it would only be known as such.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns about other threads. The child needs none: it computes, answers, ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        _compute(work, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as file:
            answer = file.read()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    _, status = os.waitpid(pid, 0)
    if status == 0:
        result: Result = pickle.loads(answer)
        return result
    raise Exhausted(_reason(status), _line(answer))


def _compute(work: Callable[[], object], writing: int) -> NoReturn:
    """The child's whole life. Whatever happens, nothing of the parent's is run or flushed here."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        faulthandler.disable()
        # At the limit the stack is written to the pipe, and the process ends.
        faulthandler.register(signal.SIGXCPU, file=writing, all_threads=False, chain=True)
        signal.alarm(WALL_SECONDS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        with open("/proc/self/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, hard))
        with os.fdopen(writing, "wb", closefd=False) as file_out:
            pickle.dump(work(), file_out)
        code = 0
    finally:
        os._exit(code)


def _reason(status: int) -> str:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number in (signal.SIGXCPU, signal.SIGKILL):
        return f"it takes more than {CPU_SECONDS} seconds of CPU time"
    if number == signal.SIGALRM:
        return f"it takes more than {WALL_SECONDS} seconds"
    return Exhausted.memory()


def _line(trace: bytes) -> int | None:
    """The line of the template's code that was run last."""
    found = re.search(rb'File "<template>", line (\d+)', trace)
    return int(found[1]) if found else None
