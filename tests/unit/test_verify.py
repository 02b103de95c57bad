"""verify against datasets broken on purpose: each promise in turn, with every checksum made to fit again.

Five records, packs of 8, two packs a shard, nothing shuffled; `|` ends a piece and `.` is padding:

    pack 0   k l m n o p q r     record 3, its first 8 tokens       shard-00000
    pack 1   f g h i j E . .     record 2
    pack 2   a b c E | s t u E   record 0, the rest of record 3     shard-00001
    pack 3   d e E . . . . .     record 1                           record 4 is empty
"""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import packtool
from packtool.format import (
    content_digest,
    ledger_digest,
    manifest_from_bytes,
    manifest_json,
    pack_digests,
)
from packtool.inspect import verify
from packtool.read import read_ledger
from packtool.storage import file_entries

EOS, PAD = 258, 256
TEXTS = ["abc", "de", "fghij", "klmnopqrstu", " "]
KEYWORDS = {"max_seq_len": 8, "strategy": "ffd", "shuffle": False, "tokenizer": "bytes", "workers": 1}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    for name, storage, compression in (
        ("npy", "npy", "none"),
        ("parquet", "parquet", "none"),
        ("zstd", "parquet", "zstd"),
    ):
        size = 2 * 8 * (10 if storage == "npy" else 12)
        packtool.pack([path], out=folder / name, format=storage, compression=compression, shard_size=size, **KEYWORDS)
    return folder


class Broken:
    """A copy to break; `seal` makes all sums fit what is there."""

    def __init__(self, path):
        self.path = path

    @property
    def manifest(self):
        return manifest_from_bytes((self.path / "manifest.json").read_bytes(), "manifest.json")

    def array(self, pack, column):
        """The shard's array that holds a pack, to be changed in place, and the pack's row in it."""
        return np.load(self.path / f"shard-0000{pack // 2}" / f"{column}.npy", mmap_mode="r+"), pack % 2

    def set(self, column, pack, slot, value):
        array, row = self.array(pack, column)
        array[row, slot] = value
        array.flush()

    def set_piece(self, column, shard, piece, value):
        array, _ = self.array(2 * shard, column)
        array[piece] = value
        array.flush()

    def rows(self):
        return pq.read_table(self.path / "ledger.parquet").to_pylist()

    def edit_ledger(self, edit):
        path = self.path / "ledger.parquet"
        table = pq.read_table(path)
        rows = table.to_pylist()
        edit(rows)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path)

    def seal(self, *, content=True, **changes):
        manifest = self.manifest
        shards = tuple(
            dataclasses.replace(shard, files=file_entries(self.path, [file.path for file in shard.files]))
            for shard in manifest.shards
        )
        files = file_entries(self.path, [file.path for file in manifest.files])
        manifest = dataclasses.replace(manifest, shards=shards, files=files)
        self.write(dataclasses.replace(manifest, **changes))
        if content:
            data = packtool.open_dataset(self.path)
            digests = b"".join(pack_digests(data.rows(start, start + 2)) for start in (0, 2))
            ledger = ledger_digest(read_ledger(self.path / "ledger.parquet"))
            self.write(dataclasses.replace(self.manifest, content_sha256=content_digest(8, digests, ledger)))

    def write(self, manifest):
        (self.path / "manifest.json").write_bytes(manifest_json(manifest))


@pytest.fixture
def broken(originals, tmp_path):
    return Broken(Path(shutil.copytree(originals / "npy", tmp_path / "npy")))


def problems(broken):
    report = verify(broken.path)
    assert report.problems == list(dict.fromkeys(report.problems)), "a problem is listed twice"
    return report.problems


def test_the_picture_above_is_right(originals):
    data = packtool.open_dataset(originals / "npy")
    pieces = {0: "klmnopqr", 1: "fghijE", 2: "abcEstuE", 3: "deE"}
    for number, letters in pieces.items():
        tokens = [EOS if letter == "E" else ord(letter) for letter in letters]
        assert data[number].tokens.tolist() == tokens + [PAD] * (8 - len(tokens))
    assert [data[i].records.tolist() for i in range(4)] == [[3], [2], [0, 3], [1]]
    assert [shard.packs for shard in data.manifest.shards] == [2, 2]


@pytest.mark.parametrize("name", ["npy", "parquet", "zstd"])
def test_a_sound_dataset_has_no_problem(originals, name):
    report = verify(originals / name)
    assert report.problems == []
    assert report.without_target == []
    assert (report.path, report.packs, report.records) == (str(originals / name), 4, 5)


def test_sealing_alone_changes_nothing(broken):
    before = (broken.path / "manifest.json").read_bytes()
    broken.seal()
    assert (broken.path / "manifest.json").read_bytes() == before
    assert problems(broken) == []


