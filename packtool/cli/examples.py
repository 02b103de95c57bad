"""Example configs and data that the package carries."""

from pathlib import Path

import packtool

__all__ = ["example_path", "list_examples"]


def _folder() -> Path:
    """In a wheel the examples lie inside the package; in a checkout, in docs/examples."""
    package = Path(packtool.__file__).parent
    inside = package / "examples"
    return inside if inside.is_dir() else package.parent / "docs" / "examples"


def list_examples() -> list[str]:
    """Names of the example files."""
    folder = _folder()
    return (
        sorted(path.name for path in folder.iterdir() if path.suffix in (".yaml", ".jsonl")) if folder.is_dir() else []
    )


def example_path(name: str) -> Path:
    """Where an example lies."""
    return _folder() / name
