"""Instruct templates: a text with `{column}` fields and a mark for where training begins.

    Question: {question}
    Answer: {>}{answer}

`{>}` is the mark: what is before it is the prompt, what is after it is trained. A literal brace is doubled: `{{`, `}}`.
A template may start with comment lines, `{# ... #}`, and may hold several variants, separated by lines of `---`. The
first variant whose prompt's fields are all filled in the record is used, so an optional field has a variant without it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packtool.errors import UsageError

__all__ = ["InstructTemplate", "parse_instruct"]

MARK = ">"
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class InstructTemplate:
    """A parsed template.

    Attributes:
        variants: each a prompt and a completion, as (is field, text) parts.
        fields: all fields, in order of first use.
        required: the fields that every variant has.
    """

    variants: tuple[tuple[tuple[tuple[bool, str], ...], tuple[tuple[bool, str], ...]], ...]
    fields: tuple[str, ...]
    required: frozenset[str]

    def fill(self, values: Mapping[str, str]) -> tuple[str, str]:
        """Prompt and completion of a record, by the first variant whose prompt's fields are all filled, or the last."""
        fitting = (v for v in self.variants if all(values[text] for is_field, text in v[0] if is_field))
        prompt, completion = next(fitting, self.variants[-1])
        return _filled(prompt, values), _filled(completion, values)


def _filled(parts: tuple[tuple[bool, str], ...], values: Mapping[str, str]) -> str:
    return "".join(values[text] if is_field else text for is_field, text in parts)


def parse_instruct(source: str, name: str) -> InstructTemplate:
    """Parse a template.

    Raises:
        UsageError: a brace is lost, a variant has no mark or two, or nothing after it; naming `name`.
    """
    lines = source.split("\n")
    while lines[0].startswith("{#") and lines[0].endswith("#}") and len(lines) > 1:
        lines.pop(0)
    bodies = "\n".join(lines).removesuffix("\n").split("\n---\n")
    variants = tuple(_variant(body, name) for body in bodies)
    names = [[text for is_field, text in (*prompt, *completion) if is_field] for prompt, completion in variants]
    fields = tuple(dict.fromkeys(text for found in names for text in found))
    return InstructTemplate(variants, fields, frozenset.intersection(*(frozenset(found) for found in names)))


def _variant(body: str, name: str) -> tuple[tuple[tuple[bool, str], ...], tuple[tuple[bool, str], ...]]:
    sides: list[list[tuple[bool, str]]] = [[]]
    at = 0
    for match in _TOKEN.finditer(body):
        sides[-1].append((False, body[at : match.start()]))
        at = match.end()
        found = match.group()
        if found in ("{{", "}}"):
            sides[-1].append((False, found[0]))
        elif match.group(1) == MARK:
            sides.append([])
        elif match.group(1):
            sides[-1].append((True, match.group(1)))
        else:
            raise UsageError(
                f"instruct template `{name}` has a lone `{found}`", hint="a literal brace is doubled: `{{` or `}}`"
            )
    sides[-1].append((False, body[at:]))
    if len(sides) != 2:
        raise UsageError(
            f"instruct template `{name}` has {len(sides) - 1} marks `{{{MARK}}}` in a variant, expected one",
            hint=f"put `{{{MARK}}}` where training begins, for example `Q: {{question}} A: {{{MARK}}}{{answer}}`",
        )
    if not any(is_field for is_field, _ in sides[1]):
        raise UsageError(
            f"instruct template `{name}` has no field after its mark `{{{MARK}}}`",
            hint="what follows the mark is trained",
        )
    prompt, completion = (tuple(part for part in side if part[1]) for side in sides)
    return prompt, completion
