"""A value of --var or env() is a value in the spec: it never becomes a key, a list or a comment."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.specs import SETTINGS, load, problems, report
from tfcluster.errors import SpecProblems
from tfcluster.spec import train

SPEC = "name: a\ntrain: {}\nroles: {worker: {}}\n"
# Where a value may stand, and what the variable A then is; None if it is in no value at all.
PLACES = {
    "A: {{ v }}": lambda v: v.strip(" \t"),
    "A: x{{ v }}y": lambda v: f"x{v}y",
    'A: "{{ v }}"': lambda v: v,
    "A: '{{ v }}'": lambda v: v,
    "A: '{{ v }}-{{ v }}'": lambda v: f"{v}-{v}",
    "A: b # {{ v }}": lambda v: "b",
    "A: {{ v | tojson }}": lambda v: v,
    "A: '{{ v | tojson }}'": None,
    'A: "{{ v | tojson }}"': None,
    "A: {{ v | upper | lower }}": lambda v: v.upper().lower().strip(" \t"),
    "A: {{ ('x' ~ v) | tojson }}": lambda v: f"x{v}",
    "A: {{ 'x' ~ v ~ 'y' }}": lambda v: f"x{v}y",
    "A: {{ ['x', v] | join('-') }}": lambda v: f"x-{v}".strip(" \t"),
    "A: x{{ v[:3] }}": lambda v: f"x{v[:3]}".strip(" \t"),
    "A: x{{ v.strip() }}": lambda v: f"x{v.strip()}",
    "A: x{% for c in v %}{{ c }}{% endfor %}": lambda v: f"x{v}".strip(" \t"),
    "A: {% set w %}x{{ v }}{% endset %}{{ w }}": lambda v: f"x{v}".strip(" \t"),
    "A: {% set w %}{{ v }}{% endset %}{{ w | tojson }}": lambda v: v,
    "A: {% macro m(w) %}x{{ w }}{% endmacro %}{{ m(v) }}": lambda v: f"x{v}".strip(" \t"),
    "A: {% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}x{{ v }}{% endcall %}": (
        lambda v: f"x{v}".strip(" \t")
    ),
    "A: {% filter lower %}x{{ v }}{% endfilter %}": lambda v: f"x{v}".lower().strip(" \t"),
    "A: |-\n    {{ v }}": lambda v: v,
    "A: >-\n    {{ v }}": lambda v: v,
}
PARTS = st.sampled_from(
    [
        *(
            "a",
            "b",
            "1",
            " ",
            "  ",
            "\n",
            "\n  ",
            "\r",
            "\t",
            "\x85",
            "\u2028",
            ": ",
            ":",
            ", ",
            ",",
        ),
        *("B: 1", "env: {B: 1}", "\nenv: {B: 1}", "{", "}", "[", "]", '"', "'", "''", "\\", "\\n"),
        *("#", " #", "&a ", "*a", "!!str ", "| ", "|", ">", "%", "@", "`", "- ", "-", "? ", "<<"),
        *(
            "---",
            "...",
            "~",
            "null",
            "\ue000",
            "\ue0020\ue001",
            "\ue003",
            "{{ x }}",
            "é",
            "\U0001f600",
        ),
    ]
)
VALUES = st.lists(PARTS, max_size=6).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=12
)


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "SETTINGS_PATH", SETTINGS)


def spec_with(place: str, indent: str = "  ") -> str:
    return f"{SPEC}env:\n{indent}{place}\n"


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(sorted(PLACES)), VALUES)
@example("A: {{ v }}", "x\nenv: {B: 1}")
@example("A: {{ v }}", "x\n  B: 1")
@example('A: "{{ v }}"', '", B: "')
@example("A: '{{ v | tojson }}'", "', B: '")
@example("A: b # {{ v }}", "\n  B: 1")
@example("A: {{ v }}", "<<")
def test_a_value_is_read_as_it_is_or_refused(place: str, value: str) -> None:
    try:
        spec = load(spec_with(place), variables={"v": value}).spec
    except SpecProblems:
        return
    assert (spec.name, list(spec.roles), spec.args) == ("a", ["worker"], [])
    assert list(spec.env) == ["A"]
    read = PLACES[place]
    if read is not None:
        assert spec.env["A"] == read(value)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(["[x, {{ v }}]", "[x, '{{ v }}']", "[x, {{ v | tojson }}]"]), VALUES)
@example("[x, {{ v }}]", "a, b")
@example("[x, {{ v }}]", "[a, b]")
@example("[x, {{ v }}]", "a]\nenv: {B: 1}\nargs2: [b")
def test_in_a_list_a_value_is_one_item(place: str, value: str) -> None:
    text = f"name: a\ncommand: [x]\nargs: {place}\nroles: {{worker: {{}}}}\n"
    try:
        spec = load(text, variables={"v": value}).spec
    except SpecProblems:
        return
    assert spec.env == {}
    assert len(spec.args) == 2 and spec.args[1].strip(" \t") == value.strip(" \t")


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "4",
            "-1",
            "1e-3",
            "two words",
            "/a/b c",
            "http://host:80/x#y",
            "a=b",
            "me@host",
            "x:y",
        ),
        *("50%", "~/x", "a,b", "it's", 'say "x"', "(a)", "$HOME", "a*b", "é", "C:\\dir", "a - b"),
    ],
)
def test_common_values_are_taken_as_they_are(value: str) -> None:
    assert load(
        spec_with("A: {{ v | default('') | string }}x"), variables={"v": value}
    ).spec.env == {"A": f"{value}x"}


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("A: {{ v }}", "x\nenv: {B: 1}", "has a line end"),
        ("A: {{ v }}", "b: c", 'has ": " in it'),
        ("A: {{ v }}", "b #c", 'has " #" in it'),
        ("A: {{ v }}", "[b]", "has [ in it"),
        ("A: {{ v }}", "*b", "has * in it"),
        ('A: "{{ v }}"', 'say "b"', 'has " in it'),
        ("{{ v }}: 1", "<<", "would not read it"),
    ],
)
def test_what_is_said_about_such_a_value(place: str, value: str, words: str) -> None:
    said = report(spec_with(place), variables={"v": value})
    assert said.startswith('error: the variable "v" ') and words in said
    assert "  --> cluster.yaml:5:" in said
    assert "hint: write {{ … | tojson }}" in said
    # It may be a secret.
    assert value not in said


def test_environment_variables_are_values_too() -> None:
    text = spec_with('A: {{ env("SOME") }}')
    assert problems(text, environ={"SOME": "x\nenv: {}"}) == [
        "5:6 the environment variable SOME has a line end: YAML would not read it as one value here"
    ]
    assert load(text, environ={"SOME": "x"}).spec.env == {"A": "x"}


def test_what_the_template_itself_writes_may_be_structure() -> None:
    text = (
        "name: a\ncommand: [x]\n"
        "{% macro role(name, n) %}{{ name }}: {replicas: {{ n }}}{% endmacro %}\n"
        "{% set more %}env: {A: {{ v }}}{% endset %}\n"
        "roles:\n  {{ role('worker', n) }}\n  {{ role('other', n) | trim | indent(2) }}\n"
        "{{ more }}\n"
        "{{ 'workdir: ' ~ v }}\n"
        "args: {{ v.split('-') | tojson }}\n"
    )
    spec = load(text, variables={"n": "2", "v": "b-c"}).spec
    assert {name: role.replicas for name, role in spec.roles.items()} == {"worker": 2, "other": 2}
    assert (spec.env, spec.workdir, spec.args) == ({"A": "b-c"}, "b-c", ["b", "c"])
