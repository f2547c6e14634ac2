"""Help that can be typed from, and a word for those who type what other tools call it."""

from __future__ import annotations

import shlex

import pytest

from tfcluster.cli import COMMANDS, SYNONYMS, load_command, main

WIDTH = 80


@pytest.fixture(autouse=True)
def empty_world(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_ends_with_examples_that_fit_a_terminal(name, capsys):
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= WIDTH
    examples = text.partition("\nExamples:\n")[2].splitlines()
    assert examples and all("  # " in line for line in examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_a_call_that_the_command_takes(name):
    assert load_command(name).examples
    for line, _ in load_command(name).examples:
        for call in line.replace("<(", "").replace(")", "").replace("&&", "|").split("|"):
            words = shlex.split(call.partition(">")[0])
            if words and "tfcluster" in words:
                verb, *rest = words[words.index("tfcluster") + 1 :]
                load_command(verb).make_context(verb, rest)


def test_help_says_what_the_option_says(capsys):
    for words, same in ((["help"], ["--help"]), (["help", "up"], ["up", "--help"])):
        assert main(words) == 0
        said = capsys.readouterr().out
        assert main(same) == 0
        assert said == capsys.readouterr().out
    assert "Usage: tfcluster up" in said


def test_help_of_an_unknown_command_suggests_one(capsys):
    assert main(["help", "stauts"]) == 2
    assert 'did you mean "status"?' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("stop", "down"),
        ("list", "ps"),
        ("delete", "down"),
        ("kill", "down"),
        ("start", "up"),
        ("log", "logs"),
        ("apply", "up"),
    ],
)
def test_what_other_tools_call_it_leads_to_ours(word, meant, capsys):
    assert main([word]) == 2
    err = capsys.readouterr().err
    assert f'error: unknown command "{word}"' in err
    assert f'hint: did you mean "tfcluster {meant}"? {COMMANDS[meant][1]}' in err


@pytest.mark.parametrize("word", ["run", "top", "remove", "rm", *SYNONYMS])
def test_every_word_for_it_is_a_command_or_leads_to_one(word):
    assert word in COMMANDS or SYNONYMS[word].split()[0] in COMMANDS


def test_no_word_stands_for_a_command_and_another_one():
    assert not SYNONYMS.keys() & COMMANDS.keys()


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (["down", "mnist"], "tfcluster down --job mnist"),
        (["status", "other/cluster.yaml"], "tfcluster status --file other/cluster.yaml"),
        (["wait", "."], "tfcluster wait --file ."),
        (["version", "up"], "see tfcluster version --help"),
    ],
)
def test_a_stray_word_is_named_with_the_option_it_belongs_to(call, hint, capsys):
    assert main(call) == 2
    err = capsys.readouterr().err
    assert f'error: unexpected word "{call[1]}"' in err and hint in err


@pytest.mark.parametrize("verb", ["logs", "events"])
def test_a_file_after_follow_is_explained(verb, capsys):
    assert main([verb, "-f", "cluster.yaml"]) == 2
    err = capsys.readouterr().err
    assert "-f means --follow" in err
    assert f"tfcluster {verb} -f --file cluster.yaml" in err
