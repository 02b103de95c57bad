"""The public names: pinned here, so that a change of the API is a change of this file."""

import dataclasses
import importlib
import inspect

import pytest
import typer

import packtool
from packtool.cli.program import app
from packtool.job import Settings

NAMES = {
    "packtool": ["__version__", "open_dataset", "pack"],
    "packtool.plan": [
        "OVERLONG", "STRATEGIES", "Items", "Layout", "Strategy", "balance_batches", "fill_multiple", "limit_lengths",
        "lower_bound", "one_stream", "packing_bound", "random_order", "shuffle_packs", "square_spread", "take_packs",
        "variance_share",
    ],
    "packtool.torch": ["PackedDataset"],
    "packtool.masks": ["block_causal_mask", "cu_seqlens", "input_pos", "piece_ids"],
    "packtool.read": ["Dataset", "open_dataset", "read_ledger"],
    "packtool.errors": ["DataError", "FormatError", "PackError", "RecordError", "UsageError"],
}  # fmt: skip


def module(name):
    if name == "packtool.torch":
        pytest.importorskip("torch")
    return importlib.import_module(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_list_is_pinned(name):
    assert sorted(module(name).__all__) == sorted(NAMES[name])
    assert module(name).__doc__


@pytest.mark.parametrize(("name", "member"), [(name, member) for name in NAMES for member in NAMES[name]])
def test_every_name_is_there_and_says_what_it_is(name, member):
    value = getattr(module(name), member)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value)
        assert value.__module__.startswith("packtool")
        if inspect.isclass(value):
            methods = [
                item for key, item in vars(value).items() if inspect.isfunction(item) and not key.startswith("_")
            ]
            assert all(inspect.getdoc(item) for item in methods)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module `packtool` has no attribute `unpack`"):
        packtool.unpack  # noqa: B018 - the access is the test


def test_the_names_of_the_design():
    from packtool.plan import STRATEGIES, Layout

    assert {"sample", "start", "length", "pack", "num_packs"} == {field.name for field in dataclasses.fields(Layout)}
    assert set(STRATEGIES) == {"mixed", "ffd", "bfd", "shuffle", "greedy", "none"}
    assert list(inspect.signature(STRATEGIES["ffd"]).parameters) == ["lengths", "max_seq_len", "seed", "max_samples"]


FIELDS = {field.name: field for field in dataclasses.fields(Settings)}


def test_packs_keywords_are_the_settings():
    parameters = inspect.signature(packtool.pack).parameters
    assert set(parameters) == {*FIELDS, "dry_run", "progress", "notice"}
    keywords = [p.name for p in parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert set(keywords) == set(parameters) - {"inputs"}


def test_packs_defaults_are_the_settings_defaults():
    defaults = Settings()
    for name, parameter in inspect.signature(packtool.pack).parameters.items():
        if (
            name in FIELDS
            and parameter.default is not inspect.Parameter.empty
            and name not in ("columns", "template_args")
        ):
            assert parameter.default == getattr(defaults, name), name


def test_pack_documents_every_keyword():
    text = inspect.getdoc(packtool.pack)
    for name in inspect.signature(packtool.pack).parameters:
        assert f"\n    {name}: " in text, name


def test_the_flags_are_the_settings():
    command = typer.main.get_command(app).commands["pack"]
    names = {parameter.name for parameter in command.params if parameter.name not in ("help", "version")}
    assert names == {*FIELDS, "config", "dry_run", "as_json", "quiet"}
    for parameter in command.params:
        if parameter.name in FIELDS and parameter.name != "inputs":
            assert f"--{parameter.name.replace('_', '-')}" in parameter.opts
        if parameter.name in FIELDS:  # the defaults are Settings', so that flags that were not given do not win
            assert parameter.default in (None, []), parameter.name
