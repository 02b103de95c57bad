"""Each rule is switched off in a copy of packtool, and the tests that hold it must fail: none of them is for show.

A row names the kind of fault, the rule, what is replaced in which file, and tests of the kind's file. A text that is
not found exactly once fails its row: then the code has changed, and the row must be brought up to date.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import pytest

import packtool

HERE = Path(__file__).parent
SOURCE = Path(packtool.__file__).parent
FILES = {path.name.split("_")[2]: path for path in sorted(HERE.glob("test_kind_*.py"))}
# Imports the copy and says so before pytest does anything; `-P` keeps the current folder out of the search.
RUN = "import packtool, pytest, sys; assert packtool.__file__ == sys.argv[1]; sys.exit(pytest.main(sys.argv[2:]))"
# How a test may fail. Any other exception could be a fault of the replacement, so a row names the one it expects.
FAILURE = "AssertionError|assert |Failed: DID NOT RAISE"


@dataclass(frozen=True)
class Rule:
    """A rule, how it is switched off, and which tests notice.

    Attributes:
        kind: `a` to `i`.
        name: what the code does.
        changes: (file in packtool, text that is there once, what replaces it).
        tests: tests of the kind's file that fail without the rule; of a parametrized one, at least one case.
        failure: pattern of the failures' messages.
    """

    kind: str
    name: str
    changes: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]
    failure: str = FAILURE


def rule(kind, name, file, old, new, *tests, failure=FAILURE, also=()):
    return Rule(kind, name, ((file, old, new), *also), tests, failure)


RULES = [
    # ------------------------------------------------------------------------------------------------ special tokens
    rule("a", "a chat's template is the only source of BOS", "render/__init__.py",
         "result.template, result.roles, warnings=", "result.template, result.roles, bos=True, warnings=",
         "test_bos_comes_once_where_template_and_tokenizer_both_write_it"),
    rule("a", "a chat's template is the only source of its end", "render/__init__.py",
         "result.template, result.roles, warnings=", "result.template, result.roles, eos=True, warnings=",
         "test_a_chat_gets_no_eos_beside_its_turn_end"),
    rule("a", "a BOS that is there is not doubled", "tokenizer/base.py",
         "wants_bos[full] &= raw.ids[starts[full]] != self.bos[0]", "pass",
         "test_bos_spelled_in_text_that_may_hold_it_is_not_doubled"),
    rule("a", "an EOS that is there is not doubled", "tokenizer/base.py",
         "adds_eos = wants_eos & ~there", "adds_eos = wants_eos",
         "test_eos_spelled_in_text_that_may_hold_it_is_not_doubled"),
    rule("a", "control tokens are not made from data", "tokenizer/controls.py",
         "place = self._place.get(found, LOOKALIKE) if template else LOOKALIKE",
         "place = self._place.get(found, LOOKALIKE)",
         "test_eos_spelled_in_data_is_text_and_the_real_one_follows"),
    rule("a", "text ends with EOS", "render/__init__.py",
         '"text"),), bos=True, eos=True)', '"text"),), bos=True, eos=False)',
         "test_eos_is_appended_and_trained", "test_eos_does_not_depend_on_what_the_tokenizer_adds",
         "test_every_two_documents_have_eos_between_them_and_padding_is_not_trained"),
    rule("a", "a completion ends with EOS", "render/__init__.py",
         "roles=roles, bos=True, eos=True, warnings=warnings", "roles=roles, bos=True, eos=False, warnings=warnings",
         "test_eos_is_appended_and_trained", "test_nothing_stands_between_prompt_and_completion"),
    rule("a", "EOS is trained", "tokenizer/base.py",
         "[text.eos_code for text", "[text.eos_code & 0xFE for text",
         "test_eos_is_appended_and_trained", "test_eos_does_not_depend_on_what_the_tokenizer_adds",
         "test_padding_is_known_by_its_place_and_not_by_its_id"),
    rule("a", "padding is not trained", "job/write.py",
         'np.full(packs * size, IGNORE_INDEX, dtypes["labels"])', 'np.full(packs * size, task.pad, dtypes["labels"])',
         "test_every_two_documents_have_eos_between_them_and_padding_is_not_trained",
         failure="FormatError: .*breaks the format"),
    rule("a", "padding is known by its place", "job/write.py",
         "    labels[place] = IGNORE_INDEX", "    labels[place] = labels[all_tokens == task.pad] = IGNORE_INDEX",
         "test_padding_is_known_by_its_place_and_not_by_its_id",
         "test_turn_ends_are_trained_where_the_pad_is_the_turn_end"),
    rule("a", "EOS stands where the document ends", "job/write.py",
         "    all_tokens[target] = tokens\n",
         "    all_tokens[target] = tokens\n    all_tokens[place + lengths - 1] = 258\n",
         "test_eos_comes_at_the_true_end_of_a_document_only"),
    # ------------------------------------------------------------------------------------------------------ boundary
    rule("b", "training starts where the prompt ends", "render/__init__.py",
         '0 if train_on == "all" else cut', '0 if train_on == "all" else len(prompt.rstrip())',
         "test_white_space_at_the_end_of_a_prompt_moves_no_label"),
    rule("b", "the prompt's length is known, not searched for", "render/__init__.py",
         '0 if train_on == "all" else cut', '0 if train_on == "all" else text.find(completion)',
         "test_the_completion_is_never_searched_for"),
    rule("b", "BOS is not counted as prompt", "tokenizer/base.py",
         "codes[target] = raw.codes", "codes[target - np.repeat(before, raw.lengths)] = raw.codes",
         "test_bos_and_eos_are_not_counted_as_prompt"),
    rule("b", "a token that starts at the border is the completion's", "tokenizer/base.py",
         'np.searchsorted(changes[order, 0], starts, side="right")',
         'np.searchsorted(changes[order, 0], starts, side="left")',
         "test_the_first_token_of_the_completion_is_trained", "test_bos_and_eos_are_not_counted_as_prompt",
         "test_a_marker_in_any_script_and_with_a_space_at_its_end"),
    rule("b", "offsets are those of characters", "tokenizer/byte_level.py",
         "np.cumsum((piece & 0xC0) != 0x80, dtype=np.int64)", "np.arange(1, len(piece) + 1, dtype=np.int64)",
         "test_characters_of_several_bytes_count_as_one", "test_a_marker_in_any_script_and_with_a_space_at_its_end"),
    rule("b", "a token belongs to the side where it starts", "tokenizer/hf.py",
         "starts = ends - sizes - np.repeat(", "starts = ends - 1 - np.repeat(",
         "test_a_token_that_straddles_belongs_to_the_side_where_it_starts"),
    rule("b", "one text is encoded once", "tokenizer/hf.py",
         "            texts.append(text)\n",
         "            cut = rendered.trained[0][0]\n            texts.append(_BREAK.join((text[:cut], text[cut:])))\n",
         "test_prompt_and_completion_are_encoded_as_one_text"),
    rule("b", "what a normalizer changed is encoded with its offsets", "tokenizer/hf.py",
         "        if wrong.any():\n", "        if False:\n",
         "test_a_normalizer_that_changes_lengths_moves_no_label"),
    # ---------------------------------------------------------------------------------------------------- which turn
    rule("c", "only the assistant is trained", "render/chat/template.py",
         'for index, message in enumerate(messages) if message.get("role") == "assistant"]',
         "for index, message in enumerate(messages)]",
         "test_only_assistants_are_trained_with_marks_or_without"),
    rule("c", "the turn end is trained", "render/chat/template.py",
         "            return place + len(end)\n", "            return place\n",
         "test_every_turn_end_is_trained_the_last_one_too", "test_only_assistants_are_trained_with_marks_or_without"),
    rule("c", "the header is not trained", "render/chat/template.py",
         "        if shared >= len(self.header):\n            return begin + shared\n",
         "        if shared >= len(self.header):\n            return begin\n",
         "test_only_assistants_are_trained_with_marks_or_without", "test_every_turn_end_is_trained_the_last_one_too"),
    rule("c", "what the generation prompt gives is not trained", "render/chat/template.py",
         "        if shared >= len(self.header):\n            return begin + shared\n",
         "        if shared >= len(self.header):\n            return begin + len(self.header)\n",
         "test_what_the_generation_prompt_gives_is_not_trained"),
    rule("c", "spans are known by origin, not searched for", "render/chat/template.py",
         "        return (start, stop, index) if stop > start else None\n",
         "        at = trace.text.find(trace.text[start:stop])\n        return (at, at + stop - start, index)\n",
         "test_turns_are_not_searched_for_by_their_text", failure="DataError.*lie inside each other"),
    rule("c", "header and turn end are the template's, never data", "tokenizer/controls.py",
         "place = self._place.get(found, LOOKALIKE) if template else LOOKALIKE",
         "place = self._place.get(found, LOOKALIKE)",
         "test_a_header_spelled_in_a_message_opens_no_turn"),
    rule("c", "a conversation is rendered as a whole", "render/chat/template.py",
         '"messages": record_messages(messages),',
         '"messages": [{k: v for k, v in m.items() if k != "reasoning_content"} for m in record_messages(messages)],',
         "test_the_conversation_is_rendered_as_a_whole", "test_what_the_generation_prompt_gives_is_not_trained"),
    rule("c", "marks are followed", "render/chat/template.py",
         "            if self.has_marks:\n                spans =", "            if False:\n                spans =",
         "test_marks_are_followed_exactly_and_a_missing_turn_end_is_reported"),
    rule("c", "marks without the turn end are reported", "render/chat/template.py",
         "warnings[MARKS_WITHOUT_END] = None", "pass",
         "test_marks_are_followed_exactly_and_a_missing_turn_end_is_reported"),
    rule("c", "what cannot be told is refused", "render/chat/calibrate.py",
         'raise TurnEndError("ends an assistant turn without an added token")', 'return "STOP"',
         "test_a_template_whose_turns_cannot_be_told_is_refused_by_name"),
    rule("c", "an answer that leaves no target is refused", "render/chat/template.py",
         "if assistants and not spans:", "if False:",
         "test_a_conversation_whose_answer_is_not_rendered_is_refused_with_its_line"),
    rule("c", "the prompt's answers are not trained", "render/__init__.py",
         "(False,) * len(prompt.items)", "(None,) * len(prompt.items)",
         "test_assistant_turns_of_a_prompt_are_not_trained"),
    rule("c", "the last answer alone", "render/__init__.py",
         'if train_on == "last":', "if False:",
         "test_only_the_last_answer_is_trained_where_that_is_asked_for"),
    rule("c", "tokens are counted by role", "render/chat/template.py",
         'str(messages[message].get("role"))', '"assistant"',
         "test_the_summary_shows_what_is_trained_of_whom"),
    rule("c", "boilerplate stays untrained", "render/__init__.py",
         "if message < 0 or on[message]], result.boilerplate)", "if message < 0 or on[message]], ())",
         "test_what_the_template_adds_of_its_own_accord_can_stay_untrained"),
    rule("c", "a turn end is looked for in the template's text", "render/chat/template.py",
         "place = text.find(end, turn[-1][1], limit)", "place = text.find(end, turn[0][0], limit)",
         "test_a_turn_end_that_is_text_can_be_named", failure="DataError|AssertionError"),
    # ------------------------------------------------------------------------------------------------------ too long
    rule("d", "a cut that leaves no target drops", "plan/overlong.py",
         "untrained = first_trained >= np.minimum(lengths, max_seq_len)", "untrained = first_trained >= lengths",
         "test_a_sample_that_a_cut_leaves_without_a_target_is_dropped_with_its_reason"),
    rule("d", "a split keeps the rest", "plan/overlong.py",
         "pieces = -(-lengths[kept] // max_seq_len)", "pieces = np.maximum(lengths[kept] // max_seq_len, 1)",
         "test_text_of_any_length_is_split_and_nothing_is_lost", "test_targets_that_cuts_cost_are_counted"),
    rule("d", "only plain text is split", "job/prepare.py",
         'return "split" if kind == "text" or', 'return "split" if True or',
         "test_what_is_not_plain_text_is_never_split"),
    rule("d", "a cut keeps the start", "plan/overlong.py",
         "return Items(kept, np.zeros(len(kept), np.int64), length,",
         "return Items(kept, lengths[kept] - length, length,",
         "test_a_cut_keeps_the_start_and_adds_nothing"),
    rule("d", "lost tokens are counted", "job/ledger.py",
         'columns["lost"][sample_row] = rows.lengths - packed_tokens', "pass",
         "test_every_token_that_is_lost_is_counted"),
    rule("d", "drop drops", "plan/overlong.py",
         'kept = np.flatnonzero(~untrained & ~(too_long & (policy != "truncate")))',
         "kept = np.flatnonzero(~untrained)",
         "test_drop_drops_the_whole_sample_and_names_its_line"),
    rule("d", "error refuses", "job/planning.py",
         'if prepared.overlong == "error" and', "if False and",
         "test_error_refuses_the_first_one_by_its_line"),
    rule("d", "more is lost than may be", "job/run.py",
         "if settings.max_lost:", "if False:",
         "test_a_run_that_loses_more_than_it_may_fails"),
    rule("d", "targets that cuts cost are counted", "job/write.py",
         "cut_targets = int(np.count_nonzero(labels[place[is_cut]] != IGNORE_INDEX))", "cut_targets = 0",
         "test_targets_that_cuts_cost_are_counted"),
    # ------------------------------------------------------------------------------------------------- packed result
    rule("e", "a piece's first label is -100", "job/write.py",
         "    labels[place] = IGNORE_INDEX", "    pass",
         "test_a_piece_that_a_cut_begins_starts_untrained_too"),
    rule("e", "a sample's first label is -100, twice held", "job/write.py",
         "    labels[place] = IGNORE_INDEX", "    pass",
         "test_the_last_token_of_a_piece_is_not_trained_to_predict_the_next_piece",
         also=(("job/tokenize.py", "trained[(np.cumsum(lengths) - lengths)[lengths > 0]] = False", "pass"),)),
    rule("e", "labels are not shifted", "job/write.py",
         "labels[target[trained]] = tokens[trained]", "labels[target[trained] - 1] = tokens[trained]",
         "test_labels_are_the_tokens_of_their_own_slots",
         "test_a_sample_has_the_labels_in_a_pack_that_it_has_alone"),
    rule("e", "positions start again", "job/write.py",
         "positions.reshape(-1)[target] = inside", "positions.reshape(-1)[target] = target % size",
         "test_positions_start_again_at_every_piece_and_all_arrays_have_one_length"),
    rule("e", "padding is in no piece", "job/write.py",
         'seq_lens=lengths.astype(dtypes["seq_lens"])',
         'seq_lens=np.where(np.isin(np.arange(len(lengths)), offsets[1:] - 1), size - slot, lengths)'
         '.astype(dtypes["seq_lens"])',
         "test_lengths_are_stored_and_padding_is_in_no_piece"),
    rule("e", "packs are planned with stored lengths", "job/planning.py",
         "            items.length, size, seed=settings.seed", "            items.length - 1, size, seed=settings.seed",
         "test_packs_are_planned_with_the_lengths_that_are_stored"),
    rule("e", "every sample is placed", "job/planning.py",
         "    if not layout.num_packs:\n",
         "    layout = take_packs(layout, np.arange(1, layout.num_packs, dtype=np.int64))\n"
         "    if not layout.num_packs:\n",
         "test_every_record_is_in_the_packs_once_and_in_full"),
    rule("e", "greedy is not shuffled", "job/planning.py",
         'if settings.shuffle and settings.strategy != "greedy":', "if settings.shuffle:",
         "test_greedy_keeps_the_order_of_the_input"),
    # --------------------------------------------------------------------------------------------------------- empty
    rule("f", "an empty text is no sample", "render/__init__.py",
         "    if not text.strip():\n", "    if False:\n",
         "test_an_empty_text_is_counted_and_makes_no_sample"),
    rule("f", "an empty answer is no sample", "render/__init__.py",
         "    if not completion.strip():\n", "    if False:\n",
         "test_an_empty_answer_is_counted_and_makes_no_sample", "test_a_set_that_became_empty_says_why"),
    rule("f", "null is not text", "render/columns.py",
         "        if optional:\n", "        if True:\n",
         "test_a_null_field_is_refused_with_its_line"),
    rule("f", "an optional column may be null", "render/columns.py",
         "        if optional:\n", "        if False:\n",
         "test_an_optional_column_that_is_null_is_as_good_as_missing", failure="DataError.*column `input` is"),
    rule("f", "other types are not text", "render/columns.py",
         'raise RecordError(f"column `{column}` is of type {type(value).__name__}, expected text")',
         "return str(value)",
         "test_a_value_of_another_type_is_refused_by_its_type"),
    rule("f", "the last pack may be partly filled", "job/planning.py",
         "    if not layout.num_packs:\n",
         "    filled = np.bincount(layout.pack, weights=layout.length)\n"
         "    layout = take_packs(layout, np.flatnonzero(filled == size))\n    if not layout.num_packs:\n",
         "test_one_character_and_less_than_one_pack_are_enough", "test_the_last_pack_may_be_partly_filled",
         failure=FAILURE + "|DataError: nothing is left to pack"),
    rule("f", "what became empty says why", "job/planning.py",
         '"are empty": int(outcomes[1])', '"are empty": 0',
         "test_a_set_that_became_empty_says_why"),
    rule("f", "what was empty says so", "sources/sniff.py",
         "    if not raw:\n", "    if False:\n",
         "test_a_set_that_was_empty_says_so"),
    rule("f", "a first token is no target", "job/tokenize.py",
         "trained[(np.cumsum(lengths) - lengths)[lengths > 0]] = False", "pass",
         "test_a_sample_whose_only_target_is_its_first_token_is_dropped"),
    rule("f", "the kind is said", "job/prepare.py",
         '    if settings.kind == "auto":\n', "    if False:\n",
         "test_the_kind_of_data_is_said_and_recorded"),
    # --------------------------------------------------------------------------------------------------------- files
    rule("g", "content decides, not the name", "sources/sniff.py",
         "return _lines_or_values(body, whole=len(head) < HEAD_BYTES)",
         'return "jsonl" if ending == ".jsonl" else "json"',
         "test_content_decides_how_a_json_file_is_read_and_not_its_name", failure="packtool.errors.DataError"),
    rule("g", "a byte-order mark is skipped", "sources/streams.py",
         "skipped = len(BOM) if head.startswith(BOM) else 0", "skipped = 0",
         "test_byte_order_mark_line_ends_and_blank_lines_are_no_data", failure="packtool.errors.DataError"),
    rule("g", "files are UTF-8", "sources/values.py",
         "        text = raw.decode()\n", '        text = raw.decode("latin-1")\n',
         "test_files_are_utf8_whatever_the_locale_says"),
    rule("g", "UTF-16 is refused by name", "sources/sniff.py",
         "if encoding := _startswith(head, OTHER_UNICODE):", "if encoding := None:",
         "test_files_that_are_not_the_data_are_refused_with_what_to_do"),
    rule("g", "git-LFS pointers are refused by name", "sources/sniff.py",
         'if head.startswith(b"version https://git-lfs"):', "if False:",
         "test_files_that_are_not_the_data_are_refused_with_what_to_do"),
    rule("g", "columns have no type", "render/instruct.py",
         "if all(values[text] for is_field, text in v[0] if is_field)", "if False",
         "test_a_column_may_be_null_for_long_and_then_text"),
    rule("g", "records are typed one by one", "render/messages.py",
         "    if not isinstance(content, list):\n", "    if True:\n",
         "test_every_record_is_typed_by_itself", failure="DataError.*has content of type list"),
    rule("g", "a wrong value is refused", "render/columns.py",
         'raise RecordError(f"column `{column}` is of type {type(value).__name__}, expected text")',
         "return str(value)",
         "test_one_wrong_value_costs_one_record_and_names_it"),
    rule("g", "a broken line has a hint", "sources/values.py",
         'if error.msg.startswith("Unterminated string"):', "if False:",
         "test_a_broken_line_is_named_with_a_hint_before_training"),
    rule("g", "NaN is not JSON", "sources/values.py",
         "json.JSONDecoder(parse_constant=_refuse)", "json.JSONDecoder()",
         "test_a_broken_line_is_named_with_a_hint_before_training"),
    rule("g", "lone surrogates are replaced", "sources/values.py",
         'return SURROGATE.subn("\\ufffd", value)', "return value, 0",
         "test_half_of_a_surrogate_pair_is_replaced_and_counted", failure="UnicodeEncodeError"),
    rule("g", "lone surrogates are counted", "job/tokenize.py",
         "isinstance(record, Record) and record.replaced else said", "False else said",
         "test_half_of_a_surrogate_pair_is_replaced_and_counted"),
    rule("g", "cells stay text", "sources/delimited.py",
         "return Record(dict(zip(header, row, strict=True)), place, -1)",
         "return Record({k: str(int(v)) if v.isdigit() else v for k, v in zip(header, row, strict=True)}, place, -1)",
         "test_cells_of_csv_stay_the_text_they_are"),
    rule("g", "large ids have room", "format/arrays.py",
         'tokens: DTypeLike = "<u2" if small and vocab_size <= 65_536 else "<u4"', 'tokens: DTypeLike = "<u2"',
         "test_ids_beyond_16_bits_are_stored_as_they_are"),
    rule("g", "the type on disk is checked", "read/npy.py",
         "    if found != expected:\n", "    if False:\n",
         "test_a_file_of_another_type_than_the_manifest_says_is_refused"),
    # ----------------------------------------------------------------------------------------------- roles and tools
    rule("h", "arguments become an object", "render/tool_calls.py",
         "    for _ in range(2):  # JSON text in JSON text\n", "    for _ in range(0):\n",
         "test_a_call_gives_the_same_ids_however_it_is_spelled"),
    rule("h", "null is no content", "render/messages.py",
         "words = [item[key] for key in _WORDS if item.get(key) is not None]",
         "words = [str(item[key]) for key in _WORDS if key in item]",
         "test_a_call_gives_the_same_ids_however_it_is_spelled"),
    rule("h", "the old spelling of a call is a call", "render/messages.py",
         "    return calls or legacy\n", "    return calls\n",
         "test_a_call_gives_the_same_ids_however_it_is_spelled", failure=FAILURE + "|DataError.*calls no tool"),
    rule("h", "no calls are no calls", "render/tool_calls.py",
         "value = None if value.strip() in _EMPTY else parsed(value)", "value = [value]",
         "test_no_calls_in_any_spelling_are_no_calls", failure="packtool.errors.DataError"),
    rule("h", "tools as text are read", "render/tool_calls.py",
         "            value = json.loads(value)\n        except", "            value = []\n        except",
         "test_tools_as_json_text_are_tools_and_bad_json_is_refused"),
    rule("h", "roles have many names", "render/messages.py",
         "    known = ROLES.get(str(name).strip().lower())\n", "    known = {r: r for r in ROLES.values()}.get(name)\n",
         "test_roles_have_many_names", failure="DataError.*has the role"),
    rule("h", "unknown roles are refused", "render/messages.py",
         "    if known is None:\n", '    if known is None:\n        return "user"\n    if False:\n',
         "test_a_role_that_nobody_knows_is_refused_by_name"),
    rule("h", "a turn may be a call", "render/messages.py",
         '"function_call": "call", "tool_call": "call",', '"function_call": "assistant", "tool_call": "assistant",',
         "test_calls_and_results_as_turns_of_their_own"),
    rule("h", "what a template raises is an error of the record", "render/chat/template.py",
         'raise RecordError(f"the chat template raised: {_why(error)}; {_roles(messages)}") from error',
         'return ChatText("", (), (), (), ())',
         "test_a_template_that_refuses_a_record_is_reported_with_line_and_roles"),
    rule("h", "parts are joined", "render/messages.py",
         'return "".join(part if isinstance(part, str) else _part(part, place) for part in content)',
         "return str(content)",
         "test_parts_of_text_are_joined_and_pictures_are_refused_by_name"),
    rule("h", "pictures among parts are refused", "render/messages.py",
         'raise RecordError(f"message {place} has a part of type {kind!r}, expected text: packtool packs text only")',
         'return ""',
         "test_parts_of_text_are_joined_and_pictures_are_refused_by_name"),
    rule("h", "pictures beside the text are refused", "render/messages.py",
         "        if record.get(name):\n", "        if False:\n",
         "test_parts_of_text_are_joined_and_pictures_are_refused_by_name"),
    rule("h", "control tokens are not made from data", "tokenizer/controls.py",
         "place = self._place.get(found, LOOKALIKE) if template else LOOKALIKE",
         "place = self._place.get(found, LOOKALIKE)",
         "test_control_tokens_that_a_user_types_stay_text"),
    rule("h", "a system text beside the messages is theirs", "render/conversations.py",
         "    if not texts:\n        return messages\n", "    return messages\n",
         "test_a_system_text_beside_the_messages_comes_first"),
    # ------------------------------------------------------------------------------------------------------ switches
    rule("i", "switches are honoured", "render/__init__.py",
         "[switch is not False for switch in messages.switches]", "[True for switch in messages.switches]",
         "test_a_turn_that_is_switched_off_is_not_trained", "test_masked_turns_a_turn_off_and_not_on",
         "test_a_record_whose_turns_are_all_off_is_dropped_with_its_reason"),
    rule("i", "`masked` is the other way round", "render/switches.py",
         '"masked": False,', '"masked": True,',
         "test_masked_turns_a_turn_off_and_not_on"),
    rule("i", "a switch has two positions", "render/switches.py",
         "if not isinstance(value, bool | int | float) or value not in (0, 1):", "if False:",
         "test_a_weight_that_labels_cannot_hold_is_refused"),
    rule("i", "switches that contradict each other are refused", "render/switches.py",
         "if said is not None and said != on:", "if False:",
         "test_switches_that_contradict_each_other_are_refused"),
    rule("i", "a switch against the run is counted", "render/__init__.py",
         "        if not all(on):\n", "        if False:\n",
         "test_a_switch_against_train_on_all_is_counted"),
    rule("i", "a switch on another's turn is counted", "render/messages.py",
         "(SWITCHED_ON,) if stray else ()", "()",
         "test_a_switch_that_would_train_the_user_is_counted_and_does_not"),
]  # fmt: skip


def assert_it_is_there(needed):
    for name, old, new in needed.changes:
        found = (SOURCE / name).read_text("utf-8").count(old)
        assert found == 1, f"packtool/{name} has this {found} times, expected once: {old!r}"
        assert new != old


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """packtool's own files, compiled, so that a copy of them starts quickly."""
    copy = tmp_path_factory.mktemp("original") / "packtool"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(copy)], check=True)
    return copy


