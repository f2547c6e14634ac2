"""From a file to a spec: templates, YAML, places of mistakes, secrets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.specs import SETTINGS, SMALL, load, problems, report
from tfcluster.errors import MissingFile, SpecProblems, UsageError
from tfcluster.spec import train
from tfcluster.spec.loader import load_spec

ROLES = "train: {}\nroles: {worker: {}}\n"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "SETTINGS_PATH", SETTINGS)


# -- Files -------------------------------------------------------------------------------------


def test_loads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    loaded = load_spec(path, backend="docker")
    assert (loaded.spec.name, loaded.spec.backend, loaded.path) == ("small", "docker", path)
    assert loaded.source == SMALL


def test_a_missing_file_leads_to_init(tmp_path: Path) -> None:
    with pytest.raises(MissingFile) as caught:
        load_spec(tmp_path / "cluster.yaml")
    assert caught.value.exit_code == 3
    assert "tfcluster init" in (caught.value.hint or "")


def test_a_folder_is_not_a_spec(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(SMALL)
    with pytest.raises(UsageError, match="is a folder") as caught:
        load_spec(tmp_path)
    assert str(tmp_path / "cluster.yaml") in (caught.value.hint or "")


def test_a_file_that_is_not_utf8_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes("name: a\nenv: {A: é".encode("latin-1"))
    with pytest.raises(SpecProblems) as caught:
        load_spec(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (2, 10)
    assert "not UTF-8: byte 0xe9" in problem.message


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(SpecProblems, match="1 problem") as caught:
        load_spec(path)
    assert "larger than 1 MiB" in caught.value.text()


def test_loading_is_imported_late() -> None:
    """`tfcluster --help` imports the loader's module, and must not pay for what it uses."""
    code = (
        "import sys, tfcluster.spec.loader, tfcluster.errors;"
        "assert not {'pydantic', 'jinja2', 'ruamel.yaml'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# -- Templates ---------------------------------------------------------------------------------


def test_variables_and_environment_fill_the_template() -> None:
    text = 'name: {{ job }}\nenv: {A: {{ env("A") }}, B: {{ env("B", "b") }}}\n' + ROLES
    spec = load(text, variables={"job": "mine"}, environ={"A": "a"}).spec
    assert (spec.name, spec.env) == ("mine", {"A": "a", "B": "b"})


def test_only_named_variables_can_be_read() -> None:
    assert "not defined" in report("name: {{ environ }}\n" + ROLES, environ={"A": "a"})


def test_every_missing_name_is_told_at_once() -> None:
    text = "name: {{ a }}\nenv: {A: {{ b }}, C: {{ env('C') }}}\n" + ROLES
    assert problems(text, environ={}) == [
        '1:10 the variable "a" is not defined',
        '2:13 the variable "b" is not defined',
        "2:30 the environment variable C is not set",
    ]


def test_an_undefined_name_is_compared_with_the_given_ones() -> None:
    text = "name: {{ wrokers }}{{ workers }}\n" + ROLES
    assert 'did you mean "workers"?' in report(text, variables={"workers": "2"})


def test_a_variable_that_nothing_uses_is_a_mistake() -> None:
    text = "name: a\nroles: {worker: {replicas: {{ workers | default(1) }}}}\ntrain: {}"
    said = report(text, variables={"wrokers": "4"})
    assert '--var wrokers: the template has no variable "wrokers"' in said
    assert 'did you mean "workers"?' in said


def test_text_that_the_template_looks_at_is_not_changed_by_marks() -> None:
    text = (
        "{% set x %}a\nb{% endset %}{% macro m() %}c\nd{% endmacro %}\n"
        '{{ "name: good" if x == "a\\nb" and m() == "c\\nd" and x | length == 3 else "no" }}\n'
        "{% filter upper %}# e\n{% endfilter %}\n"
    )
    assert load(text + ROLES).spec.name == "good"


def test_values_with_tojson_come_through_unchanged() -> None:
    value = "a: {b}\n- 'c' \"d\" # e \u2028 \ue000 \x7f \U0001f600 {{ f }}"
    spec = load("name: a\nenv: {A: {{ v | tojson }}}\n" + ROLES, variables={"v": value}).spec
    assert spec.env["A"] == value


def test_int_refuses_what_is_no_number() -> None:
    text = "name: a\ntrain: {epochs: {{ n | int }}}\nroles: {worker: }"
    assert problems(text, variables={"n": "two"}) == ['2:1 "two" is not an integer']
    assert load(text, variables={"n": "3"}).spec.train.flags() == ["--epochs", "3"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 10**9 }}",
        "{{ [1] * 10**9 }}",
        "{{ 10 ** 10 ** 10 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ 'x'.ljust(999999999) }}",
        "{{ 'x' | center(999999999) }}",
        "{{ 'x' | indent(999999999) }}",
        "{{ (1).to_bytes(999999999, 'big') }}",
        "{{ lipsum(999999999) }}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        "{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{% set n = namespace(x='xx') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}"
        "{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}"
        "{% endfor %}{{ n.x | tojson }}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(99) }}",
        "{% for x in [1, 1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ env.__globals__ }}",
        "{{ range.__self__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'x' as y %}",
        "{{ x",
        "{% for %}",
        "{{ 1 / 0 }}",
        "{{ [1] }}",
        "{{ " + "(" * 5000 + " }}",
        "{{ 1 }}" * 5001,
    ],
)
def test_a_template_cannot_get_out_or_run_away(template: str) -> None:
    (problem,) = problems("name: a\n" + template)
    assert "is not defined" not in problem or "lipsum" in template