# ---------------------------------------------------------------------------------------------------------------- packs


def one_slot(column, pack, slot, value):
    return lambda broken: broken.set(column, pack, slot, value)


def both(*edits):
    def edit(broken):
        for one in edits:
            one(broken)

    return edit


def swap_seq_lens(broken):
    broken.set_piece("seq_lens", 1, 0, 3)
    broken.set_piece("seq_lens", 1, 1, 5)


PACK_FAULTS = {
    "a label of another id": (one_slot("labels", 2, 1, 7), ["a label is neither -100 nor its token: pack 2"]),
    "a label shifted by one": (one_slot("labels", 0, 1, ord("m")), ["a label is neither -100 nor its token: pack 0"]),
    "a label of -1": (one_slot("labels", 1, 2, -1), ["a label is neither -100 nor its token: pack 1"]),
    "trained padding": (one_slot("labels", 1, 7, PAD), ["padding is trained: pack 1"]),
    "trained padding at its start": (one_slot("labels", 3, 3, PAD), ["padding is trained: pack 3"]),
    "padding with another id": (one_slot("tokens", 1, 6, 5), ["padding is not the padding id: pack 1"]),
    "an id outside the vocabulary": (
        both(one_slot("tokens", 0, 3, 261), one_slot("labels", 0, 3, 261)),
        ["a token is outside the vocabulary: pack 0"],
    ),
    "positions that run on": (one_slot("input_pos", 2, 4, 4), ["input_pos is not the place in the piece: pack 2"]),
    "positions that start at one": (
        one_slot("input_pos", 0, 0, 1), ["input_pos is not the place in the piece: pack 0"],
    ),
    "padding that counts on": (one_slot("input_pos", 3, 3, 3), ["input_pos is not the place in the piece: pack 3"]),
    "a trained first token": (one_slot("labels", 2, 4, ord("s")), ["the first token of a piece is trained: pack 2"]),
    "a trained first token of a pack": (
        one_slot("labels", 0, 0, ord("k")), ["the first token of a piece is trained: pack 0"],
    ),
    "a boundary in another place": (
        swap_seq_lens,
        ["input_pos is not the place in the piece: pack 2", "ledger and shards differ on a piece: pack 2"],
    ),
    "a shorter piece": (
        lambda broken: broken.set_piece("seq_lens", 1, 2, 2),
        ["ledger and shards differ on a piece: pack 3", "padding is not the padding id: pack 3"],
    ),
    "another record": (
        lambda broken: broken.set_piece("records", 1, 2, 0),
        ["ledger and shards differ on a piece: pack 3", "manifest `samples` says 4, counted 3"],
    ),
    "a record that is not there": (
        lambda broken: broken.set_piece("records", 0, 1, 99),
        ["ledger and shards differ on a piece: pack 1"],
    ),
    "a whole sample without a trained token": (
        both(*[one_slot("labels", 3, slot, -100) for slot in range(8)]),
        ["a whole sample has no trained token: row 1", "manifest `trained` says 20, counted 18"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PACK_FAULTS)
def test_a_fault_in_a_pack_is_named(broken, name):
    edit, expected = PACK_FAULTS[name]
    edit(broken)
    broken.seal()
    found = problems(broken)
    assert [words for words in expected if words not in found] == []
    places = {place for words in expected for place in words.split(": ")[1:]}
    assert all(place in places for problem in found for place in problem.split(": ")[1:]), "a sound place is named"


def test_faults_of_many_packs_are_counted(broken):
    for pack in range(4):
        broken.set("input_pos", pack, 1, 5)
    broken.seal()
    assert "input_pos is not the place in the piece: pack 0, 1, 2, 3" in problems(broken)


def test_packs_without_a_target_are_noted_and_are_no_fault(broken):
    for slot in range(8):
        broken.set("labels", 0, slot, -100)  # the first piece of a split sample
    broken.seal(trained=broken.manifest.trained - 7)
    report = verify(broken.path)
    assert report.problems == []
    assert report.without_target == [0]


def test_two_packs_that_changed_places_are_found(broken):
    for column in ("tokens", "labels", "input_pos"):
        array, _ = broken.array(0, column)
        array[[0, 1]] = array[[1, 0]]
        array.flush()
    for column in ("seq_lens", "records"):
        array, _ = broken.array(0, column)
        array[:2] = array[[1, 0]]
        array.flush()
    broken.seal()
    assert "ledger and shards differ on a piece: pack 0, 1" in problems(broken)


# --------------------------------------------------------------------------------------------------------------- ledger


def row(number, **values):
    def edit(rows):
        assert set(values) <= set(rows[number])
        rows[number].update(values)

    return edit


LEDGER_FAULTS = {
    "a number twice": (row(1, record=0), "a ledger row does not have its own number: row 1"),
    "a record without a row of its own": (row(4, record=-1), "row 4"),
    "a counted row before others": (row(2, record=-1), "a counted row stands before others: row 2"),
    "a file that is not there": (row(3, file=1), "a ledger row names no input file: row 3"),
    "a negative file": (row(0, file=-1), "a ledger row names no input file: row 0"),
    "a record counted twice": (row(2, count=2), "a record is counted more or less than once: row 2"),
    "a record not counted": (row(2, count=0), "a record is counted more or less than once: row 2"),
    "tokens that went nowhere": (row(2, tokens=7), "tokens are not packed + lost: row 2"),
    "a loss that was none": (row(3, lost=4), "tokens are not packed + lost: row 3"),
    "a dropped record with a place": (
        row(1, outcome="dropped"), "a packed record has no place, or another one has: row 1",
    ),
    "a packed record without a place": (
        row(4, outcome="packed"), "a packed record has no place, or another one has: row 4",
    ),
    "a loss without a reason": (row(0, tokens=5, lost=1), "a record lost tokens without a reason: row 0"),
    "pieces that overlap": (row(3, sample_starts=[0, 7]), "two pieces of a record overlap: row 3"),
    "another pack": (row(1, packs=[1]), "ledger and shards differ on a piece"),
    "another slot": (row(1, starts=[1]), "ledger and shards differ on a piece: pack 3"),
    "another length": (row(1, lengths=[2], lost=1, reason="truncated"), "ledger and shards differ on a piece: pack 3"),
    "a place too few": (
        row(1, packs=[], starts=[], sample_starts=[], lengths=[], outcome="dropped", reason="no_target", lost=3),
        "the ledger has 4 places, the shards have 5 pieces",
    ),
    "a place too many": (
        row(4, packs=[3], starts=[3], sample_starts=[0], lengths=[1], outcome="packed", tokens=1),
        "the ledger has 6 places, the shards have 5 pieces",
    ),
    "a piece beyond its sample": (row(0, sample_starts=[1]), "row 0"),
    "a piece before its sample": (row(0, sample_starts=[-1]), "row 0"),
    "negative tokens": (row(4, tokens=-1, lost=-1), "row 4"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEDGER_FAULTS)
def test_a_fault_in_the_ledger_is_named(broken, name):
    edit, words = LEDGER_FAULTS[name]
    broken.edit_ledger(edit)
    broken.seal()
    assert [problem for problem in problems(broken) if words in problem] != []


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (row(4, outcome="vanished"), "has the outcome 'vanished', expected one of 'packed', 'dropped'"),
        (row(0, reason="bored"), "has the reason 'bored', expected one of '', 'truncated'"),
        (row(4, outcome=None), "has nulls in ['outcome'], expected none"),
    ],
)
def test_a_word_that_the_ledger_does_not_know_is_refused_where_it_is_read(broken, edit, words):
    broken.edit_ledger(edit)
    broken.seal(content=False)
    assert [words in problem and "ledger.parquet" in problem for problem in problems(broken)] == [True]


def test_a_record_that_the_ledger_leaves_out_is_found(broken):
    """The file had five records and the ledger knows four: every record read is in the ledger exactly once."""
    broken.edit_ledger(lambda rows: rows.pop())
    broken.seal(records=4, outcomes={"packed": 4})
    assert [problem for problem in problems(broken) if "records" in problem] != []


def test_a_ledger_that_is_none_is_named(broken):
    path = broken.path / "ledger.parquet"
    path.write_bytes(b"no Parquet")
    broken.seal(content=False)
    assert [str(path) in problem for problem in problems(broken)] == [True]


@pytest.mark.parametrize("column", ["record", "count", "packs", "detail"])
def test_a_ledger_without_a_column_is_named(broken, column):
    path = broken.path / "ledger.parquet"
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    broken.seal(content=False)
    (problem,) = problems(broken)
    assert str(path) in problem
    assert "columns" in problem


@pytest.mark.parametrize("column", ["starts", "lengths", "sample_starts"])
def test_a_ledger_with_lists_of_different_lengths_is_named(broken, column):
    broken.edit_ledger(row(3, **{column: [0]}))
    broken.seal(content=False)
    (problem,) = problems(broken)
    assert f"`{column}` and `packs` have different numbers of places" in problem


@pytest.mark.parametrize("column", ["record", "count", "tokens", "lost", "place"])
def test_a_ledger_with_a_hole_is_named(broken, column):
    path = broken.path / "ledger.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[2][column] = None
    schema = pa.schema([field.with_nullable(True) for field in table.schema])
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    broken.seal(content=False)
    assert [problem for problem in problems(broken) if str(path) in problem] != []


# --------------------------------------------------------------------------------------------------------------- totals


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trained": 3}, "manifest `trained` says 3, counted "),
        ({"samples": 5}, "manifest `samples` says 5, counted 4"),
        ({"tokens": 26, "lower_bound": 4}, "manifest `tokens` says 26, counted 25"),
        ({"max_pieces": 3}, "manifest `max_pieces` says 3, counted 2"),
        ({"lost": {"truncated": 1}}, "manifest `lost` says {'truncated': 1}, counted {}"),
        ({"outcomes": {"packed": 3, "empty": 2}}, "manifest `outcomes` says "),
        ({"outcomes": {"packed": 4, "empty": 2}, "records": 6}, "manifest `records` says 6, counted 5"),
        ({"content_sha256": "0" * 64}, "the content digest is "),
    ],
)
def test_a_total_that_is_wrong_is_named(broken, changes, words):
    broken.seal(content=False, **changes)
    assert [problem for problem in problems(broken) if words in problem] != []


