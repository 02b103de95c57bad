"""Every chat file of the shared data through every real and built-in template: the text is transformers' own."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from chat_cases import SHARED_NAMES, SPECIAL, make, shared
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from packtool.errors import RecordError
from packtool.render import choose_kind, make_renderer, read_template
from packtool.render.chat import UNPROTECTED_MARKS, ChatTemplate
from packtool.sources import BlockSplitter, find_inputs, read_block
from packtool.tokenizer import find_tokenizer, make_engine

pytestmark = pytest.mark.shared

FILES = [
    "llama-factory/glaive_toolcall_en_demo.json", "llama-factory/v1_sft_demo.jsonl", "fastchat/dummy_conversation.json",
    "ms-swift/alpaca.csv", "ms-swift/alpaca.jsonl", "ms-swift/sharegpt.jsonl",
    "openai-cookbook/drone_training.excerpt.jsonl", "openai-cookbook/toy_chat_fine_tuning.jsonl",
    "functionary/test_case.json", "nemo-aligner/dummy-sft.jsonl",
]  # fmt: skip
BUILT_IN = ["chatml", "llama3", "mistral", "gemma", "zephyr"]
# What templates themselves raise on: tools, and several calls in one turn.
TOOLS = {
    "llama-factory/glaive_toolcall_en_demo.json": 191, "openai-cookbook/drone_training.excerpt.jsonl": 3,
    "functionary/test_case.json": 1,
}  # fmt: skip
REFUSED = {"gemma": TOOLS, "zephyr": TOOLS, "llama3": {"functionary/test_case.json": 1}}


def template_of(name):
    """(source, variables, the compiled template)"""
    if name in SHARED_NAMES:
        source, added, special = shared(name)
        return source, special, make(source, name, added, special)
    source = read_template(f"{name}.jinja")
    return source, SPECIAL, make(source, name)


def values(name):
    """The records of a file, read by packtool."""
    for number, file in enumerate(find_inputs([str(Path(os.environ["PACKTOOL_SHARED"]) / "data" / name)])):
        for block in BlockSplitter(file, number):
            yield from (record.value for record in read_block(block))


@pytest.mark.parametrize("name", [*SHARED_NAMES, *BUILT_IN])
def test_text_equals_transformers_on_every_chat_file(name, monkeypatch):
    """What packtool hands to the template, handed to transformers' renderer: the same bytes, or both refuse."""
    source, special, template = template_of(name)
    handed = []
    real = ChatTemplate.render

    def recorded(self, messages, tools=None, **more):
        handed.append((messages, tools))
        return real(self, messages, tools, **more)

    monkeypatch.setattr(ChatTemplate, "render", recorded)
    equal, refused, records = 0, {}, 0
    for file in FILES:
        found = list(values(file))
        choice = choose_kind("auto", {}, "", found)
        assert choice.kind == "chat"
        render = make_renderer("chat", choice.columns, chat=template)
        for record in found:
            records += 1
            handed.clear()
            message, text = "", ""
            try:
                text = render(record).text
            except RecordError as error:
                message = error.message
            messages, tools = handed[-1]  # before it the template may have been asked how it spells calls
            try:
                expected = render_jinja_template([list(messages)], tools, chat_template=source, **special)[0][0]
            except Exception:
                assert message.startswith("the chat template raised: "), (file, record, message)
                refused[file] = refused.get(file, 0) + 1
                continue
            assert not message, (file, record, message)
            assert text == expected, (file, record)
            equal += 1
    assert records == 1348
    assert refused == REFUSED.get(name, {})
    assert equal == 1348 - sum(refused.values())


@pytest.mark.parametrize("tokenizer", SHARED_NAMES)
def test_ids_equal_transformers_on_every_chat_file(tokenizer):
    """With `--allow-special` for every record; else for those whose own text spells no protected token."""
    folder = Path(os.environ["PACKTOOL_SHARED"]) / "tokenizers" / tokenizer
    reference = AutoTokenizer.from_pretrained(folder)
    source = find_tokenizer(str(folder))
    added = [token.content for token in source.added_tokens]
    records = spelled = 0
    for name in [tokenizer, *BUILT_IN]:
        text = source.chat_template if name == tokenizer else read_template(f"{name}.jinja")
        template = make(text, name, added, source.special)
        special = {token.content for token in source.added_tokens if token.special}
        protected = (special | template.protected) - UNPROTECTED_MARKS
        free = make_engine(source, protected=protected, allow_special=True)
        guarded = make_engine(source, protected=protected)
        for file in FILES:
            found = list(values(file))[:40]
            render = make_renderer("chat", choose_kind("auto", {}, "", found).columns, chat=template)
            batch = []
            for record in found:
                with suppress(RecordError):
                    batch.append(render(record))
            if not batch:
                continue
            expected = [reference(one.text, add_special_tokens=False)["input_ids"] for one in batch]
            for engine in (free, guarded):
                result = engine.encode(batch)
                parts = np.split(result.ids, np.cumsum(result.lengths)[:-1])
                for one, ids, wanted, odd in zip(batch, parts, expected, result.lookalikes, strict=True):
                    if engine is guarded and odd:
                        spelled += 1
                        continue
                    assert ids.tolist() == wanted, (name, file, one.text[:200])
                    records += 1
    assert (records, spelled) == COUNTS[tokenizer]


COUNTS = {"qwen3": (1902, 0), "deepseek_v3": (1902, 0)}
