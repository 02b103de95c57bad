"""Marks that the template prints to tell which message a loop is at: empty strings, which travel with the text.

    {% for m in messages %}[step m] ... {% endfor %}[end]
    {% for i in range(n) %}[step i] ... {% set m = messages[i] %}[at m] ... {% endfor %}[end]

A `set` is marked only where a loop's own variable is the index, or `loop.index0` in a loop over a `range`: neighbours
such as `messages[i + 1]` are looked at, not printed. trace.py reads the marks.
"""

from collections.abc import Iterator
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.runtime import Context
from jinja2.visitor import NodeTransformer

from packtool.render.chat.provenance import Mark, Origin, Traced

__all__ = ["MARK_FILTERS", "LoopMarks", "mark"]

_STEP = "packtool_step"
_AT = "packtool_at"
_END = "packtool_end"


class LoopMarks(NodeTransformer):
    """Puts the marks of loops into a template's tree."""

    def __init__(self) -> None:
        self._loops = 0
        self._inside: tuple[int, nodes.For] | None = None  # the innermost loop

    def visit_For(self, node: nodes.For) -> list[nodes.Node]:  # noqa: D102, N802  Jinja's name
        outside = self._inside
        self._inside = self._loops, node
        number = nodes.Const(self._loops)
        self._loops += 1
        self.generic_visit(node)
        self._inside = outside
        items: list[nodes.Expr] = [nodes.Name(name, "load") for name in _names(node.target)]
        node.body.insert(0, _printed(nodes.Tuple(items, "load"), _STEP, number, node.lineno))
        return [node, _printed(nodes.Tuple([], "load"), _END, number, node.lineno)]

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node | list[nodes.Node]:  # noqa: D102, N802  Jinja's name
        if self._inside is None or not isinstance(node.target, nodes.Name) or not isinstance(node.node, nodes.Getitem):
            return node
        number, loop = self._inside
        if not _is_index(node.node.arg, loop):
            return node
        message = nodes.Tuple([nodes.Name(node.target.name, "load")], "load")
        return [node, _printed(message, _AT, nodes.Const(number), node.lineno)]


def _names(target: nodes.Node) -> Iterator[str]:
    names = [target] if isinstance(target, nodes.Name) else target.find_all(nodes.Name)
    return (name.name for name in names)


def _is_index(value: nodes.Node, loop: nodes.For) -> bool:
    match value:
        case nodes.Name():
            return value.name in _names(loop.target)
        case nodes.Getattr(node=nodes.Name(name="loop"), attr="index0"):
            # Over anything else it may count parts or calls, not messages.
            return isinstance(loop.iter, nodes.Call) and loop.iter.node == nodes.Name("range", "load")
        case _:
            return False


def _printed(value: nodes.Expr, name: str, number: nodes.Const, line: int) -> nodes.Output:
    output = nodes.Output([nodes.Filter(value, name, [number], [], None, None)])
    output.set_lineno(line, override=True)
    return output


def mark(kind: str, loop: int = -1, message: int = -1) -> Traced:
    """A mark as the string that the template prints."""
    return Traced("", ((0, Mark(kind, loop, message), 0),))


# With the context as argument, Jinja does not fold them into constants.
@pass_context
def _step(context: Context, values: tuple[Any, ...], loop: int) -> Traced:
    return mark("step", loop, _message_index(values))


@pass_context
def _at(context: Context, values: tuple[Any, ...], loop: int) -> Traced:
    return mark("at", loop, _message_index(values))


@pass_context
def _end(context: Context, values: tuple[Any, ...], loop: int) -> Traced:
    return mark("end", loop)


MARK_FILTERS = {_STEP: _step, _AT: _at, _END: _end}


def _message_index(values: tuple[Any, ...]) -> int:
    """Which message the first of `values` that is one is, or -1: a dict whose role remembers where it came from."""
    for value in values:
        role = value.get("role") if isinstance(value, dict) else None
        if type(role) is Traced and len(role._parts) == 1:
            origin = role._parts[0][1]
            if isinstance(origin, Origin) and origin.role:
                return origin.message
    return -1