# ---------------------------------------------------------------------------------------------------------------- files


def flip(path, at, bit=1):
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["npy", "parquet", "zstd"])
def test_a_flipped_bit_in_any_file_is_found(originals, tmp_path, name):
    tried = 0
    for path in sorted((originals / name).rglob("*")):
        if not path.is_file() or path.name == "build.json":
            continue
        size = path.stat().st_size
        for at in sorted({0, size // 3, size // 2, size - 1}):
            copy = Path(shutil.copytree(originals / name, tmp_path / f"copy{tried}"))
            flip(copy / path.relative_to(originals / name), at, 1 << (at % 8))
            found = verify(copy).problems
            assert len(found) == 1, (path, at, found)
            assert str(copy / path.relative_to(originals / name)) in found[0]
            shutil.rmtree(copy)
            tried += 1
    assert tried > 20


def test_build_json_is_nobodys_business(broken):
    (broken.path / "build.json").write_text("anything")
    assert problems(broken) == []
    (broken.path / "build.json").unlink()
    assert problems(broken) == []


def listed_files(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return [file["path"] for file in manifest["files"] + [f for shard in manifest["shards"] for f in shard["files"]]]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", ["npy", "parquet", "zstd"])
def test_missing_short_and_long_files_are_found_even_in_quick_mode(originals, tmp_path, name, quick):
    for number, file in enumerate(listed_files(originals / name)):
        for how in ("missing", "short", "long"):
            copy = Path(shutil.copytree(originals / name, tmp_path / f"{number}{how}"))
            path = copy / file
            data = path.read_bytes()
            path.unlink()
            if how != "missing":
                path.write_bytes(data[:-1] if how == "short" else data + b"\0")
            (problem,) = verify(copy, quick=quick).problems
            assert str(path) in problem


def test_quick_mode_looks_at_no_contents(broken):
    path = broken.path / "shard-00001" / "tokens.npy"
    flip(path, path.stat().st_size - 1)
    report = verify(broken.path, quick=True)
    assert report.problems == []
    assert (report.packs, report.records) == (4, 5)
    assert [str(path) in problem for problem in problems(broken)] == [True]


def test_quick_mode_looks_at_offsets(broken):
    broken.set_piece("seq_offsets", 1, 1, 1)  # packs 2 and 3 with one and two pieces: 4, and 4 + 3; piece 0 stays
    broken.seal(content=False)
    assert verify(broken.path, quick=True).problems == []  # it opens: nothing can leave a file
    assert "ledger and shards differ on a piece: pack 3" in problems(broken)
    broken.set_piece("seq_offsets", 1, 1, 3)  # no piece at all in the second
    broken.seal(content=False)
    (problem,) = verify(broken.path, quick=True).problems
    assert str(broken.path / "shard-00001" / "seq_offsets.npy") in problem


def test_what_is_no_dataset_is_one_problem(tmp_path):
    (missing,) = verify(tmp_path / "missing").problems
    assert missing == f"`{tmp_path / 'missing'}` does not exist"
    (incomplete,) = verify(tmp_path).problems
    assert incomplete == f"`{tmp_path}` is not complete: it has no manifest.json"
    (tmp_path / "manifest.json").write_text("{}")
    (wrong,) = verify(tmp_path).problems
    assert "has format version None" in wrong


def test_a_changed_manifest_is_found(broken):
    path = broken.path / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"reading": "all"', b'"reading": "limit"'))
    (problem,) = problems(broken)
    assert str(path) in problem
    assert "`manifest_sha256`" in problem
