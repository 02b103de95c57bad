"""From `--tokenizer` to a tokenizer: a folder, a file, a hub name or `bytes`.

    find_tokenizer(spec)         which files make it, its added tokens and its configuration; cheap
    make_engine(source, ...)     load the library's part; dear (0.4 s for a vocabulary of 150,000)
    make_tokenizer(engine, ...)  BOS, EOS and padding ids by the rules of docs/format.md

Files are only ever read. A hub name goes through `huggingface_hub`, which honours HF_HOME, HF_HUB_OFFLINE and
HF_ENDPOINT.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from packtool.errors import DataError, PackError, UsageError
from packtool.tokenizer.base import AddedToken, Engine, Tokenizer, TokenizerSource
from packtool.tokenizer.byte_level import BYTE_TOKENS, ByteEngine

__all__ = ["BYTES_FILE", "find_tokenizer", "make_engine", "make_tokenizer", "source_sha256"]

# What a dataset's `tokenizer/` holds for the built-in byte tokenizer, which has no file of its own.
BYTES_FILE = "bytes.json"
_CONFIG, _SPECIAL_MAP, _TEMPLATE = "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"
_MORE_TEMPLATES = "additional_chat_templates"
# What transformers hands to a chat template by these names.
_SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_BYTE_SPECIAL = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>"}


def find_tokenizer(spec: str) -> TokenizerSource:
    """Find a tokenizer's files.

    Args:
        spec: `bytes`, a folder, a `tokenizer.json`, a SentencePiece `.model`, or a hub name such as `Qwen/Qwen3-8B`.

    Raises:
        UsageError: there is nothing by that name.
        DataError: the files are there and wrong.
    """
    if spec == "bytes":
        return _bytes_source({})
    path = Path(os.path.expanduser(spec))
    if os.path.isdir(path):  # unlike Path.is_dir, not startled by a name that is too long
        return _from_folder(path)
    if os.path.isfile(path):
        return _from_file(path)
    if _HUB_NAME.fullmatch(spec) and not spec.startswith((".", "/")):
        return _from_folder(_from_hub(spec))
    raise UsageError(
        f"there is no tokenizer `{spec}`",
        hint="give a folder with tokenizer.json, a tokenizer.json, a SentencePiece .model, a hub name, or `bytes`",
    )


def _from_hub(name: str) -> Path:
    import huggingface_hub
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    patterns = ["tokenizer.json", _CONFIG, _SPECIAL_MAP, _TEMPLATE, f"{_MORE_TEMPLATES}/*.jinja", "tokenizer.model"]
    bars = not are_progress_bars_disabled()
    disable_progress_bars()  # it draws them wherever stderr leads to
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # the hub client raises many kinds; each says what went wrong
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"there is no folder or file `{name}`, and the hub did not give a tokenizer by that name: {first}",
            hint="check the spelling, HF_HUB_OFFLINE and the network, or give a folder",
        ) from None
    finally:
        if bars:
            enable_progress_bars()


def _from_folder(folder: Path) -> TokenizerSource:
    if (folder / "tokenizer.json").is_file():
        return _json_source(folder / "tokenizer.json", folder)
    if (folder / BYTES_FILE).is_file():
        return _bytes_source({BYTES_FILE: str(folder / BYTES_FILE), **_optional(folder, _TEMPLATE)})
    models = sorted(folder.glob("*.model"))
    if len(models) == 1:
        return _model_source(models[0], folder)
    names = sorted(path.name for path in folder.iterdir())[:8]
    raise UsageError(
        f"`{folder}` holds no tokenizer: expected tokenizer.json or one .model, got {', '.join(names) or 'nothing'}",
        hint="`tokenizer.save_pretrained(FOLDER)` of a fast tokenizer writes tokenizer.json",
    )


def _from_file(path: Path) -> TokenizerSource:
    if path.suffix == ".json":
        return _json_source(path, None)
    if ".model" in path.suffixes or path.suffix == ".model":
        return _model_source(path, None)
    raise UsageError(
        f"`{path}` is no tokenizer by its name: expected a .json or a .model file",
        hint="give tokenizer.json, a SentencePiece .model, or the folder that holds it",
    )


def _optional(folder: Path | None, *names: str) -> dict[str, str]:
    return {name: str(folder / name) for name in names if folder is not None and (folder / name).is_file()}


def _beside(folder: Path | None) -> dict[str, str]:
    """The configuration and the templates of a tokenizer."""
    files = _optional(folder, _CONFIG, _SPECIAL_MAP, _TEMPLATE)
    if folder is not None:
        more = sorted((folder / _MORE_TEMPLATES).glob("*.jinja"))
        files |= {f"{_MORE_TEMPLATES}/{path.name}": str(path) for path in more}
    return files


def _bytes_source(files: dict[str, str]) -> TokenizerSource:
    template = Path(files[_TEMPLATE]).read_text("utf-8") if _TEMPLATE in files else None
    if template is None:
        from packtool.render import read_template

        template = read_template("chatml.jinja")
    return TokenizerSource("bytes", files, BYTE_TOKENS, _BYTE_SPECIAL, None, template)


def _json_source(path: Path, folder: Path | None) -> TokenizerSource:

    files = {"tokenizer.json": str(path), **_beside(folder)}
    config, special, template, named = _configuration(files)
    try:
        added, marked = _all_added(path, config, special)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, PackError):
            raise
        raise DataError(
            f"the tokens that `{path.parent}` adds are not written as transformers writes them: {error}",
            hint="save the tokenizer again with `save_pretrained`",
        ) from None
    tokens = sorted(added.values(), key=lambda token: token.id)
    tokens = [AddedToken(t.content, t.id, t.special or t.content in marked) for t in tokens]
    return TokenizerSource("tokenizers", files, tuple(tokens), special, _add_bos(config), template, named)


def _all_added(
    path: Path, config: Mapping[str, Any], special: Mapping[str, str]
) -> tuple[dict[str, AddedToken], set[str]]:
    """Added tokens of tokenizer.json and of the configuration, and the names that count as special."""
    from packtool.tokenizer.hf import read_added_tokens

    added = {token.content: token for token in read_added_tokens(_read_bytes(path), str(path))}
    marked = set(special.values()) | {_content(t) for t in config.get("additional_special_tokens") or []}
    for key, entry in (config.get("added_tokens_decoder") or {}).items():
        content = _content(entry)
        known = added.get(content)
        is_special = bool(entry.get("special")) if isinstance(entry, dict) else False
        number = known.id if known else int(key)
        added[content] = AddedToken(content, number, is_special or bool(known and known.special))
    return added, marked


def _model_source(path: Path, folder: Path | None) -> TokenizerSource:
    from packtool.tokenizer.sentence_piece import read_model, read_pieces

    files = {"tokenizer.model": str(path), **_beside(folder)}
    config, special, template, named = _configuration(files)
    model = read_model(path)
    for name, i in (("bos_token", model.bos_id()), ("eos_token", model.eos_id()), ("pad_token", model.pad_id())):
        if i >= 0:
            special.setdefault(name, str(model.id_to_piece(i)))
    return TokenizerSource("sentencepiece", files, read_pieces(path), special, _add_bos(config), template, named)


def _configuration(files: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str], str | None, dict[str, str]]:
    """The tokenizer's configuration, its named special tokens, its chat template and others by name."""
    config = _json_object(files.get(_CONFIG))
    special_map = _json_object(files.get(_SPECIAL_MAP))
    special = {}
    for name in _SPECIAL_NAMES:
        token = config.get(name) or special_map.get(name)
        if token and _content(token):
            special[name] = _content(token)
    named = {
        Path(name).stem: _read(Path(path)) for name, path in files.items() if name.startswith(f"{_MORE_TEMPLATES}/")
    }
    if _TEMPLATE in files:
        named["default"] = _read(Path(files[_TEMPLATE]))
    template = config.get("chat_template")
    if not named and isinstance(template, list):  # files win, as in transformers
        named = {str(t.get("name")): str(t.get("template")) for t in template if isinstance(t, dict)}
    elif not named and isinstance(template, str):
        named = {"default": template}
    return config, special, named.pop("default", None), named


