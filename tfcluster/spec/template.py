"""From a spec's template to YAML text, with every output place traced to its source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

from jinja2 import Template, TemplateSyntaxError, UndefinedError, meta, nodes
from jinja2.exceptions import SecurityError

from tfcluster.similar import did_you_mean
from tfcluster.spec.places import Mistake, Span
from tfcluster.spec.rendered import Rendered
from tfcluster.spec.template_child import Exhausted, bounded
from tfcluster.spec.template_filters import MAX_TEXT
from tfcluster.spec.template_marks import (
    RESERVED,
    Marks,
    mark_tree,
    take_marks_out,
    unmarked_length,
)
from tfcluster.spec.template_sandbox import MissingVariable, SpecEnvironment, guard_tree
from tfcluster.spec.template_simple import is_simple
from tfcluster.spec.template_values import TemplateRefused, given
from tfcluster.spec.unclosed import unclosed_tag

MAX_TAGS = 5_000
_MAX_MISSING = 20
_TOO_MUCH = "a spec describes replicas with a number, it need not loop over them"
_REFUSED: dict[type[nodes.Node], str] = {
    **dict.fromkeys(
        (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends),
        "a spec is one file: include, import and extends are not available",
    ),
    nodes.ScopedEvalContextModifier: "autoescape is for HTML, and a spec is YAML",
}


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
    surroundings = dict(os.environ if environ is None else environ)
    if is_simple(source):
        outcome = _render(source, variables, surroundings)
    else:
        try:
            outcome = bounded(lambda: _render(source, variables, surroundings))
        except Exhausted as error:
            outcome = [_exhausted(error, source)]
    if isinstance(outcome, Rendered):
        return outcome
    raise TemplateMistakes(outcome)


def _render(
    source: str, variables: Mapping[str, str], environ: dict[str, str]
) -> Rendered | list[Mistake]:
    """The output, or every variable that is missing, or whatever else is wrong."""
    values = {name: given(text, f'the variable "{name}"') for name, text in variables.items()}
    mistakes: list[Mistake] = []
    for _ in range(_MAX_MISSING):
        outcome = _render_once(source, values, environ)
        if isinstance(outcome, Rendered):
            return mistakes or outcome
        missing = outcome.variable or outcome.environment
        if missing is None:
            # After a stand-in value, only further missing names are the person's own mistakes.
            return mistakes or [outcome.mistake]
        mistakes.append(outcome.mistake)
        (values if outcome.variable else environ)[missing] = "1"
    return mistakes


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
    found = RESERVED.search(source)
    if found is not None:
        message = f"the character U+{ord(found[0]):04X} cannot be used in a template"
        raise TemplateMistakes([Mistake(message, Span(*found.span()))])


def _render_once(
    source: str, variables: Mapping[str, str], environ: Mapping[str, str]
) -> Rendered | _Failure:
    env = SpecEnvironment(environ)
    try:
        template, marks = _compile(env, source)
        chunks: list[str] = []
        size = 0
        for chunk in template.generate(dict(variables)):
            size += unmarked_length(chunk)
            if size > MAX_TEXT:
                raise TemplateRefused(f"the output is larger than {MAX_TEXT // 2**20} MiB")
            env.spend(0)
            chunks.append(chunk)
    except Exception as error:
        return _failure(error, source, variables)
    return take_marks_out("".join(chunks), marks, source, env.printer.printed)


def _compile(env: SpecEnvironment, source: str) -> tuple[Template, Marks]:
    tree = env.parse(source)
    for node in tree.find_all(tuple(_REFUSED)):
        raise TemplateSyntaxError(_REFUSED[type(node)], node.lineno)
    marks = mark_tree(env, tree, source)
    guard_tree(tree)
    return env.from_string(tree), marks


def _exhausted(error: Exhausted, source: str) -> Mistake:
    """What to say of a template that had to be ended, with its line if that is known."""
    span = None
    if error.line is not None:
        # It came as far as running, so that compiling it once more is cheap.
        template, _ = _compile(SpecEnvironment({}), source)
        span = line_span(source, template.get_corresponding_lineno(error.line))
    return Mistake(f"the template does too much work: {error}", span, _TOO_MUCH)


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
        unclosed = unclosed_tag(source, error.lineno)
        if unclosed is not None:
            return _Failure(unclosed)
        return _Failure(Mistake(f"template: {_sentence(error)}", span, _syntax_hint(error)))
    if isinstance(error, SecurityError):
        hint = "use a filter instead, such as {{ name | replace(…) }}"
        return _Failure(Mistake(f"template: {_sentence(error)}", span, hint))
    if isinstance(error, MemoryError):
        message = f"the template does too much work: {Exhausted.memory()}"
        return _Failure(Mistake(message, span, _TOO_MUCH))
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
