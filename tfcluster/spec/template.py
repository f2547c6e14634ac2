"""From a spec's template to YAML text, with every output place traced to its source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

from jinja2 import TemplateSyntaxError, UndefinedError, meta, nodes
from jinja2.exceptions import SecurityError

from tfcluster.similar import did_you_mean
from tfcluster.spec.places import Mistake, Span
from tfcluster.spec.template_marks import (
    MARK_CLOSE,
    MARK_OPEN,
    Rendered,
    mark_tree,
    take_marks_out,
    unmarked_length,
)
from tfcluster.spec.template_sandbox import (
    MAX_TEXT,
    MissingVariable,
    SpecEnvironment,
    TemplateRefused,
    guard_tree,
)

MAX_TAGS = 5_000
_MAX_MISSING = 20
_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class TemplateMistakes(Exception):
    """The template cannot be rendered; `mistakes` has at least one entry."""

    def __init__(self, mistakes: list[Mistake]):
        super().__init__(mistakes[0].message)
        self.mistakes = mistakes


@dataclass(frozen=True)
class _Failure:
    mistake: Mistake
    variable: str | None = None
    environment: str | None = None


def render_template(
    source: str, variables: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> Rendered:
    """The template's output; TemplateMistakes names every variable that is missing."""
    _check_source(source)
    given: dict[str, str] = dict(variables)
    surroundings = dict(os.environ if environ is None else environ)
    mistakes: list[Mistake] = []
    for _ in range(_MAX_MISSING):
        outcome = _render_once(source, given, surroundings)
        if isinstance(outcome, Rendered):
            if mistakes:
                break
            return outcome
        missing = outcome.variable or outcome.environment
        if missing is None:
            # After a stand-in value, only further missing names are the person's own mistakes.
            mistakes = mistakes or [outcome.mistake]
            break
        mistakes.append(outcome.mistake)
        (given if outcome.variable else surroundings)[missing] = "1"
    raise TemplateMistakes(mistakes)


def unused_variables(source: str, variables: Mapping[str, str]) -> list[Mistake]:
    """A mistake for every given variable that the template never looks at."""
    used = meta.find_undeclared_variables(SpecEnvironment({}).parse(source)) - {"env"}
    return [
        Mistake(
            f'--var {name}: the template has no variable "{name}"',
            hint=did_you_mean(name, used) or _known_variables(used),
        )
        for name in variables
        if name not in used
    ]


def _known_variables(used: set[str]) -> str:
    if not used:
        return "the template has no variables at all"
    return f"it has {', '.join(sorted(used))}"


def _check_source(source: str) -> None:
    """Refuses sources that cannot be marked, or that would take minutes to compile."""
    if source.count("{{") + source.count("{%") > MAX_TAGS:
        message = f"a template cannot have more than {MAX_TAGS:,} {{{{ … }}}} and {{% … %}}"
        raise TemplateMistakes([Mistake(message)])
    for char in (MARK_OPEN, MARK_CLOSE):
        offset = source.find(char)
        if offset >= 0:
            message = f"the character U+{ord(char):04X} cannot be used in a spec"
            raise TemplateMistakes([Mistake(message, Span(offset, offset + 1))])


def _render_once(
    source: str, variables: Mapping[str, str], environ: Mapping[str, str]
) -> Rendered | _Failure:
    env = SpecEnvironment(environ)
    try:
        tree = env.parse(source)
        for node in tree.find_all(_OTHER_FILES):
            message = "a spec is one file: include, import and extends are not available"
            return _Failure(Mistake(message, line_span(source, node.lineno)))
        marks = mark_tree(env, tree, source)
        guard_tree(tree)
        chunks: list[str] = []
        size = 0
        for chunk in env.from_string(tree).generate(dict(variables)):
            size += unmarked_length(chunk)
            if size > MAX_TEXT:
                raise TemplateRefused(f"the output is larger than {MAX_TEXT // 2**20} MiB")
            env.spend(0)
            chunks.append(chunk)
    except Exception as error:
        return _failure(error, source, variables)
    rendered = take_marks_out("".join(chunks), marks, source)
    if MARK_OPEN in rendered.text or MARK_CLOSE in rendered.text:
        message = "a variable contains a character that cannot be used in a spec"
        return _Failure(Mistake(message, hint="write {{ … | tojson }} to insert any text"))
    return rendered