# -- Places ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\nBAD: 1\n", "2:1"),
        ("{% if true %}\na: 1\n{% endif %}\nBAD: 1\n", "4:1"),
        ("{% for i in range(3) %}\n# {{ i }}\n{% endfor %}\nBAD: 1\n", "4:1"),
        ("{%- if true -%}\n\n\na: 1\n{%- endif %}\n\nBAD: 1\n", "7:1"),
        ("a: {{ 1 }}\nBAD: 1\n", "2:1"),
        ("{{ 'a' }}: 1\n{{ 'BAD' }}: 1\n", "2:1"),
        ("a: {{ 'long' * 9 }}\n\n{# {{ no }} #}\nBAD: 1\n", "4:1"),
        ("{% macro m() %}\nb: 1\nc: 1\n{% endmacro %}\n{{ m() }}\nBAD: 1\n", "6:1"),
        ("{% set x %}\n1\n{% endset %}\na: 1\nBAD: 1\n", "5:1"),
        ("{% raw %}\na: '{{ b }}'\n{% endraw %}\nBAD: 1\n", "4:1"),
        ("{% filter lower %}\nA: 1\nB: 1\n{% endfilter %}\nBAD: 1\n", "5:1"),
        ("a: |\n  x\n  y\nBAD: 1\n", "4:1"),
        ("{a: {{ 'long' * 3 }}, BAD: 1}\n", "1:23"),
        ("{% if true %}{a: 1, BAD: {{ 2 }}}{% endif %}\n", "1:21"),
    ],
)
def test_places_are_those_of_the_template(text: str, place: str) -> None:
    assert f'{place} unknown key "BAD"' in problems(text)


def test_a_value_from_an_expression_is_shown_as_the_expression() -> None:
    text = "name: a\ntrain: {}\nroles: {worker: {replicas: {{ n }}, gpus: -1}}\n"
    said = report(text, variables={"n": "two"})
    assert (
        'error: roles.worker.replicas: expected an integer, got "two"\n'
        "  --> cluster.yaml:3:28\n"
        "3 | roles: {worker: {replicas: {{ n }}, gpus: -1}}\n"
        "  |                            ^^^^^^^\n"
    ) in said
    assert (
        "  --> cluster.yaml:3:43\n"
        "3 | roles: {worker: {replicas: {{ n }}, gpus: -1}}\n"
        "  |                                           ^^"
    ) in said


def test_a_problem_reads_as_documented() -> None:
    text = "name: a\ntrain: {}\nroles:\n  worker:\n    replica: 2\n"
    assert report(text) == (
        'error: unknown key "replica"\n'
        "  --> cluster.yaml:5:5\n"
        "5 |     replica: 2\n"
        "  |     ^^^^^^^\n"
        'hint: did you mean "replicas"?'
    )


def test_a_long_line_is_cut_around_the_place() -> None:
    said = report("name: a\nenv: {A: " + "x" * 300 + ", B: true, C: " + "y" * 300 + "}\n" + ROLES)
    snippet = said.split("\n")[2:4]
    assert len(snippet[0]) < 120
    assert snippet[0][snippet[1].index("^") :].startswith("true")


