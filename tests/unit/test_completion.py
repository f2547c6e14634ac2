"""Completion in real shells: they run the script, and it asks a real tfcluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launchers import until
from tests.terminal.screen import Terminal
from tests.unit.records import write_run
from tfcluster.cli import main

BIN = Path(sys.executable).parent
ASK_BASH = """
source <(tfcluster completion bash)
while read -r line; do
  read -ra COMP_WORDS <<< "$line"
  [[ $line == *" ." ]] && COMP_WORDS[-1]=""
  COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
  _tfcluster_completion tfcluster
  echo "${COMPREPLY[*]}"
done
"""


def needs(shell: str) -> pytest.MarkDecorator:
    missing = shutil.which(shell) is None or not (BIN / "tfcluster").exists()
    return pytest.mark.skipif(missing, reason=f"needs {shell}: apt-get install {shell}")


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A job with a finished run, in a folder that knows nothing of it."""
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return write_run("mnist")


def run(argv: list[str], text: str = "") -> str:
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=120)
    assert done.stderr == "" and done.returncode == 0, done.stderr
    return done.stdout


@needs("bash")
def test_bash_completes_commands_jobs_tasks_and_runs(world):
    asked = {
        "tfcluster st": "status",
        "tfcluster logs --job mn": "mnist",
        "tfcluster logs --job mnist worker-": "worker-0 worker-1",
        "tfcluster logs --run .": world.id,
        "tfcluster exec -it p": "ps ps-0",
        "tfcluster up .": "",  # bash completes the file
    }
    said = run(["bash", "--norc", "-c", ASK_BASH], "".join(f"{line}\n" for line in asked))
    assert dict(zip(asked, said.splitlines(), strict=True)) == asked


def test_a_damaged_record_does_not_print_into_the_line_that_is_typed(world):
    (world.path / "record.json").write_text("{")
    asked = {"_TFCLUSTER_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    env = {**os.environ, **asked, "COMP_WORDS": "tfcluster logs worker-"}
    argv = [sys.executable, "-m", "tfcluster"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


@needs("fish")
def test_fish_completes_commands_and_tasks(world):
    ask = "tfcluster completion fish | source; complete -C 'tfcluster "
    assert (
        run(["fish", "--no-config", "-c", f"{ask}st'"]) == "status\tShow the job and its tasks.\n"
    )
    said = run(["fish", "--no-config", "-c", f"{ask}logs --job mnist work'"])
    assert said.split() == ["worker", "worker-0", "worker-1"]


@needs("zsh")
def test_zsh_completes_what_is_typed(world, tmp_path):
    shell = Terminal(["zsh", "-f", "-i"], env={**os.environ, "PS1": "$ "}, cwd=tmp_path)
    shell.press("source <(tfcluster completion zsh) && echo read''y\n")
    shell.shows("ready")
    for typed, completed in (
        ("tfcluster logs --job mn", "tfcluster logs --job mnist"),
        ("tfcluster logs --job mnist ps-", "tfcluster logs --job mnist ps-0"),
    ):
        shell.press(f"{typed}\t\x01echo \n")  # Ctrl-A: to the beginning of the line
        until(lambda wanted=completed: wanted in shell.screen(), completed)
    shell.press("exit\n")
    assert shell.end() == 0


@pytest.mark.parametrize(
    ("shell", "part"),
    [("bash", "complete -o"), ("zsh", "compdef _tfc"), ("fish", "complete --command")],
)
def test_each_shell_gets_its_own_script_by_either_name(shell, part, capsys, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert part in script
    assert main(["--show-completion", shell]) == 0
    assert capsys.readouterr().out == script


def test_without_a_shell_it_is_the_one_in_use(capsys, monkeypatch):
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert main(["completion"]) == 0
    assert "complete --command" in capsys.readouterr().out


def test_an_unknown_shell_lists_the_known_ones(capsys):
    assert main(["completion", "tcsh"]) == 2
    err = capsys.readouterr().err
    assert '"tcsh"' in err and "bash, zsh, fish" in err
