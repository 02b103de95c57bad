"""Before the first task: find the inputs and the tokenizer, settle the kind of data, and check that all of it fits.

The tokenizer's files are copied to the scratch folder first and loaded from there, so that what is recorded is what
ran.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from packtool.errors import DataError, UsageError
from packtool.job.settings import Settings, as_plain, parse_limit, parse_size
from packtool.job.tokenize import TokenizeSpec, make_chat, make_pipeline
from packtool.render import choose_kind, list_templates, parse_instruct, read_template
from packtool.render.chat import UNPROTECTED_MARKS, missing_marks
from packtool.sources import BadRecord, BlockSplitter, InputFile, find_inputs, place_name, read_block
from packtool.tokenizer import BYTES_FILE, TokenizerSource, find_tokenizer

__all__ = ["Prepared", "prepare"]

# Settings that only say how to run, or that are recorded elsewhere.
_NOT_SHAPING = frozenset(
    {"inputs", "out", "root", "overwrite", "workers", "tokenizer", "chat_template", "strict", "max_lost"}
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run whose questions are all answered.

    Attributes:
        settings: as given, with `auto` still in place.
        inputs: the files.
        spec: what shapes a segment.
        source: the tokenizer (its files in `tokenizer_folder`), or None where records come as ids.
        overlong: the policy for samples that are too long.
        why: one sentence on how the kind was chosen.
        bos, eos, pad: ids, -1 where there is none.
        tokenizer_size: ids of the vocabulary, or None.
        ends_turns: the EOS of plain text is the turn end of the tokenizer's chat template.
    """

    settings: Settings
    inputs: tuple[InputFile, ...]
    spec: TokenizeSpec
    source: TokenizerSource | None
    tokenizer_folder: Path
    overlong: str
    why: str
    bos: int
    eos: int
    pad: int
    tokenizer_size: int | None
    ends_turns: bool

    def shaping(self) -> dict[str, Any]:
        """The settings that shape the data, with every `auto` settled and nothing that was not given."""
        plain = {name: value for name, value in as_plain(self.settings).items() if name not in _NOT_SHAPING}
        plain["kind"] = self.spec.kind
        plain["columns"] = dict(self.spec.columns)
        plain["template"] = self.spec.template
        plain["date"] = self.spec.date
        plain["overlong"] = self.overlong
        plain["shard_size"] = str(parse_size(self.settings.shard_size))
        if not plain["template_args"]:
            del plain["template_args"]
        return {name: value for name, value in plain.items() if value not in ("", None)}


