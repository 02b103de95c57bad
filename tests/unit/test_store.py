"""The token store: what is appended comes back, run by run, whatever segment it lies in."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packtool.store import BAD, EMPTY, SAMPLE, SegmentWriter, Store, digest_samples, read_segment_arrays


def ids_of(*numbers):
    return np.array(numbers, np.uint32)


def write_segment(folder, block, samples, *, file=0, batches=1):
    """Write samples, lists of (id, trained), in so many batches."""
    writer = SegmentWriter(folder, file, block)
    for part in np.array_split(np.arange(len(samples)), batches):
        batch = [samples[i] for i in part]
        flat = [token for sample in batch for token in sample]
        writer.append(
            ids_of(*[token for token, _ in flat]),
            np.array([len(sample) for sample in batch], np.int64),
            np.array([trained for _, trained in flat], np.bool_),
        )
    places = list(range(1, len(samples) + 1))
    return writer.close(
        places, [-1] * len(samples), [SAMPLE] * len(samples), roles={"text": (10, 4)}, left_out=0, bad=[], warnings={}
    )


SAMPLES = [
    [(10, False), (11, True), (12, True)],
    [(20, False)],
    [(30, False), (31, False), (32, True), (33, False)],
    [(70_000, False), (2**32 - 1, True)],
]


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_a_segment_holds_what_was_appended(tmp_path, batches):
    info = write_segment(tmp_path, 7, SAMPLES, file=3, batches=batches)
    assert info.name == "seg-0003-000007"
    assert (info.file, info.block, info.records, info.samples) == (3, 7, 4, 4)
    assert (info.tokens, info.trained, info.largest, info.roles) == (10, 4, 2**32 - 1, {"text": (10, 4)})
    assert [path.name for path in tmp_path.iterdir()] == ["seg-0003-000007"]
    assert read_segment_arrays(tmp_path, [info.name], "lengths").tolist() == [3, 1, 4, 2]
    # The place of the first trained token; a sample's length where there is none.
    assert read_segment_arrays(tmp_path, [info.name], "first_trained").tolist() == [1, 1, 2, 1]
    assert read_segment_arrays(tmp_path, [info.name], "places").tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_digests_are_the_ids_alone(tmp_path, batches):
    samples = [*SAMPLES, [(10, True), (11, False), (12, False)]]
    write_segment(tmp_path, 0, samples, batches=batches)
    digests = read_segment_arrays(tmp_path, ["seg-0000-000000"], "digests")
    assert digests.dtype == np.uint64
    assert digests[4] == digests[0]
    assert len(set(digests.tolist())) == 4


def digests_of(samples):
    lengths = np.array([len(sample) for sample in samples], np.int64)
    return digest_samples(ids_of(*[token for sample in samples for token in sample]), lengths).tolist()


def test_digests_are_told_apart_by_order_length_and_place():
    alike = [[1, 2], [3], [1], [2, 3], [2, 1], [1, 2, 3], [3, 2, 1], [0], [0, 0], [0] * 3, [2**32 - 1], [1, 0], [0, 1]]
    assert len(set(digests_of(alike))) == len(alike)
    assert digests_of([]) == []


def test_a_digest_by_hand():
    """SplitMix64 of id * 2**32 + place, summed, plus the length, mixed once more; in Python's own integers."""

    def mix(value):
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
        return value ^ (value >> 31)

    assert mix(0) == 0xE220A8397B1DCDAF  # the first output of the published generator for seed 0
    samples = [[5, 2**32 - 1, 7], [9]]
    expected = [mix((sum(mix((t << 32) + p) for p, t in enumerate(s)) + len(s)) % 2**64) for s in samples]
    assert digests_of(samples) == expected


tokens = st.lists(st.integers(0, 3) | st.integers(0, 2**32 - 1), min_size=1, max_size=8)


@given(st.lists(tokens, min_size=1, max_size=12))
def test_equal_digests_are_equal_samples(samples):
    """Whatever lies before a sample in its batch; a chance of 2**-64 is none here."""
    found = digests_of(samples)
    assert found == [digests_of([sample])[0] for sample in samples]
    for one, digest in zip(samples, found, strict=True):
        assert [digest == other for other in found] == [one == other for other in samples]


@given(tokens, st.randoms(use_true_random=False))
def test_a_permutation_has_another_digest(sample, random):
    other = sample.copy()
    random.shuffle(other)
    one, two = digests_of([sample, other])
    assert (one == two) == (sample == other)


def test_first_trained_is_not_taken_from_a_later_sample(tmp_path):
    samples = [[(1, False)] * 3, [(2, False), (2, True)], [(3, False)] * 2]
    write_segment(tmp_path, 0, samples)
    assert read_segment_arrays(tmp_path, ["seg-0000-000000"], "first_trained").tolist() == [3, 1, 2]


def test_first_trained_where_nothing_is(tmp_path):
    write_segment(tmp_path, 0, [[(1, False)] * 2, [(2, False)]])
    assert read_segment_arrays(tmp_path, ["seg-0000-000000"], "first_trained").tolist() == [2, 1]


