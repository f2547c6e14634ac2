"""What is opened and never closed is shown where it was opened, not where reading stopped."""

from __future__ import annotations

import pytest

from tests.unit.specs import load
from tfcluster.errors import SpecProblems

UNCLOSED = {
    "list": ("name: a\ncommand: [python, x\nroles:\n  worker: {}\n", 2, 10, '"["', '"]"'),
    "outer": ("name: a\ncommand: [x]\nroles: {worker: {replicas: 2}\n", 3, 8, '"{"', '"}"'),
    "mapping": ("roles:\n  worker: {replicas: 2\n  ps: {}\ntrain: {}\n", 2, 11, '"{"', '"}"'),
    "quoted": ("args: ['a]', \"]\", # ]\n x\nname: a\nroles: {}\n", 1, 7, '"["', '"]"'),
    "end": ("roles: {worker: {}", 1, 8, '"{"', '"}"'),
    "quote": ('name: a\nworkdir: "/x\nroles: {}\n', 2, 10, 'a quote (")', ""),
    "print": ("name: a\nroles:\n  worker: {replicas: {{ n\n  ps: {}\n", 3, 22, '"{{"', '"}}"'),
    "half": ("name: a\nroles:\n  worker: {replicas: {{ n }\ntrain: {}\n", 3, 22, '"{{"', '"}}"'),
    "statement": ("name: a\n{% if x\nroles:\n  worker: {}\n", 2, 1, '"{%"', '"%}"'),
    "comment": ("name: a\n{# note\nroles:\n  worker: {}\n", 2, 1, '"{#"', '"#}"'),
    "if": ("name: a\n{% if 1 %}\nroles:\n  worker: {}\n", 2, 1, '"{% if %}"', '"{% endif %}"'),
    "nested": (
        "name: a\n{% for x in [1] %}\n\n  {% if x %}\n{% raw %}{% x %}{% endraw %}\n{% endfor %}\n",
        *(4, 3, '"{% if %}"', '"{% endif %}"'),
    ),
}


def problem(text):
    with pytest.raises(SpecProblems) as caught:
        load(text)
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "line", "column", "sign", "close"), UNCLOSED.values(), ids=UNCLOSED
)
def test_it_is_shown_where_it_was_opened(text, line, column, sign, close):
    found = problem(text)
    assert found.message == f"{sign} is opened here and never closed"
    assert (found.line, found.column) == (line, column)
    assert close in (found.hint or "")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        # Closed, and something else is wrong inside.
        ("name: a\nargs: [\n  a: b: c\n]\nroles: {worker: {}}\n", 3, "YAML"),
        ("name: a\nroles: {worker: {args: [a, b}}\n", 2, "expected ',' or ']'"),
        ("name: a\nargs: [{{ 1 | nofilter }}\n", 2, "No filter"),
        ("name: {{ 1 2 }}\nargs: [{{ 1\n", 1, "expected token"),
        ("{% set x = {'a': {'b': 1}} %}\nname: {{ 1 2 }}\n", 2, "expected token"),
        ("{% set x %}{{ '{{' }}{% endset %}\nname: {{ 1 2 }}\n", 2, "expected token"),
        ("name: a\n{% endif %}\n", 2, "endif"),
    ],
)
def test_other_mistakes_keep_their_place(text, line, words):
    found = problem(text)
    assert found.line == line and words in found.message
    assert "opened here" not in found.message
