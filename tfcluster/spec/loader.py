"""Loads a spec: template, YAML, overrides, validation; every problem at once, with its place.

Cheap to import: what it needs is imported when a spec is loaded.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcluster.errors import MissingFile, Problem, SpecProblems, UsageError

if TYPE_CHECKING:
    from tfcluster.spec.findings import Finding
    from tfcluster.spec.model import JobSpec
    from tfcluster.spec.overrides import Edited
    from tfcluster.spec.places import Mistake, Span
    from tfcluster.spec.rendered import Rendered
    from tfcluster.spec.yamldata import YamlData

MAX_BYTES = 2**20
MOST_PROBLEMS = 100  # that are worked out; more are only counted
_NO_VARIABLES: Mapping[str, str] = {}


@dataclass(frozen=True)
class LoadedSpec:
    """A spec that is valid, with where it came from."""

    spec: JobSpec
    path: Path | None
    source: str
    variables: dict[str, str]
    warnings: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    @property
    def base(self) -> Path:
        """What relative paths in the spec are relative to: its folder."""
        return self.path.resolve().parent if self.path else Path.cwd()

    def masked_yaml(self) -> str:
        """The spec as understood, as YAML, with secrets masked: fit to be kept."""
        from tfcluster.redaction import redacted
        from tfcluster.spec.yamldata import write_yaml

        return write_yaml(redacted(self.spec.model_dump(mode="json", exclude_unset=True)))


def load_spec(
    path: Path,
    *,
    variables: Mapping[str, str] = _NO_VARIABLES,
    overrides: Sequence[str] = (),
    backend: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedSpec:
    """Loads the spec in a file.

    Raises MissingFile if there is none, and SpecProblems with every problem it has.
    """
    loaded = load_spec_text(
        _read(path),
        name=str(path),
        variables=variables,
        overrides=overrides,
        backend=backend,
        environ=environ,
    )
    return dataclasses.replace(loaded, path=path, overrides=tuple(overrides))


def load_spec_text(
    text: str,
    *,
    name: str = "cluster.yaml",
    variables: Mapping[str, str] = _NO_VARIABLES,
    overrides: Sequence[str] = (),
    backend: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedSpec:
    """Loads a spec from its text; `name` is what problems call it."""
    from tfcluster.spec.checks import warnings_of
    from tfcluster.spec.model import json_schema
    from tfcluster.spec.overrides import apply_overrides
    from tfcluster.spec.validation import validate_spec

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    rendered, problems = _render(text, name, variables, environ)
    document = _parse(rendered, name)
    places = _Places(rendered, document, name)
    problems += [places.problem(mistake) for mistake in document.mistakes[:MOST_PROBLEMS]]
    if overrides or backend is not None:
        schema = json_schema() if overrides else {}
        edited = apply_overrides(document.data, overrides, backend, schema)
    else:
        edited = _unedited(document.data)
    verdict = validate_spec(edited.data)
    # One place, one message: a tag that is refused need not be called a wrong type as well.
    known = {(p.line, p.column) for p in problems if p.line is not None}
    findings = places.first(verdict.findings)
    found = [places.problem_of(finding, edited) for finding in findings]
    problems += edited.problems + [p for p in found if (p.line, p.column) not in known]
    if problems or verdict.spec is None:
        more = max(0, len(document.mistakes) - MOST_PROBLEMS)
        more += len(verdict.findings) - len(findings) + verdict.more
        raise SpecProblems(_sorted(problems), more)
    warnings = warnings_of(verdict.spec)
    return LoadedSpec(verdict.spec, None, text, dict(variables), warnings)


def _read(path: Path) -> str:
    """The file's text; refuses what cannot be a spec."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        hint = "run tfcluster init to write one, or name the file"
        raise MissingFile(f"there is no {path}", hint=hint) from None
    except IsADirectoryError:
        inside = path / "cluster.yaml"
        hint = f"did you mean {inside}?" if inside.is_file() else "name the file in it"
        raise UsageError(f"{path} is a folder, not a spec", hint=hint) from None
    except OSError as error:
        raise MissingFile(f"cannot read {path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise SpecProblems([Problem("a spec cannot be larger than 1 MiB", str(path))])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", "replace")
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        message = f"the file is not UTF-8: byte 0x{content[error.start]:02x}"
        hint = "save it as UTF-8"
        raise SpecProblems([Problem(message, str(path), line, column, hint=hint)]) from None