def prepare(settings: Settings, scratch: Path, notice: Callable[[str], None]) -> Prepared:
    """Answer every question that can be answered before the first task.

    Raises:
        UsageError: the request cannot be met.
        DataError: an input or the tokenizer is wrong.
    """
    inputs = tuple(find_inputs(_rooted(settings), scratch=scratch))
    bad: list[str] = []
    try:
        choice = choose_kind(settings.kind, settings.columns, settings.template, _first_values(inputs, settings, bad))
    except UsageError:
        if bad:  # what cannot be read is the better answer
            raise DataError(bad[0], hint="`--kind` says what the records are meant to be") from None
        raise
    if settings.kind == "auto":
        notice(f"kind `{choice.kind}`: {choice.why}")
    if any(file.container == "text" for file in inputs) and settings.text_by == "line":
        notice("text files: every line is a record (`--text-by paragraph` or `file` for larger ones)")
    _check_chat_only(settings, choice.kind, messages=choice.messages)
    folder = scratch / "tokenizer"
    source = None
    if settings.tokenizer or choice.kind != "tokens":
        if not settings.tokenizer:
            notice("NO TOKENIZER WAS NAMED: packing with the built-in byte tokenizer, one token a byte (`--tokenizer`)")
        source = _copied(settings, folder)
    template = _instruct_text(choice.template) if choice.kind == "instruct" else ""
    if choice.kind == "instruct":
        _check_fields(settings, template)
    if source is not None and choice.messages and source.chat_template is None and source.named_templates:
        raise UsageError(
            f"the tokenizer has the chat templates {', '.join(sorted(source.named_templates))} and no default",
            hint=f"choose one: `--chat-template {min(source.named_templates)}`",
        )
    today = settings.date or date.today().isoformat()
    chat = None
    if choice.messages:
        given = {"name": f"chat template `{settings.chat_template}`"} if settings.chat_template else {}
        chat = make_chat(source, arguments=settings.template_args, turn_end=settings.turn_end, date=today, **given)
    if choice.messages and chat is None:
        raise UsageError(
            "the tokenizer has no chat template, and these are conversations",
            hint="give one: `--chat-template FILE`, or a built-in one such as `--chat-template chatml`",
        )
    if source is not None and choice.messages:
        _tell_missing_marks(source, settings, notice)
    protected: set[str] = set()
    if source is not None:
        protected = {token.content for token in source.added_tokens if token.special}
        protected |= {token for token in (settings.eos, source.special.get("eos_token", "")) if token}
        protected &= {token.content for token in source.added_tokens}
        protected |= set(chat.protected) if chat is not None else set()
        protected -= UNPROTECTED_MARKS
    _, share = parse_limit(settings.limit)
    spec = TokenizeSpec(
        kind=choice.kind,
        columns=tuple(sorted(choice.columns.items())),
        messages=choice.messages,
        text_by=settings.text_by,
        template=template,
        template_args=json.dumps(settings.template_args, sort_keys=True),
        turn_end=settings.turn_end,
        date=today if chat is not None and chat.uses_date else "",
        tokenizer="" if source is None else str(folder),
        protected=tuple(sorted(protected)),
        eos=settings.eos,
        bos=settings.bos,
        pad_id=settings.pad_id,
        allow_special=settings.allow_special,
        train_on=settings.train_on,
        train_template_text=settings.train_template_text,
        share=share,
        seed=settings.seed,
        on_bad=settings.on_bad,
    )
    tokenizer = make_pipeline(spec).tokenizer
    ends_turns = source is not None and choice.kind == "text" and _ends_turns(source, settings.eos)
    if source is not None and ends_turns:
        eos = settings.eos or source.special["eos_token"]
        notice(
            f"EOS `{eos}` is the turn end of the tokenizer's chat template; plain text mostly ends with another token "
            "(`--eos`)"
        )
    if tokenizer is not None and tokenizer.eos is None and choice.kind in ("text", "completion", "instruct"):
        raise UsageError(
            "the tokenizer names no EOS token, and this kind of data ends with one", hint="name it: `--eos TOKEN`"
        )
    return Prepared(
        settings=settings,
        inputs=inputs,
        spec=spec,
        source=source,
        tokenizer_folder=folder,
        overlong=settings.overlong if settings.overlong != "auto" else _overlong(choice.kind, settings),
        why=choice.why,
        bos=tokenizer.bos[0] if tokenizer is not None and tokenizer.bos else -1,
        eos=tokenizer.eos if tokenizer is not None and tokenizer.eos is not None else -1,
        pad=tokenizer.pad if tokenizer is not None else (settings.pad_id or 0),
        tokenizer_size=None if tokenizer is None else tokenizer.size,
        ends_turns=ends_turns,
    )


def _check_fields(settings: Settings, template: str) -> None:
    fields = parse_instruct(template, "--template").fields
    unknown = sorted(set(settings.columns) - set(fields))
    if unknown:
        raise UsageError(
            f"`--columns` names the field `{unknown[0]}`, which the template does not have",
            hint=f"its fields: {', '.join(f'`{field}`' for field in fields)}",
        )


def _check_chat_only(settings: Settings, kind: str, *, messages: bool) -> None:
    """Settings that only a chat template knows what to do with."""
    given = {
        "--template-arg": bool(settings.template_args),
        "--turn-end": bool(settings.turn_end),
        "--date": bool(settings.date),
        "--train-on last": settings.train_on == "last",
        "--train-template-text no": settings.train_template_text == "no",
    }
    wrong = [flag for flag, on in given.items() if on and not messages]
    if wrong:
        raise UsageError(
            f"`{wrong[0]}` is for conversations, and these records are of the kind `{kind}`",
            hint="leave it out, or say `--kind chat`",
        )


