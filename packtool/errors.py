"""Everything packtool raises on purpose.

    PackError              a message (where, expected, got) and an optional hint; never raised itself
    |-- UsageError         the request is wrong: a flag, a config key, a combination     (CLI exit code 2)
    |-- DataError          an input file or a record is wrong                            (CLI exit code 1)
    |   `-- RecordError    one record is wrong; `--on-bad skip` can pass over it
    `-- FormatError        a packed dataset is wrong or not one                          (CLI exit code 1)

All but PackError are ValueErrors too, so that code which knows nothing of packtool can catch them.
"""

__all__ = ["DataError", "FormatError", "PackError", "RecordError", "UsageError"]


class PackError(Exception):
    """Base of every error that packtool raises on purpose.

    Attributes:
        message: where, what was expected and what was found; no full stop.
        hint: what to do about it, or an empty string.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # The default would lose `hint` on the way from a worker process.
        return _rebuild, (type(self), self.message, self.hint)


def _rebuild(kind: type[PackError], message: str, hint: str) -> PackError:
    return kind(message, hint=hint)


class UsageError(PackError, ValueError):
    """The request is wrong, whatever the data."""


class DataError(PackError, ValueError):
    """An input file cannot be used."""


class RecordError(DataError):
    """One record cannot be used; the caller knows its file and line and adds them."""


class FormatError(PackError, ValueError):
    """A dataset on disk breaks the format, or is none."""