def outcomes(folder, copy, tests):
    """Test -> messages of its failures, from a run of pytest that imports the copy; and the exit status."""
    report = folder / "report.xml"
    options = ["-q", "-c", os.devnull, f"--rootdir={HERE}", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command = [sys.executable, "-P", "-c", RUN, str(copy / "__init__.py"), *options, *tests]
    # Plugins are most of the time it takes to start, and none is needed.
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert report.is_file(), done.stdout + done.stderr
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        assert case.find("error") is None, done.stdout
        messages = found.setdefault(case.get("name").partition("[")[0], [])
        messages += [failure.get("message") for failure in case.iter("failure")]
    return found, done.returncode


@pytest.mark.slow
def test_the_tests_pass_on_a_copy_with_every_rule(tmp_path, original):
    found, status = outcomes(tmp_path, original, [str(path) for path in FILES.values()])
    assert (status, [name for name, messages in found.items() if messages]) == (0, [])
    assert set(found) == {name for path in FILES.values() for name in named_in(path)}


@pytest.mark.slow
@pytest.mark.parametrize("switched_off", RULES, ids=lambda rule: f"{rule.kind}: {rule.name}")
def test_without_the_rule_its_tests_fail(tmp_path, original, switched_off):
    assert_it_is_there(switched_off)
    copy = tmp_path / "packtool"
    shutil.copytree(original, copy)
    for name, old, new in switched_off.changes:
        path = copy / name
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
    file = FILES[switched_off.kind]
    found, status = outcomes(tmp_path, copy, [f"{file}::{name}" for name in switched_off.tests])
    assert status == 1
    assert sorted(found) == sorted(switched_off.tests)
    for name, messages in found.items():
        assert messages, f"{name} passes without the rule"
        for message in messages:
            assert re.search(switched_off.failure, message), f"{name} fails for another reason: {message}"


def named_in(path):
    """Names of a file's tests."""
    body = ast.parse(path.read_text("utf-8")).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def test_every_kind_has_a_file_and_every_test_a_rule_that_it_needs():
    assert list(FILES) == list("abcdefghi")
    for kind, path in FILES.items():
        named = {name for rule in RULES if rule.kind == kind for name in rule.tests}
        assert named == set(named_in(path)), kind


def test_what_is_replaced_is_there():
    for each in RULES:
        assert_it_is_there(each)
