"""The environment chat templates run in: what transformers gives them, with strings that remember their origin.

transformers renders in an immutable sandbox with `trim_blocks`, `lstrip_blocks`, loop controls, its own `tojson`,
`raise_exception`, `strftime_now` and a `{% generation %}` block. The same is built here, and on top of it:

1. every string constant of the template is compiled as a Traced string of origin TEMPLATE;
2. wherever Jinja joins strings (macros, set blocks, `~`, the join filter) the parts are joined too;
3. each `for` gets a mark at the start of its body and one after it, each generation block one at both ends.

The rendered text is the same to the byte; the tests compare it with transformers'.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import CodeType
from typing import Any

from jinja2 import Template, nodes, pass_context, pass_eval_context
from jinja2.compiler import CodeGenerator, Frame, operators
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from packtool.render.chat.provenance import Mark, Origin, Traced, concat, written

__all__ = ["ChatEnvironment", "compile_template"]

_STEP = "packtool_step"
_END = "packtool_end"


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


class _Marks(NodeTransformer):
    """Puts the marks of a loop into the tree."""

    def __init__(self) -> None:
        self.loops = 0

    def visit_For(self, node: nodes.For) -> list[nodes.Node]:  # noqa: N802  Jinja's name
        self.generic_visit(node)
        number = nodes.Const(self.loops)
        self.loops += 1
        target = node.target
        names = [target] if isinstance(target, nodes.Name) else target.find_all(nodes.Name)
        items: list[nodes.Expr] = [nodes.Name(name.name, "load") for name in names]
        node.body.insert(0, _printed(nodes.Tuple(items, "load"), _STEP, number, node.lineno))
        return [node, _printed(nodes.Tuple([], "load"), _END, number, node.lineno)]


def _printed(value: nodes.Expr, name: str, number: nodes.Const, line: int) -> nodes.Output:
    output = nodes.Output([nodes.Filter(value, name, [number], [], None, None)])
    output.set_lineno(line, override=True)
    return output


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

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.constants: dict[str, Traced] = {}
        self.has_marks = False
        self._names: dict[str, str] = {}
        self.filters |= {"tojson": _tojson, "join": _join, _STEP: _step, _END: _end}
        self.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
            "dict": _TemplateDict(),
            "namespace": _TemplateNamespace,
        }

    def constant(self, text: str) -> str:
        """The name of a string constant in the compiled code."""
        name = self._names.setdefault(text, f"constant_{len(self._names)}")
        self.constants[name] = written(text)
        return name


def compile_template(source: str) -> tuple[Template, bool]:
    """The compiled template, and whether it has generation blocks; raises what Jinja raises."""
    environment = ChatEnvironment()
    tree = environment.parse(source)
    _Marks().visit(tree)
    tree.set_environment(environment)
    code: CodeType = environment.compile(tree)
    module: dict[str, Any] = {"environment": environment, "__file__": "<template>"}
    exec(code, module)  # what Template.from_code does, but its module stays within reach
    module |= environment.constants
    module["str_join"] = _str_join
    return Template.from_module_dict(environment, module, environment.make_globals(None)), environment.has_marks


def _str_join(values: Iterable[Any]) -> Traced:
    return concat(map(str, values))


@pass_context
def _step(context: Context, values: tuple[Any, ...], loop: int) -> Traced:
    message = next((index for index in map(_message_index, values) if index >= 0), -1)
    return _mark("step", loop, message)


@pass_context
def _end(context: Context, values: tuple[Any, ...], loop: int) -> Traced:
    return _mark("end", loop)


def _mark(kind: str, loop: int = -1, message: int = -1) -> Traced:
    return Traced("", ((0, Mark(kind, loop, message), 0),))


_OPEN = _mark("open")
_CLOSE = _mark("close")


def _message_index(value: Any) -> int:
    """Which message a loop is at: a message is a dict whose role remembers where it came from."""
    role = value.get("role") if isinstance(value, dict) else None
    if type(role) is Traced and len(role._parts) == 1:
        origin = role._parts[0][1]
        if isinstance(origin, Origin) and origin.role:
            return origin.message
    return -1


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


def _strftime_now(format: str) -> Traced:
    return written(datetime.now().strftime(format))


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
