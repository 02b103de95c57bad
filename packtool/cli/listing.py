"""`packtool ls`: what there is to choose from."""

from typing import Annotated

import typer

from packtool.cli.examples import list_examples
from packtool.errors import UsageError
from packtool.plan import STRATEGIES
from packtool.render import KINDS, list_templates

__all__ = ["ls"]


def ls(
    what: Annotated[
        str | None, typer.Argument(help="templates, strategies, kinds or configs; all where not given.")
    ] = None,
) -> None:
    """List built-in templates, strategies, kinds of data, and example configs."""
    lists = {
        "templates": list_templates(),
        "strategies": list(STRATEGIES),
        "kinds": list(KINDS),
        "configs": list_examples(),
    }
    if what is not None and what not in lists:
        raise UsageError(f"there is no list `{what}`", hint=f"the lists are {', '.join(lists)}")
    for name, items in lists.items():
        if what is None:
            print(f"{name}:")
        if what in (None, name):
            for item in items:
                print(f"  {item}" if what is None else item)
