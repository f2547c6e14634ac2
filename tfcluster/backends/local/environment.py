"""The environment of local tasks that have requirements: a virtual one, kept by its content.

It lies over the interpreter that `python` would mean without it and sees all that this one has, so
that TensorFlow is not installed again. Its scripts name its folder, so it is made where it stays; a
mark written last says that it is whole.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfcluster.archive import home
from tfcluster.backends.local.interpreters import find_interpreter
from tfcluster.errors import MissingError, TfclusterError
from tfcluster.files import locked, make_folder, write_bytes
from tfcluster.pip import find_pip, pip_failed
from tfcluster.requirements import Requirements
from tfcluster.tables import counted

WHOLE = "tfcluster-requirements.txt"  # the mark
WISH = "requirements.txt"
SEES = "tfcluster-base.pth"
FROM = re.compile(r" \(from .*\)$")
ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_REQUIREMENT")
PATHS = "import site, sys; print(sys.version); print(*site.getsitepackages(), sep='\\n')"
PROBE_SECONDS = 60.0
KEY = re.compile(r"[0-9a-f]{16}")
SHOWN = ("Collecting ", "Downloading ", "Building ", "Installing collected")


@dataclass(frozen=True)
class Environment:
    """One environment, which need not be there yet."""

    wanted: Requirements
    base: str  # the interpreter that it lies over
    key: str

    @property
    def folder(self) -> Path:
        return store() / self.key

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def whole(self) -> bool:
        return (self.folder / WHOLE).is_file()

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """What programs see of it: `python`, `pytest` and the like are its own."""
        path = env.get("PATH") or os.environ.get("PATH", os.defpath)
        bin_folder = str(self.folder / "bin")
        return {"PATH": f"{bin_folder}{os.pathsep}{path}", "VIRTUAL_ENV": str(self.folder)}


def store() -> Path:
    return home() / "environments"


def plan_environment(wanted: Requirements | None, env: Mapping[str, str]) -> Environment | None:
    """The environment for these requirements, over the Python that this environment finds."""
    if wanted is None:
        return None
    base = find_interpreter("python", env).path
    return Environment(wanted, base, wanted.key(base, looked_at(base)[0]))


@functools.lru_cache
def looked_at(python: str) -> tuple[str, tuple[str, ...]]:
    """The version of an interpreter, and the folders of its packages."""
    try:
        done = subprocess.run(
            [python, "-c", PATHS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"requirements: {python} does not run: {error}") from None
    version, *folders = done.stdout.splitlines() or [""]
    if done.returncode != 0 or not folders:
        said = [f"  {line}" for line in done.stderr.splitlines()[-3:]]
        raise MissingError(f"requirements: {python} does not run", evidence=said)
    return version, tuple(folders)


def make_environment(made: Environment, say: Callable[[str], None]) -> None:
    """Have it there: at once if it was made before, else installed now by pip."""
    if made.whole:
        return
    make_folder(store())
    with locked(store() / f"{made.key}.lock", wait=False) as mine:
        if mine:
            install(made, say)
            return
    say("Waiting for another command that installs the same requirements")
    with locked(store() / f"{made.key}.lock"):
        install(made, say)


def install(made: Environment, say: Callable[[str], None]) -> None:
    if made.whole:
        return
    begun = time.monotonic()
    count = counted(len(made.wanted.names), "requirement")
    say(f"Installing {count} of {made.wanted.source} (once), over {made.base}")
    shutil.rmtree(made.folder, ignore_errors=True)  # what was cut short
    try:
        prepare_folder(made)
        run_pip(made, say)
        write_bytes(made.folder / WHOLE, made.wanted.text.encode())
    except BaseException as error:
        shutil.rmtree(made.folder, ignore_errors=True)
        if isinstance(error, OSError):
            where = error.filename or made.folder
            raise TfclusterError(
                f"requirements cannot be installed: {where}: {error.strerror}"
            ) from None
        raise
    say(f"Installed them in {time.monotonic() - begun:.0f} s")


def prepare_folder(made: Environment) -> None:
    """An empty environment that sees the packages of the interpreter below it."""
    # Without pip, which would take longer than all the rest; see find_pip.
    argv = [made.base, "-m", "venv", "--without-pip", "--system-site-packages", str(made.folder)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).splitlines()[-5:]
        raise MissingError(
            f"requirements: {made.base} cannot make a virtual environment",
            evidence=[f"  {line}" for line in said],
            hint="install its module venv (on Debian: apt install python3-venv)",
        )
    (packages,) = (made.folder / "lib").glob("python3*/site-packages")
    # If the interpreter is that of an environment itself, "system" does not mean that one.
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in looked_at(made.base)[1]]
    (packages / SEES).write_text("".join(lines))


def run_pip(made: Environment, say: Callable[[str], None]) -> None:
    (made.folder / WISH).write_text(made.wanted.text)
    argv = [made.python, "-I", *find_pip(), "install", "--no-input", "-r", WISH]
    with subprocess.Popen(
        [*argv, "--disable-pip-version-check", "--progress-bar", "off"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=made.folder,
        env=pip_environment(),
    ) as process:
        try:
            said = list(heard(process.stdout or (), say))
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise pip_failed(made.wanted, said)


def pip_environment() -> dict[str, str]:
    """Ours, without what would have pip install to another place."""
    kept = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    return {**kept, "PIP_USER": "0"}


def heard(lines: Iterable[str], say: Callable[[str], None]) -> Iterator[str]:
    """What pip prints; what takes long is passed on."""
    for line in lines:
        text = line.rstrip()
        if text.lstrip().startswith(SHOWN):
            say(f"  {FROM.sub('', text.strip())}")
        yield text


# -- What there is -----------------------------------------------------------------------------


def list_environments() -> list[Path]:
    """Every environment, whole or not, that is not being made now."""
    if not store().is_dir():
        return []
    return sorted(path for path in store().iterdir() if KEY.fullmatch(path.name))


def remove_environment(key: str) -> None:
    """Take an environment away. Idempotent."""
    if not KEY.fullmatch(key) or not store().is_dir():
        return
    with locked(store() / f"{key}.lock", wait=False) as mine:
        if mine:  # else it is being made
            with contextlib.suppress(FileNotFoundError):
                (store() / key / WHOLE).unlink()
            shutil.rmtree(store() / key, ignore_errors=True)
