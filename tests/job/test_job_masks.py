"""Labels against `return_assistant_tokens_mask` of transformers, on templates with `{% generation %}` marks.

transformers trains every token that overlaps a marked span; here a token belongs to the side where it starts. So they
differ in tokens that straddle a span's start, and in nothing else. Each such token is counted.
"""
# ruff: noqa: E501  a template reads best on one line

import os
from pathlib import Path

import pytest
import tokenizers
from job_helpers import pack, samples
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

N = -100
MARKS = ["<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
HEADER = "{{ '<|im_start|>' + m.role + '\n' }}"
TEMPLATES = {
    "chatml": "{% for m in messages %}"
    + HEADER
    + "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}{{ m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}",
    "turn end left out": "{% for m in messages %}"
    + HEADER
    + "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{{ '<|im_end|>\n' }}{% else %}{{ m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}",
    "header in the marks": "{{ '<|begin|>' }}{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}"
    + HEADER
    + "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}"
    + HEADER
    + "{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}",
    "thoughts": "{% for m in messages %}"
    + HEADER
    + "{% if m.role == 'assistant' %}{% generation %}{{ '<think>' + (m.reasoning_content or '') + '</think>\n' + m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}",
    "no boundary": "{% for m in messages %}{% if m.role == 'assistant' %}{{ 'A: ' }}{% generation %}{{ m.content + '<|end|>' }}{% endgeneration %}{% else %}{{ 'Q: ' + m.content + ' ' }}{% endif %}{% endfor %}",
}
CONTENTS = [
    "hello there",
    " leading",
    "\n\nline breaks first",
    "trailing \n",
    "",
    "né日本 👍🏽",
    "one\n\n\ntwo",
    "The answer",
]


def conversations():
    """Every content as the answer, in one turn and in two, some with a thought."""
    for number, content in enumerate(CONTENTS):
        answer = {"role": "assistant", "content": content}
        if number % 2:
            answer["reasoning_content"] = "so it is"
        question = {"role": "user", "content": CONTENTS[-1 - number] or "x"}
        yield [question, answer]
        yield [
            question,
            answer,
            {"role": "user", "content": "again"},
            {"role": "assistant", "content": "The answer is"},
        ]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A byte-level BPE that has learnt runs of line breaks and of spaces, so that boundaries fall into tokens."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=MARKS
    )
    texts = ["a\n\n\nb\n\nc\n"] * 20 + ["Q: hello there A: The answer  is  A:  one"] * 20
    tokenizer.train_from_iterator(texts, trainer)
    folder = tmp_path_factory.mktemp("tiny")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin|>", eos_token="<|end|>")
    fast.save_pretrained(folder)
    return folder


def compared(folder, template, records, tmp_path):
    """How many tokens straddle a start, after every other label was found to be what transformers says."""
    (tmp_path / "t.jinja").write_text(template)
    reference = AutoTokenizer.from_pretrained(folder)
    reference.chat_template = template
    _, out = pack(
        tmp_path, [{"messages": record} for record in records],
        tokenizer=folder, chat_template=tmp_path / "t.jinja", max_seq_len=8192, on_bad="skip",
    )  # fmt: skip
    found = samples(out)
    straddling = 0
    for number, messages in enumerate(records):
        expected = reference.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        ids, mask = expected["input_ids"], expected["assistant_masks"]
        (text,), (spans,) = render_jinja_template(
            [messages], chat_template=template, return_assistant_tokens_mask=True, **reference.special_tokens_map
        )
        encoded = reference(text, add_special_tokens=False, return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        ours = found.get(number, (ids, [N] * len(ids)))  # a record without a trained token is no sample
        assert ours[0] == ids == encoded["input_ids"]
        for place, (label, on) in enumerate(zip(ours[1], mask, strict=True)):
            if (label != N) == bool(on) or place == 0:  # nothing comes before the first
                continue
            start, stop = offsets[place]
            assert on, (messages, place)
            assert any(start < begin < stop for begin, end in spans if end > begin), (messages, place)
            straddling += 1
    return straddling


# Line breaks at the start of an answer join the header's; "A: " joins the answer's spaces and letters.
STRADDLING = {
    "tiny": {"chatml": 2, "turn end left out": 2, "header in the marks": 0, "thoughts": 0, "no boundary": 10},
    "qwen3": {"chatml": 2, "turn end left out": 2, "no boundary": 22},
    # `<|im_end|>` is text here, and its `>` joins the `<` of the next header.
    "deepseek_v3": {"chatml": 2, "turn end left out": 2, "header in the marks": 24, "no boundary": 22},
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_labels_are_the_masks_but_for_tokens_that_straddle_a_start(tiny, tmp_path, name):
    assert compared(tiny, TEMPLATES[name], list(conversations()), tmp_path) == STRADDLING["tiny"][name]


@pytest.mark.shared
@pytest.mark.parametrize("tokenizer", ["qwen3", "deepseek_v3"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_labels_are_the_masks_with_real_tokenizers(tmp_path, name, tokenizer):
    folder = Path(os.environ["PACKTOOL_SHARED"]) / "tokenizers" / tokenizer
    assert compared(folder, TEMPLATES[name], list(conversations()), tmp_path) == STRADDLING[tokenizer].get(name, 0)
