"""The control marks of the built-in chat templates, to say which of them a tokenizer would cut into pieces."""

from collections.abc import Collection, Mapping

__all__ = ["missing_marks"]

_MARKS: Mapping[str, tuple[str, ...]] = {
    "chatml": ("<|im_start|>", "<|im_end|>"),
    "gemma": ("<start_of_turn>", "<end_of_turn>"),
    "llama3": ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    "mistral": ("[INST]", "[/INST]"),
    "zephyr": ("<|system|>", "<|user|>", "<|assistant|>"),
}
# These templates write EOS by the tokenizer's name for it, else in the format's own spelling.
_EOS = {"mistral": "</s>", "zephyr": "</s>"}


def missing_marks(name: str, added_tokens: Collection[str], special: Mapping[str, str]) -> list[str]:
    """Marks of the built-in template `name` that are no added token; none for any other template."""
    marks = list(_MARKS.get(name, ()))
    if name in _EOS:
        marks.append(special.get("eos_token", _EOS[name]))
    return [mark for mark in marks if mark not in added_tokens]
