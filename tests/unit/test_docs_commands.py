"""Every command that the documentation prints can be typed as it is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from tfcluster.cli import COMMANDS, PASSES_ARGUMENTS, load_command
from tfcluster.spec.loader import load_spec

ROOT = Path(__file__).parent.parent.parent
GENERATED = ("commands.md", "spec.md")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FILE = re.compile(r"[\w./-]+\.(yaml|py|npz|sh|json|env)")
THE_READERS = ("cluster.yaml", "train.py")  # from init, or written by whoever reads the page


def blocks(page: Path) -> list[list[str]]:
    """The commands of each block of a page, without their comments and their output."""
    found = []
    for kind, text in re.findall(r"```(\w*)\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        if kind in ("sh", "console"):
            text = re.sub(r"<<'(\w+)'.*?\n\1$", "", text, flags=re.S | re.M)
            lines = re.sub(r"\\\n\s*", "", text).splitlines()
            prompted = [line[2:] for line in lines if line.startswith("$ ")]
            found.append(prompted if kind == "console" else lines)
    return found


def commands(page: Path) -> list[list[str]]:
    """Each call of tfcluster on a page as words: those in blocks, and those in a line of text."""
    calls = [part for block in blocks(page) for line in block for part in re.split(r"&&|\|", line)]
    calls += re.findall(r"`(tfcluster [^`]+)`", page.read_text(encoding="utf-8"))
    words = [shlex.split(call, comments=True) for call in calls]
    return [found[1:] for found in words if found[:1] == ["tfcluster"] and found[1:]]


def texts(name: str) -> list[tuple[Path, list[str]]]:
    pages = [page for page in PAGES if page.name not in GENERATED]
    return [(page, call) for page in pages for call in commands(page) if call[0] == name]


def test_there_are_commands_to_look_at():
    assert {"up", "status", "render", "rbac", "down"} <= {
        call[0] for page in PAGES for call in commands(page)
    }
    names = {call[0] for page in PAGES for call in commands(page) if not call[0].startswith("-")}
    assert names <= COMMANDS.keys()


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in PASSES_ARGUMENTS])
def test_documented_calls_are_understood(name):
    command = load_command(name)
    for page, call in texts(name):
        words = [word for word in call[1:] if word != "…"]
        try:
            command.make_context(name, words, resilient_parsing=False)
        except typer.Exit:
            pass
        except Exception as error:
            raise AssertionError(f"{page.name}: tfcluster {' '.join(call)}: {error}") from error


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_command_names_is_there_or_was_made_by_one_before(page):
    inline = re.findall(r"`((?:tfcluster|python|sh) [^`…]+)`", page.read_text(encoding="utf-8"))
    made: set[str] = set(THE_READERS)
    for line in [line for block in blocks(page) for line in block] + inline:
        words = shlex.split(line, comments=True)
        if words[:1] not in (["tfcluster"], ["python"], ["sh"]):
            continue
        made |= written_by(words)
        for word in words:
            is_file = FILE.fullmatch(word) and not word.startswith("/tfcluster/")
            missing = is_file and word not in made and not (ROOT / word).is_file()
            assert not missing, f"{page.name}: {line}: there is no {word}"


def written_by(words: list[str]) -> set[str]:
    """The files that a command makes: its output, or the weights of a training."""
    made = {words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-o", "--output")}
    if words[:2] == ["tfcluster", "up"] and words[2:] and words[2].endswith(".yaml"):
        changes = [words[n + 1] for n, word in enumerate(words[:-1]) if word == "--set"]
        spec = load_spec(ROOT / words[2], overrides=tuple(changes)).spec
        if spec.train is not None and spec.checkpoints is not None:
            folder = spec.checkpoints.removeprefix("$PWD/")
            made.add(f"{folder}/{spec.train.weights_name}.npz")
    return made


def test_a_command_that_names_no_file_is_found_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Look: `python -m trainer eval --weights nowhere/w.npz`.\n")
    with pytest.raises(AssertionError, match=r"there is no nowhere/w\.npz"):
        test_every_file_that_a_command_names_is_there_or_was_made_by_one_before(page)