def _tell_missing_marks(source: TokenizerSource, settings: Settings, notice: Callable[[str], None]) -> None:
    """Say which marks of a built-in template the model would see as pieces of text."""
    name = settings.chat_template.removesuffix(".jinja")
    if os.path.isfile(settings.chat_template):
        return  # a file is not a built-in template, whatever its name
    missing = missing_marks(name, {token.content for token in source.added_tokens}, source.special)
    if missing:
        marks = ", ".join(f"`{mark}`" for mark in missing)
        notice(
            f"chat template `{name}`: {marks} {'is' if len(missing) == 1 else 'are'} no added token of this tokenizer, "
            "so each becomes several ordinary tokens"
        )


def _ends_turns(source: TokenizerSource, eos: str) -> bool:
    """Whether EOS is a mark that the chat template writes: a model that is trained so on text chats badly.

    Told from the template's text; nobody here needs the template, so it is not run.
    """
    token = eos or source.special.get("eos_token", "")
    return bool(token) and token in (source.chat_template or "")


def _overlong(kind: str, settings: Settings) -> str:
    return "split" if kind == "text" or settings.split_across_packs else "truncate"


def _rooted(settings: Settings) -> list[str]:
    """Inputs, with relative ones made relative to `--root`."""
    if not settings.root:
        return [name if name == "-" else os.path.expanduser(name) for name in settings.inputs]
    root = Path(os.path.expanduser(settings.root))
    return [name if name == "-" else str(root / os.path.expanduser(name)) for name in settings.inputs]


def _first_values(inputs: tuple[InputFile, ...], settings: Settings, bad: list[str]) -> Iterator[Any]:
    """The first records of the first file that has any, for `auto` to look at."""
    for index, file in enumerate(inputs):
        splitter = BlockSplitter(
            file, index, text_by=settings.text_by, columns=settings.columns.values(), block_bytes=1 << 16
        )
        for block in splitter:
            for record in read_block(block, text_by=settings.text_by):
                if isinstance(record, BadRecord):
                    if not bad:
                        bad.append(f"`{file.path}`, {place_name(file.container)} {record.place}: {record.message}")
                elif record is not None:
                    yield record.value


def _instruct_text(template: str) -> str:
    """A template's text: of a built-in one, of a file, or the text itself."""
    if f"{template}.txt" in list_templates():
        text = read_template(f"{template}.txt")
    elif "{" not in template and "\n" not in template:
        if not os.path.isfile(template):
            names = ", ".join(name.removesuffix(".txt") for name in list_templates() if name.endswith(".txt"))
            raise UsageError(
                f"there is no instruct template or file `{template}`",
                hint=f"built-in: {names}; or write one: `--template 'Question: {{question}} Answer: {{>}}{{answer}}'`",
            )
        text = _file_text(Path(template), "instruct template")
    else:
        text = template
    parse_instruct(text, "--template")
    return text


def _copied(settings: Settings, folder: Path) -> TokenizerSource:
    """Copy the tokenizer's files, and the chat template that replaces theirs, and find the tokenizer in the copy."""
    spec = settings.tokenizer or "bytes"
    source = find_tokenizer(spec)
    folder.mkdir()
    text = _chat_text(settings.chat_template, source) if settings.chat_template else None
    for name, path in source.files.items():
        if text is not None and name.endswith(".jinja"):
            continue  # what was asked for stands in for all of them
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, folder / name)
    if source.kind == "bytes":
        (folder / BYTES_FILE).write_text(json.dumps({"tokenizer": "bytes", "version": 1}) + "\n")
    if text is not None:
        (folder / "chat_template.jinja").write_text(text, "utf-8")
    return find_tokenizer(str(folder))


def _chat_text(name: str, source: TokenizerSource) -> str:
    """A template's text: of a file, of the tokenizer's own by that name, or of a built-in one."""
    if os.path.isfile(name):
        return _file_text(Path(name), "chat template")
    if name in source.named_templates:
        return source.named_templates[name]
    if name == "default" and source.chat_template is not None:
        return source.chat_template
    if f"{name.removesuffix('.jinja')}.jinja" in list_templates():
        return read_template(f"{name.removesuffix('.jinja')}.jinja")
    own = ", ".join(sorted(source.named_templates))
    raise UsageError(
        f"there is no chat template or file `{name}`",
        hint="`packtool ls templates` lists the built-in ones" + (f"; the tokenizer's own are {own}" if own else ""),
    )


def _file_text(path: Path, what: str) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{what} `{path}` is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise UsageError(f"{what} `{path}` cannot be read: {error.strerror}") from None