# -- YAML --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "cluster.yaml: the file is empty"),
        ("# only a comment\n", "cluster.yaml: the file is empty"),
        ("- a\n", "cluster.yaml: a spec is a mapping, with keys such as name and roles"),
        ("a: 1\na: 2\n", '2:1 the key "a" is here twice (first on line 1)'),
        ("a: 1\n---\nb: 2\n", "2:1 a spec is one YAML document, and here a second one starts"),
        ("a: !x 1\n", '1:4 the YAML tag "!x" is not allowed'),
        ("a: !!python/name:os.system x\n", '1:4 the YAML tag "!!python/name:os.system" is not'),
        ("a: &a [*a]\n", '1:8 the alias "*a" contains itself'),
        ("a: *b\n", '1:4 the alias "*b" is not defined above'),
        ("a:\n\t- b\n", "2:1 a tab cannot be used for indentation"),
        ("a: b: c\n", "1:5 YAML: mapping values are not allowed here"),
        ("1: a\n", "1:1 the key 1 is not a string"),
        ("[a]: b\n", "1:1 a key must be a string, not a list or a mapping"),
        ("a: " + "[" * 60 + "]" * 60, "1:54 nested more than 50 levels deep"),
        ("a: " + "9" * 5000, "1:4 this number has too many digits"),
        ("a: " + "9" * 50_000, "1:4 this number has too many digits"),
        ("a: \x01\n", "1:4 the character U+0001 is not allowed"),
        ("a: '\n", "1:4 a quote (') is opened here and never closed"),
    ],
)
def test_yaml_mistakes_have_a_place(text: str, expected: str) -> None:
    assert any(problem.startswith(expected) for problem in problems(text)), problems(text)


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    (problem,) = problems("\n".join(lines))
    assert "more than 10,000 values, with aliases written out" in problem


def test_merge_keys_work() -> None:
    text = "name: a\nenv: &e {A: x, B: y}\ntrain: {}\n"
    spec = load(text + "roles: {worker: {env: {<<: *e, B: z}}}").spec
    assert spec.roles["worker"].env == {"B": "z", "A": "x"}


# -- Secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        "env: {WANDB_TOKEN: [hunter2]}",
        "env:\n  API_KEY: {a: hunter2}",
        "env:\n  DB_PASSWORD: |\n    hunter2\n\t x",
        'env: {"my_secret": "hunter2", B: true}',
        "env:\n  PASSWORD: hunter2\n  PASSWORD: hunter2",
        "env: {A_TOKEN: hunter2, : }",
        "env: {A_TOKEN:\n  hunter2: [}",
    ],
)
def test_secrets_are_not_shown(lines: str) -> None:
    said = report(SMALL + lines + "\n")
    assert said
    assert "hunter2" not in said


def test_a_secrets_name_is_shown() -> None:
    assert "secret: 3" in report(SMALL + "env_from: [{secret: 3}]\n")


def test_a_secret_given_by_set_is_not_shown() -> None:
    said = report(SMALL, overrides=["roles.worker.env.API_TOKEN.x=hunter2", "env.1TOKEN=hunter2"])
    assert said
    assert "hunter2" not in said


def test_the_kept_spec_is_yaml_without_secrets() -> None:
    text = SMALL + "env: {A_TOKEN: hunter2, B: 'no', C: \"a\\nb: c\"}\n"
    kept = load(text).masked_yaml()
    assert "hunter2" not in kept
    again = load(kept).spec
    assert again.env == {"A_TOKEN": "***", "B": "no", "C": "a\nb: c"}


# -- Too much ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count", "first"),
    [
        ("name: a\ncommand: [x]\nroles: {worker: {}}\n" + "x: 1\n" * 4000, 4000, "4:1 unknown key"),
        (
            "name: a\ncommand: [x]\nroles: {worker: {}}\n"
            + "".join(f"key{n}: 1\n" for n in range(4000)),
            4000,
            '4:1 unknown key "key0"',
        ),
        ("name: a\ncommand:\n" + "- true\n" * 9000 + ROLES, 9000, "3:3 command[0]: expected a"),
        ("name: a\nargs: [" + "}" * 5000, 1, "2:8 YAML"),
    ],
)
def test_very_many_problems_are_counted_and_the_first_ones_told(
    text: str, count: int, first: str
) -> None:
    with pytest.raises(SpecProblems) as caught:
        load(text)
    assert caught.value.message.startswith(f"{count:,} problem")
    assert min(20, count) <= len(caught.value.problems) <= 250
    assert problems(text)[0].startswith(first)


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (
            "worker: {replicas: 1000000}",
            "roles.worker.replicas: must be at most 10000, got 1000000",
        ),
        ("a: {replicas: 9999}, b: {replicas: 9999}, c: {replicas: 9999}", "29,997 tasks in all"),
        (", ".join(f"r{n}x: {{replicas: 10000}}" for n in range(2000)), "2,000 roles, at most 100"),
    ],
)
def test_a_job_has_so_many_tasks_and_no_more(roles: str, said: str) -> None:
    assert said in report(f"name: a\ncommand: [x]\nroles: {{{roles}}}\n")
