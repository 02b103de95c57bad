"""`packtool cp`: copy a built-in template or example out, to edit it."""

from pathlib import Path
from typing import Annotated

import typer

from packtool.cli.console import say
from packtool.cli.examples import example_path, list_examples
from packtool.errors import UsageError
from packtool.render import list_templates, read_template

__all__ = ["cp"]


def cp(
    name: Annotated[str, typer.Argument(help="A name that `packtool ls` lists.")],
    file: Annotated[Path, typer.Argument(help="Where to write it; a folder keeps the name.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Copy a built-in template or an example config to FILE."""
    if name in list_templates():
        text = read_template(name)
    elif name in list_examples():
        text = example_path(name).read_text("utf-8")
    else:
        raise UsageError(f"there is nothing built in by the name `{name}`", hint="`packtool ls` lists the names")
    target = file / name if file.is_dir() else file
    if target.exists() and not overwrite:
        raise UsageError(f"`{target}` is there already", hint="choose another name, or replace it with `--overwrite`")
    try:
        target.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"`{target}` cannot be written: {error.strerror}") from None
    say(f"copied {name} to {target}")
