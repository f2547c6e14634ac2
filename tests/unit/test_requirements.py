"""What `requirements` means: which lines count, what is refused, when two are the same."""

from __future__ import annotations

import pytest

from tfcluster.backends.local.environment import (
    Environment,
    list_environments,
    make_environment,
    remove_environment,
    store,
)
from tfcluster.belongings import ENVIRONMENT, VOLUME, Belonging
from tfcluster.cleaning import Survey, find_unused
from tfcluster.errors import MissingFile, SpecProblems, UsageError
from tfcluster.programs import Wanted, find_program, requirements_for
from tfcluster.requirements import Requirements, failed_requirement, read_requirements
from tfcluster.spec.loader import load_spec_text


def requirements(folder, given) -> Requirements | None:
    text = f"name: a\ncommand: [python]\nroles: {{worker: {{}}}}\nrequirements: {given}\n"
    return read_requirements(load_spec_text(text).spec, folder)


def test_comments_continued_lines_and_included_files_are_read_as_pip_does(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.txt").write_text("deep==1\n")
    (tmp_path / "sub" / "r.txt").write_text(
        "# all\none>=1 # why\n\ntwo[extra] \\\n  ==2\n-r more.txt\n--pre\nx @ https://e.org/#sub=1\n"
    )
    found = requirements(tmp_path, "sub/r.txt")
    assert found is not None and found.source == "sub/r.txt"
    assert found.lines == (
        "one>=1",
        "two[extra]   ==2",
        "deep==1",
        "--pre",
        "x @ https://e.org/#sub=1",
    )
    assert found.names == ("one", "two", "deep", "x")
    listed = requirements(tmp_path, '["one>=1", "two"]')
    assert listed is not None and listed.lines == ("one>=1", "two")


@pytest.mark.parametrize("text", ["", "# nothing\n\n"])
def test_nothing_asked_for_is_nothing(tmp_path, text):
    (tmp_path / "r.txt").write_text(text)
    assert requirements(tmp_path, "r.txt") is None
    assert requirements(tmp_path, "[]") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-e .", "of this machine"),
        ("./wheels/a.whl", "of this machine"),
        ("/opt/a.whl", "of this machine"),
        ("a @ file:///opt/a.whl", "of this machine"),
        ("-c constraints.txt", "constraints"),
        ("--index-url https://me:hunter2@example.org/simple", "password"),
        ("-r r.txt", "includes itself"),
    ],
)
def test_what_other_machines_cannot_have_is_refused_without_showing_passwords(
    tmp_path, line, words
):
    (tmp_path / "r.txt").write_text(f"{line}\n")
    with pytest.raises(UsageError, match=words) as refused:
        requirements(tmp_path, "r.txt")
    assert "hunter2" not in refused.value.message


def test_a_file_that_is_not_there_and_a_value_of_another_kind_are_mistakes(tmp_path):
    with pytest.raises(MissingFile, match=r"there is no file r\.txt"):
        requirements(tmp_path, "r.txt")
    with pytest.raises(SpecProblems) as wrong:
        requirements(tmp_path, "3")
    assert "a file or a list" in wrong.value.problems[0].message


def test_the_key_follows_the_packages_and_what_they_lie_over_not_their_file(tmp_path):
    one, other = Requirements(("a==1",), "r.txt"), Requirements(("a==1",), "requirements")
    assert one.key("base") == other.key("base")
    assert len({one.key("base"), one.key("base2"), Requirements(("a==2",), "").key("base")}) == 3


@pytest.mark.parametrize(
    ("said", "blamed"),
    [
        (["ERROR: No matching distribution found for two[x]>=1"], "two[x]>=1"),
        (["Collecting one", "ERROR: Could not build wheels for one, which"], "one"),
        (["ERROR: no space left"], ""),
        (["ERROR: No matching distribution found for one-more"], ""),
    ],
)
def test_the_requirement_that_pip_complains_of_is_found(said, blamed):
    assert failed_requirement(Requirements(("two[x]>=1", "one"), ""), said) == blamed


def test_a_program_s_own_file_is_taken_unless_another_or_none_is_asked_for(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()

    def chosen(**wanted):
        asked = Wanted(("src/train.py",), code=".", **wanted)
        return requirements_for(asked, find_program(asked.words, tmp_path, "."), tmp_path)

    assert chosen() is None
    (tmp_path / "requirements.txt").touch()
    assert chosen() == "requirements.txt"
    (tmp_path / "src" / "requirements.txt").touch()
    assert chosen() == "src/requirements.txt"
    assert chosen(requirements=str(tmp_path / "other.txt")) == "other.txt"
    assert chosen(find_requirements=False) is None
    assert chosen(requirements=("one",)) == ["one"]


def test_only_what_no_run_needs_and_this_state_folder_made_is_unused():
    def made(name: str, home: str = "mine", kind: str = ENVIRONMENT) -> Belonging:
        return Belonging(kind, name, "here", "", home=home)

    found = [made("a"), made("b"), made("c", "theirs"), made("v", kind=VOLUME)]
    survey = Survey({("local", "here"): found})
    assert [one.name for _, one in find_unused(survey, {"a"}, "mine")] == ["b"]
    assert [one.name for _, one in find_unused(survey, {"a"}, None)] == ["b", "c"]


def test_an_environment_that_was_cut_short_does_not_count_and_can_be_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path))
    key = "0" * 16
    cut = Environment(Requirements(("a",), ""), "/nowhere/python", key)
    (store() / key / "lib").mkdir(parents=True)
    assert not cut.whole and list_environments() == [store() / key]
    with pytest.raises(Exception, match="nowhere"):
        make_environment(cut, lambda _: None)
    assert list_environments() == []
    remove_environment(key)
    remove_environment("../../etc")