def _add_bos(config: Mapping[str, Any]) -> bool | None:
    value = config.get("add_bos_token")
    return value if isinstance(value, bool) else None


def _content(token: Any) -> str:
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


def _json_object(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        value = json.loads(_read(Path(path)))
    except json.JSONDecodeError as error:
        raise DataError(f"`{path}` is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"`{path}` is not a configuration: expected an object, got {type(value).__name__}")
    return value


def _read(path: Path) -> str:
    try:
        return _read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"`{path}` is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}") from None


def make_engine(source: TokenizerSource, *, protected: Collection[str] = (), allow_special: bool = False) -> Engine:
    """Load the library's part of a tokenizer.

    Args:
        source: what `find_tokenizer` found.
        protected: tokens that are made only where a template wrote them.
        allow_special: make them from any text.

    Raises:
        DataError: the library cannot load the files.
    """
    if source.kind == "bytes":
        return ByteEngine(protected=protected, allow_special=allow_special)
    if source.kind == "sentencepiece":
        from packtool.tokenizer.sentence_piece import SentencePieceEngine

        path = Path(source.files["tokenizer.model"])
        return SentencePieceEngine(path, protected=protected, allow_special=allow_special)
    from packtool.tokenizer.hf import HfEngine, read_added_tokens

    where = source.files["tokenizer.json"]
    data = Path(where).read_bytes()
    known = {token.content for token in read_added_tokens(data, where)}
    extra = [token for token in source.added_tokens if token.content not in known]
    return HfEngine(data, where, protected=protected, extra=extra, allow_special=allow_special)


def make_tokenizer(
    engine: Engine,
    source: TokenizerSource,
    *,
    eos: str | None = None,
    bos: str = "auto",
    pad_id: int | None = None,
    allow_special: bool = False,
) -> Tokenizer:
    """Frame an engine with BOS, EOS and padding.

    Args:
        engine: from `make_engine`.
        source: from `find_tokenizer`.
        eos: the EOS token's text; the tokenizer's own where None.
        bos: `auto` (as the tokenizer does), `yes` or `no`.
        pad_id: padding id; else the tokenizer's pad token, else EOS, else 0.
        allow_special: texts may hold BOS and EOS themselves.

    Raises:
        UsageError: a token or id that was asked for is not in the vocabulary.
    """
    eos_id = _named(engine, "--eos", eos) if eos is not None else _known(engine, source, "eos_token")
    bos_id = _known(engine, source, "bos_token")
    if bos == "yes" and bos_id is None and not engine.prefix:
        raise UsageError(
            "`--bos yes`: the tokenizer names no BOS token", hint="use a tokenizer folder that names one, or `--bos no`"
        )
    prefix = engine.prefix or (() if bos_id is None else (bos_id,))
    wanted = {"yes": True, "no": False, "auto": source.add_bos if source.add_bos is not None else bool(engine.prefix)}
    pad = _known(engine, source, "pad_token")
    chosen = next((i for i in (pad_id, pad, eos_id) if i is not None), 0)
    if not 0 <= chosen < engine.size:
        raise UsageError(f"`--pad-id {chosen}` is outside the vocabulary of {engine.size} ids")
    return Tokenizer(engine, prefix if wanted[bos] else (), eos_id, chosen, keep_ends=allow_special)


def _named(engine: Engine, flag: str, token: str) -> int:
    found = engine.token_id(token)
    if found is None:
        raise UsageError(
            f"`{flag} {token}`: the tokenizer has no such token", hint="spell it as in the tokenizer's added tokens"
        )
    return found


def _known(engine: Engine, source: TokenizerSource, name: str) -> int | None:
    token = source.special.get(name)
    return engine.token_id(token) if token else None


def source_sha256(source: TokenizerSource) -> str:
    """sha256 over the names and bytes of the tokenizer's files."""
    digest = hashlib.sha256()
    for name in sorted(source.files):
        data = Path(source.files[name]).read_bytes()
        digest.update(f"{name}\n{len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()
