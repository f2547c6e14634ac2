"""A template uses so much time and memory and no more, and a simple one needs no watching."""

from __future__ import annotations

import os
import resource
import signal

import pytest

from tests.unit.specs import SMALL, load
from tfcluster.spec import template_child
from tfcluster.spec.template import TemplateMistakes, render_template
from tfcluster.spec.template_child import Exhausted, bounded
from tfcluster.spec.template_simple import is_simple

NESTED = (
    "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
    "{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}\n"
)


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_child, "CPU_SECONDS", 1)
    monkeypatch.setattr(template_child, "MEMORY", 64 * 2**20)


def used() -> float:
    mine = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


@pytest.mark.parametrize(
    ("template", "words", "line"),
    [
        # One comparison of two small lists takes 2**60 steps.
        (NESTED + "{{ n.a == n.b }}", "more than 1 seconds of CPU", 3),
        ("{{ " + "1+" * 200_000 + "1 }}", "more than 1 seconds of CPU", None),
        (
            "{% set x %}{% for i in range(9999) %}" + "y" * 99999 + "{% endfor %}{% endset %}",
            "MiB of memory",
            2,
        ),
        (
            "{% set n = namespace(a=[]) %}{% for i in range(9999) %}\n"
            "{% set n.a = [n.a, [0] * 9999] %}{% endfor %}",
            "MiB of memory",
            3,
        ),
    ],
)
def test_what_no_count_can_stop_is_ended_and_its_line_is_named(
    template: str, words: str, line: int | None
) -> None:
    before = used()
    source = f"name: a\n{template}"
    with pytest.raises(TemplateMistakes) as caught:
        render_template(source, {}, {})
    (mistake,) = caught.value.mistakes
    assert "does too much work" in mistake.message and words in mistake.message
    found = None if mistake.span is None else source.count("\n", 0, mistake.span.start) + 1
    assert found == line
    assert used() - before < 10


def test_a_template_that_crashes_the_interpreter_is_only_refused() -> None:
    with pytest.raises(Exhausted):
        bounded(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def test_nothing_of_the_child_reaches_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("not for the terminal")

    with pytest.raises(Exhausted):
        bounded(fail)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "template",
    [
        "{{ workers | default(2) }}",
        "{{ workers | default(2) | int * 2 + 1 }}",
        '{{ env("HOME", "x") | tojson }}',
        "{% if gpus | default(0) | int > 0 %}a{% else %}b{% endif %}",
        "{# nothing #}{{ 'a' if x is defined else 'b' ~ 'c' }}",
    ],
)
def test_a_simple_template_is_rendered_on_the_spot(
    monkeypatch: pytest.MonkeyPatch, template: str
) -> None:
    monkeypatch.delattr(os, "fork")
    render_template(f"name: {template}\n", {}, {})


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(2) %}{% endfor %}",
        "{% set a = [] %}",
        "{{ 2 ** 3 }}",
        "{{ a() }}",
        "{{ a.b }}",
        "{{ [1] | sort }}",
        "{% macro m() %}{% endmacro %}",
        "{{ 'x' " + "| upper " * 500 + "}}",
        "{{ 1 }}" * 501,
        "{{ ",
    ],
)
def test_what_could_take_long_is_watched(template: str) -> None:
    assert not is_simple(template)


@pytest.mark.parametrize(
    "part",
    ["{{ ('x' * 1048576) | upper | trim | replace('x', 'y') }}", "{{ ([1] * 9999) | tojson }}"],
)
def test_the_most_expensive_simple_template_takes_a_moment(part: str) -> None:
    template = part * 40
    assert is_simple(template)
    before = used()
    with pytest.raises(TemplateMistakes):
        render_template(template, {}, {})
    assert used() - before < 5


def test_a_spec_without_template_needs_no_template_engine() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from tfcluster.spec.loader import load_spec_text;"
        f"load_spec_text({SMALL!r}); assert 'jinja2' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_loops_and_macros_still_work_and_keep_their_places() -> None:
    text = (
        "{% macro role(n) %}{replicas: {{ n }}}{% endmacro %}\n"
        "name: a\ncommand: [x]\nroles:\n"
        "{% for n in range(1, 4) %}\n  r{{ 'abc'[n - 1] }}: {{ role(n) }}\n{% endfor %}\n"
    )
    spec = load(text).spec
    assert {name: role.replicas for name, role in spec.roles.items()} == {"ra": 1, "rb": 2, "rc": 3}
