"""Whatever a file contains: a spec or a clear refusal, never a crash, a leak or a hang."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.unit.specs import SETTINGS, SMALL, load
from tfcluster.errors import SpecProblems, TfclusterError
from tfcluster.spec import train
from tfcluster.spec.loader import load_spec_text

QUICK = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FRAGMENTS = st.sampled_from(
    [
        *("name: ", "roles: ", "train: ", "worker: ", "env: ", "replicas: ", "- ", ": ", ", "),
        *("{", "}", "[", "]", "{{", "}}", "{%", "%}", "{#", "#}", "-%}", "{%- ", '"', "'", "\\"),
        *("&a ", "*a ", "<<: ", "!x ", "!!str ", "# ", "---", "...", "%YAML 1.1", "? ", "| ", "> "),
        *("~", "null", "true", "0x", "1e999", ".nan", "2Gi", "1", "x", "range(9)", "for i in "),
        *("if ", "endif", "endfor", "raw", "endraw", "set x = ", "macro m()", "endmacro"),
        *('env("A")', "| tojson", " ", "  ", "\t", "\n", "\r", "\x00", "\x85", "\u2028"),
        *("\ue000", "\ue001", "\ufeff", "é", "\U0001f600"),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=25).map("".join)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "SETTINGS_PATH", SETTINGS)


def load_or_refuse(text: str, overrides: tuple[str, ...] = ()) -> None:
    """Loads; a refusal must be complete, and point into the file."""
    try:
        load_spec_text(text, overrides=overrides, environ={})
    except SpecProblems as error:
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert error.problems
        for problem in error.problems:
            assert problem.message and problem.place
            assert "\n" not in problem.message
            assert problem.line is None or 1 <= problem.line <= len(lines)
            if problem.line is not None and problem.column is not None:
                assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
    except TfclusterError as error:
        assert error.message


@QUICK
@given(TEXTS)
@example("{{ '\\ue000' ~ 99999 ~ '\\ue001' }}")
@example("{% set a %}{{ 1 }}{% endset %}{{ a }}")
@example("a: *b")
@example("token" * 20_000 + ": 1")
@example("a: " + "x_token " * 20_000 + "\tb: [")
def test_any_mixture_of_syntax_is_loaded_or_refused(text: str) -> None:
    load_or_refuse(text)


@QUICK
@given(ANY)
def test_any_text_is_loaded_or_refused(text: str) -> None:
    load_or_refuse(text)


@QUICK
@given(
    st.sampled_from(["roles", "train", "env", "args", "volumes", "docker", "shm", "success"]),
    VALUES,
)
def test_any_value_under_any_key_is_loaded_or_refused(key: str, value: object) -> None:
    from tfcluster.spec.template_filters import as_json

    load_or_refuse(f"name: a\n{key}: {{% raw %}}{as_json(value)}{{% endraw %}}\n")


@QUICK
@given(ANY)
@example("null")
@example("{{ x }}\n- 'a': \"b\" # c")
def test_a_hostile_value_by_set_arrives_as_it_is(value: str) -> None:
    if value == "null" or "\0" in value:
        return
    assert load(SMALL, overrides=[f"env.A={value}"]).spec.env["A"] == value


@QUICK
@given(ANY, ANY)
def test_any_set_is_applied_or_refused(key: str, value: str) -> None:
    load_or_refuse(SMALL, (f"{key}={value}", f"roles.{key}={value}", value))


@QUICK
@given(ANY)
@example("x\nroles: {evil: {}}")
@example("\ue0005\ue001")
def test_a_hostile_variable_through_tojson_stays_one_value(value: str) -> None:
    if "\0" in value:
        return
    text = "name: a\nenv: {A: {{ v | tojson }}}\ntrain: {}\nroles: {worker: {}}\n"
    spec = load(text, variables={"v": value}).spec
    assert (spec.env, list(spec.roles)) == ({"A": value}, ["worker"])


@QUICK
@given(ANY.filter(lambda text: len(text) > 5 and text.isalnum() and text.isascii()))
def test_a_secret_is_never_in_what_is_said(secret: str) -> None:
    text = f"name: B\nenv:\n  MY_TOKEN: [{secret}zz]\n  B: true\nroles: {{worker: x}}\n"
    with pytest.raises(SpecProblems) as caught:
        load(text, overrides=[f"roles.worker.env.X_PASSWORD.y={secret}zz"])
    assert f"{secret}zz" not in caught.value.text()


@QUICK
@given(st.text("ab\n {}%#-", max_size=60), st.integers(0, 3))
def test_literal_text_renders_as_itself(text: str, blank: int) -> None:
    """The marks that trace places leave no trace of their own."""
    from jinja2 import TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    from tfcluster.spec.template import TemplateMistakes, render_template

    text = "\n" * blank + text
    plain = SandboxedEnvironment(lstrip_blocks=True, keep_trailing_newline=True)
    try:
        expected = plain.from_string(text).render()
    except (TemplateError, TypeError):
        return
    try:
        rendered = render_template(text, {}, {})
    except TemplateMistakes:
        return
    assert rendered.text == expected