def _failure(error: Exception, source: str, variables: Mapping[str, str]) -> _Failure:
    """What an exception means to the template's author."""
    lineno = error.lineno if isinstance(error, TemplateSyntaxError) else _template_line(error)
    span = line_span(source, lineno) if lineno else None
    if isinstance(error, UndefinedError):
        return _undefined(error, source, lineno, span, variables)
    if isinstance(error, MissingVariable):
        place = _word_span(source, lineno, error.name, quoted=True) or span
        return _Failure(Mistake(str(error), place, error.hint), environment=error.name)
    if isinstance(error, TemplateRefused):
        return _Failure(Mistake(str(error), span, error.hint))
    if isinstance(error, TemplateSyntaxError):
        return _Failure(Mistake(f"template: {_sentence(error)}", span, _syntax_hint(error)))
    if isinstance(error, SecurityError):
        hint = "use a filter instead, such as {{ name | replace(…) }}"
        return _Failure(Mistake(f"template: {_sentence(error)}", span, hint))
    if isinstance(error, RecursionError):
        return _Failure(Mistake("template: it is nested too deeply", span))
    return _Failure(Mistake(f"template: {_sentence(error)}", span))


def _undefined(
    error: UndefinedError,
    source: str,
    lineno: int | None,
    span: Span | None,
    variables: Mapping[str, str],
) -> _Failure:
    match = re.fullmatch(r"'(\w+)' is undefined", error.message or "")
    if match is None:
        return _Failure(Mistake(f"template: {_sentence(error)}", span))
    name = match[1]
    hint = did_you_mean(name, {*variables, "env", "range"}) or (
        f"give it with --var {name}=VALUE, or a default: {{{{ {name} | default(…) }}}}"
    )
    place = _word_span(source, lineno, name) or span
    return _Failure(Mistake(f'the variable "{name}" is not defined', place, hint), name)


def _sentence(error: Exception) -> str:
    text = error.message if isinstance(error, TemplateSyntaxError) else str(error)
    return (text or type(error).__name__).split("\n")[0].rstrip(".")


def _syntax_hint(error: TemplateSyntaxError) -> str | None:
    match = re.match(r"No filter named '(\w+)'", error.message or "")
    if match is None:
        return None
    known = [name for name in SpecEnvironment({}).filters if " " not in name]
    return did_you_mean(match[1], known) or f"there are {', '.join(sorted(known))}"


def _template_line(error: BaseException) -> int | None:
    """The template's line that raised; Jinja2 has put it into the traceback."""
    lines = [
        trace.tb_lineno
        for trace in _traces(error.__traceback__)
        if "__jinja_exception__" in trace.tb_frame.f_globals
        or trace.tb_frame.f_code.co_filename == "<template>"
    ]
    return lines[-1] if lines else None


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def line_span(source: str, lineno: int) -> Span:
    """The text of a line, without the white space around it."""
    lines = source.split("\n")
    lineno = max(1, min(lineno, len(lines)))
    start = sum(len(line) + 1 for line in lines[: lineno - 1])
    line = lines[lineno - 1]
    return Span(start + len(line) - len(line.lstrip()), start + max(1, len(line.rstrip())))


def _word_span(source: str, lineno: int | None, word: str, *, quoted: bool = False) -> Span | None:
    """Where the word is on its line; `quoted` asks for it in quotes."""
    if lineno is None:
        return None
    before, after = ("(?<=[\"'])", "(?=[\"'])") if quoted else (r"\b", r"\b")
    start = line_span(source, lineno).start
    end = source.find("\n", start)
    match = re.compile(before + re.escape(word) + after).search(
        source, start, end if end >= 0 else len(source)
    )
    return Span(match.start(), match.end()) if match else None
