"""The environment chat templates run in: what transformers gives them, with strings that remember their origin.

transformers renders in an immutable sandbox with `trim_blocks`, `lstrip_blocks`, loop controls, its own `tojson`,
`raise_exception`, `strftime_now` and a `{% generation %}` block. The same is built here, and on top of it:

1. every string constant of the template is compiled as a Traced string of origin TEMPLATE;
2. wherever Jinja joins strings (macros, set blocks, `~`, the join filter) the parts are joined too;
3. loops print marks (loops.py), and each generation block one at both ends.

The rendered text is the same to the byte; the tests compare it with transformers'. What would differ from run to run is
not: `strftime_now` tells the run's date, and templates that use `random` or `lipsum` are refused.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import CodeType
from typing import Any

from jinja2 import Template, nodes, pass_eval_context
from jinja2.compiler import CodeGenerator, Frame, operators
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from packtool.render.chat.loops import MARK_FILTERS, LoopMarks, mark
from packtool.render.chat.provenance import Origin, Traced, concat, written

__all__ = ["ChatEnvironment", "Compiled", "compile_template"]


class _Generator(CodeGenerator):
    """Writes string constants as names of Traced strings."""

    environment: "ChatEnvironment"

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return self.environment.constant("".join(group))

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802  Jinja's name
        self.write(self._literal(node.as_const(frame.eval_ctx)))

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802  Jinja's name
        # A key cannot reach the output, and a plain one is found faster.
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            self.write("environment.getitem(")
            self.visit(node.node, frame)
            self.write(f", {node.arg.value!r})")
        else:
            super().visit_Getitem(node, frame)

    def visit_Operand(self, node: nodes.Operand, frame: Frame) -> None:  # noqa: N802  Jinja's name
        # What a value is compared with cannot reach the output either.
        if isinstance(node.expr, nodes.Const):
            self.write(f" {operators[node.op]} {node.expr.value!r}")
        else:
            super().visit_Operand(node, frame)

    def _literal(self, value: Any) -> str:
        # Jinja folds constant lists and dicts as a whole.
        match value:
            case str() if type(value) is str:  # not a Markup
                return self.environment.constant(value)
            case list():
                return f"[{', '.join(map(self._literal, value))}]"
            case tuple():
                return f"({''.join(f'{self._literal(item)}, ' for item in value)})"
            case dict():
                return f"{{{', '.join(f'{self._literal(k)}: {self._literal(v)}' for k, v in value.items())}}}"
            case _:
                return repr(value)


class _Generation(Extension):
    """`{% generation %} ... {% endgeneration %}`: what is inside is trained."""

    tags = {"generation"}  # noqa: RUF012  Jinja declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        if isinstance(self.environment, ChatEnvironment):
            self.environment.has_marks = True
        return nodes.CallBlock(self.call_method("enclose"), [], [], body).set_lineno(line)

    def enclose(self, caller: Any) -> Traced:
        return concat((_OPEN, caller(), _CLOSE))


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """One for each template: it holds the template's constants.

    Attributes:
        constants: name in the compiled code -> string.
        has_marks: a generation block was parsed.
    """

    code_generator_class = _Generator
    concat = staticmethod(concat)

    def __init__(self, now: datetime) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.constants: dict[str, Traced] = {}
        self.has_marks = False
        self._names: dict[str, str] = {}
        self.filters |= {"tojson": _tojson, "join": _join, **MARK_FILTERS}
        self.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": _clock(now),
            "dict": _TemplateDict(),
            "namespace": _TemplateNamespace,
        }
        # Other text in every run, and Jinja has no seed for them.
        del self.filters["random"], self.globals["lipsum"]

    def constant(self, text: str) -> str:
        """The name of a string constant in the compiled code."""
        name = self._names.setdefault(text, f"constant_{len(self._names)}")
        self.constants[name] = written(text)
        return name


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled template.

    Attributes:
        template: what to run.
        has_marks: it has generation blocks.
        uses_date: it names `strftime_now`.
    """

    template: Template
    has_marks: bool
    uses_date: bool


def compile_template(source: str, now: datetime) -> Compiled:
    """Compile; raises what Jinja raises, and TemplateSyntaxError for what would make every run differ."""
    environment = ChatEnvironment(now)
    tree = environment.parse(source)
    names = {name.name: name.lineno for name in tree.find_all(nodes.Name)}
    filters = {node.name: node.lineno for node in tree.find_all(nodes.Filter)}
    for used, name in ((filters, "random"), (names, "lipsum")):
        if name in used:
            raise TemplateSyntaxError(f"uses `{name}`, which would make every run differ", used[name])
    LoopMarks().visit(tree)
    tree.set_environment(environment)
    code: CodeType = environment.compile(tree)
    module: dict[str, Any] = {"environment": environment, "__file__": "<template>"}
    exec(code, module)  # what Template.from_code does, but its module stays within reach
    module |= environment.constants
    module["str_join"] = _str_join
    return Compiled(
        Template.from_module_dict(environment, module, environment.make_globals(None)),
        environment.has_marks,
        "strftime_now" in names,
    )


def _str_join(values: Iterable[Any]) -> Traced:
    return concat(map(str, values))


_OPEN = mark("open")
_CLOSE = mark("close")


@pass_eval_context
def _join(eval_ctx: Any, value: Any, d: str = "", attribute: str | int | None = None) -> Any:
    return FILTERS["join"](eval_ctx, value, written("") if d == "" else d, attribute)


def _tojson(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> Traced:
    text = json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    messages = set(_messages(x))
    origin = Origin(messages.pop() if len(messages) == 1 else -1, text)
    return Traced(text, ((len(text), origin, 0),))


def _messages(value: Any) -> Iterable[int]:
    """Indices of the messages that the strings in `value` came from."""
    if type(value) is Traced:
        for _, origin, _ in value._parts:
            if isinstance(origin, Origin) and not origin.written:
                yield origin.message
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _messages(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _messages(item)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _clock(now: datetime) -> Callable[[str], str]:
    def strftime_now(format: str) -> str:
        text = now.strftime(format)
        # The template's own, unless the format is data.
        parts = format._parts if type(format) is Traced else ((0, None, 0),)
        return written(text) if all(isinstance(part[1], Origin) and part[1].written for part in parts) else text

    return strftime_now


class _TemplateDict:
    """`dict(...)` and `dict.fromkeys(...)` without the rest of the type."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args, **kwargs)


class _TemplateNamespace(Namespace):
    """A namespace that takes no names with an underscore in front, as transformers' does."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # `self` stays out of the signature: a template may store a value of that name.
        self, *values = args
        attributes = dict(*values, **kwargs)
        for name in attributes:
            _check_name(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace takes no name with an underscore in front, got {name!r}")