def test_records_rows_messages_and_warnings_are_kept(tmp_path):
    writer = SegmentWriter(tmp_path, 0, 0)
    writer.append(ids_of(5, 6), np.array([2]), np.array([False, True]))
    bad = [(1, 8, "line 8 is wrong", "mend it")]
    info = writer.close(
        [7, 8, 9], [0, 100, 2**40], [SAMPLE, BAD, EMPTY], roles={}, left_out=4, bad=bad, warnings={"odd": (2, 7)}
    )
    assert (info.records, info.samples, info.left_out) == (3, 1, 4)
    assert info.bad == ((1, 8, "line 8 is wrong", "mend it"),)
    assert info.warnings == {"odd": (2, 7)}
    assert read_segment_arrays(tmp_path, [info.name], "offsets").tolist() == [0, 100, 2**40]
    assert read_segment_arrays(tmp_path, [info.name], "outcomes").tolist() == [SAMPLE, BAD, EMPTY]
    said = json.loads((tmp_path / info.name / "segment.json").read_text())
    assert said == {"bad": [[1, 8, "line 8 is wrong", "mend it"]], "warnings": {"odd": [2, 7]}}


def test_a_segment_without_samples(tmp_path):
    info = SegmentWriter(tmp_path, 0, 0).close([1], [0], [EMPTY], roles={}, left_out=0, bad=[], warnings={})
    assert (info.records, info.samples, info.tokens, info.trained, info.largest) == (1, 0, 0, 0, -1)
    assert read_segment_arrays(tmp_path, [info.name], "lengths").tolist() == []


def test_nothing_appears_before_close_and_nothing_stays_after_abort(tmp_path):
    writer = SegmentWriter(tmp_path, 0, 0)
    writer.append(ids_of(1), np.array([1]), np.array([False]))
    assert [path.name for path in tmp_path.iterdir()] == ["seg-0000-000000.tmp"]
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_can_be_made_again(tmp_path):
    write_segment(tmp_path, 0, SAMPLES[:1])
    killed = SegmentWriter(tmp_path, 0, 0)  # left its temporary folder behind
    killed.append(ids_of(9), np.array([1]), np.array([True]))
    again = write_segment(tmp_path, 0, SAMPLES)
    assert again.tokens == 10
    assert [path.name for path in tmp_path.iterdir()] == ["seg-0000-000000"]
    killed.abort()


def test_equal_samples_give_equal_files_however_they_were_batched(tmp_path):
    for name, batches in (("one", 1), ("many", 4)):
        (tmp_path / name).mkdir()
        write_segment(tmp_path / name, 0, SAMPLES, batches=batches)
    for path in (tmp_path / "one" / "seg-0000-000000").iterdir():
        assert path.read_bytes() == (tmp_path / "many" / "seg-0000-000000" / path.name).read_bytes(), path.name


# ----------------------------------------------------------------------------------------------------------- reading


@pytest.fixture
def store(tmp_path):
    """Three segments, the middle one empty: 10 tokens, none, 4 tokens; and the stream in plain lists."""
    infos = [
        write_segment(tmp_path, 0, SAMPLES),
        SegmentWriter(tmp_path, 0, 1).close([], [], [], roles={}, left_out=0, bad=[], warnings={}),
        write_segment(tmp_path, 2, [[(100, True), (101, False)], [(102, True), (103, True)]]),
    ]
    stream = [token for sample in SAMPLES for token in sample] + [(100, True), (101, False), (102, True), (103, True)]
    names = [info.name for info in infos]
    return Store(tmp_path, names, [info.tokens for info in infos]), stream


def test_columns_of_segments_are_joined_in_the_order_asked_for(tmp_path, store):
    names = ["seg-0000-000002", "seg-0000-000001", "seg-0000-000000"]
    assert read_segment_arrays(tmp_path, names, "lengths").tolist() == [2, 2, 3, 1, 4, 2]
    assert read_segment_arrays(tmp_path, [], "lengths").tolist() == []


@pytest.mark.parametrize(
    "runs",
    [
        [(0, 3)],
        [(10, 2)],  # the first token behind the empty segment
        [(12, 2), (0, 1), (10, 1)],  # out of order, over both segments
        [(3, 1), (3, 1), (8, 2), (13, 1)],  # the same run twice
        [(start, 1) for start in range(13, -1, -1)],
        [(0, 10), (10, 4)],
        [],
    ],
)
def test_gather_copies_runs_end_to_end(store, runs):
    stored, stream = store
    tokens, trained = stored.gather(
        np.array([start for start, _ in runs], np.int64), np.array([length for _, length in runs], np.int64)
    )
    expected = [token for start, length in runs for token in stream[start : start + length]]
    assert tokens.tolist() == [token for token, _ in expected]
    assert trained.tolist() == [flag for _, flag in expected]
    assert (tokens.dtype, trained.dtype) == (np.uint32, np.bool_)


def test_more_segments_than_stay_mapped(tmp_path):
    infos = [write_segment(tmp_path, number, [[(number, False)]]) for number in range(70)]
    stored = Store(tmp_path, [info.name for info in infos], [1] * 70)
    order = np.arange(69, -1, -1, dtype=np.int64)
    tokens, _ = stored.gather(order, np.ones(70, np.int64))
    assert tokens.tolist() == list(range(69, -1, -1))
