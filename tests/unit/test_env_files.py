"""Files of variables: what is read as what, and what is said about the rest."""

from __future__ import annotations

import pytest

from tfcluster.launch.plan import parse_env_file, read_env_files


@pytest.mark.parametrize(
    ("content", "env"),
    [
        (b"A=b\n\n# no\nC = d \n", {"A": "b", "C": "d"}),
        (b"A=b\r\nC=d\r\n", {"A": "b", "C": "d"}),
        (b"\xef\xbb\xbfA=b\n", {"A": "b"}),
        (b"export A=b\n", {"A": "b"}),
        (b"A='b c'\nD=\"e # f\" # g\n", {"A": "b c", "D": "e # f"}),
        (b"H=i # j\nK=l#m\n", {"H": "i", "K": "l#m"}),
        (b"A=it's\nB=x=y\nC=\n", {"A": "it's", "B": "x=y", "C": ""}),
        ("A=\u00e9\n".encode(), {"A": "\u00e9"}),
        (b"", {}),
    ],
)
def test_a_file_is_read_as_meant(content: bytes, env: dict[str, str]) -> None:
    assert parse_env_file(content, "x.env") == env


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("A=hunter2\n".encode("utf-16"), "x.env is UTF-16 or binary; save it as UTF-8"),
        ("A=hunter2\n".encode("utf-16-le"), "x.env is UTF-16 or binary"),
        ("A=hunter2\u00e9\n".encode("latin-1"), "x.env is not UTF-8; save it as UTF-8"),
        (b"A=1\nhunter2\n", "x.env:2: expected NAME=value"),
        (b"hunter2 A=1\n", "x.env:1: expected NAME=value"),
        (b"1A=hunter2\n", "x.env:1: expected NAME=value"),
        (b"A='hunter2\n", "x.env:1: a quote (') is opened and never closed"),
        (b"A='b' hunter2\n", "x.env:1: something follows the closing quote"),
    ],
)
def test_what_cannot_be_read_is_told_as_what_it_is(content: bytes, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_env_file(content, "x.env")
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_gone_at_a_restart_is_named(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"env_from: cannot read .*gone\.env: No such file"):
        read_env_files([str(tmp_path / "gone.env")])