def _render(
    text: str, name: str, variables: Mapping[str, str], environ: Mapping[str, str] | None
) -> tuple[Rendered, list[Problem]]:
    from tfcluster.spec.places import problem_at
    from tfcluster.spec.rendered import Rendered

    if not variables and not any(tag in text for tag in ("{{", "{%", "{#")):
        return Rendered.literally(text), []
    from tfcluster.spec.template import TemplateMistakes, render_template, unused_variables

    problems = [
        Problem(f'--var: "{key}" cannot be a variable\'s name', hint="use letters, digits and _")
        for key in variables
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) or key in ("env", "range")
    ]
    try:
        rendered = render_template(text, variables, environ)
        unused = unused_variables(text, variables)
    except TemplateMistakes as error:
        problems += [problem_at(mistake, text, name) for mistake in error.mistakes]
        raise SpecProblems(_sorted(problems)) from None
    problems += [Problem(mistake.message, hint=mistake.hint) for mistake in unused]
    if rendered.values:
        from tfcluster.spec.data_values import check_values

        places = _Places(rendered, None, name)
        problems += [places.problem(mistake) for mistake in check_values(rendered)]
        if problems:
            raise SpecProblems(_sorted(problems))
    return rendered, problems


def _parse(rendered: Rendered, name: str) -> YamlData:
    from tfcluster.spec.yamldata import YamlMistake, read_yaml

    try:
        document = read_yaml(rendered.text)
    except YamlMistake as error:
        places = _Places(rendered, None, name)
        # The last one says why the text cannot be read any further.
        known = [*error.mistakes[:-1][:MOST_PROBLEMS], error.mistakes[-1]]
        problems = [places.problem(mistake) for mistake in known]
        raise SpecProblems(_sorted(problems), len(error.mistakes) - len(known)) from None
    if not isinstance(document.data, dict):
        message = "a spec is a mapping, with keys such as name and roles"
        raise SpecProblems([Problem(message, name, hint="tfcluster init writes one")])
    return document


def _unedited(data: dict[str, Any]) -> Edited:
    from tfcluster.spec.overrides import Edited

    return Edited(data)


def _sorted(problems: Sequence[Problem]) -> list[Problem]:
    """The file's problems from top to bottom, then those of flags."""
    unique = list(dict.fromkeys(problems))
    return sorted(
        unique, key=lambda p: (p.line is None and "--" in p.where, p.line or 0, p.column or 0)
    )


@dataclass(frozen=True)
class _Places:
    """Ties mistakes in the rendered text or the data to places of the source."""

    rendered: Rendered
    document: YamlData | None
    name: str

    def problem(self, mistake: Mistake) -> Problem:
        from tfcluster.spec.places import problem_at

        if mistake.span is not None:
            mistake = dataclasses.replace(mistake, span=self.rendered.origin(mistake.span))
        if mistake.first is not None:
            mistake = dataclasses.replace(mistake, first=self.rendered.origin(mistake.first))
        return problem_at(mistake, self.rendered.source, self.name)

    def problem_of(self, finding: Finding, edited: Edited) -> Problem:
        from tfcluster.spec.places import Mistake

        flag = edited.flag_of(finding.path)
        if flag is not None:
            return Problem(finding.message, flag, hint=finding.hint)
        return self.problem(Mistake(finding.message, self._span(finding), finding.hint))

    def first(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Those that are worth working out: the first of the file."""
        if len(findings) <= MOST_PROBLEMS:
            return findings

        def place(finding: Finding) -> int:
            span = self._span(finding)
            return span.start if span else -1

        return sorted(findings, key=place)[:MOST_PROBLEMS]

    def _span(self, finding: Finding) -> Span | None:
        """Where the finding's key or value was written, or the nearest thing around it."""
        if self.document is None:
            return None
        first, second = self.document.values, self.document.keys
        if finding.at == "key":
            first, second = second, first
        path = finding.path
        if path in first:
            return first[path]
        while path:
            if path in second:
                return second[path]
            path = path[:-1]
            first = second = self.document.keys
        return None
