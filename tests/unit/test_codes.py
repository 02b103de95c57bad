"""The code of every token: whose it is and whether it is trained, by where it starts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packtool.render.rendered import CODES, ROLES, STRADDLES, Rendered, by_role, code_of
from packtool.tokenizer.base import mark


def ranges(size):
    """Sorted, disjoint ranges over `size` characters; some empty, some adjacent."""
    edges = st.lists(st.integers(0, size), max_size=12).map(sorted)
    return edges.map(lambda found: list(zip(found[0::2], found[1::2], strict=False)))


@given(st.data())
def test_codes_are_the_ranges_that_hold_each_start(data):
    size = data.draw(st.integers(0, 30))
    trained = data.draw(ranges(size))
    roles = [(start, stop, data.draw(st.sampled_from(ROLES))) for start, stop in data.draw(ranges(size))]
    edges = sorted({0, size, *data.draw(st.lists(st.integers(0, size), max_size=40))})
    starts, stops = np.array(edges[:-1], np.int64), np.array(edges[1:], np.int64)
    rendered = Rendered("x" * size, tuple(trained), roles=tuple(roles))
    codes = mark(starts, stops, np.array(rendered.changes(), np.int64).reshape(-1, 2))
    assert codes.dtype == np.uint8
    over = [any(a < start < b for start, _ in trained) for a, b in zip(starts, stops, strict=True)]
    assert (codes >= STRADDLES).tolist() == over
    codes &= STRADDLES - 1
    starts = starts.tolist()
    assert (codes & 1).tolist() == [any(start <= at < stop for start, stop in trained) for at in starts]
    owners = [next((role for start, stop, role in roles if start <= at < stop), "template") for at in starts]
    assert [ROLES[code >> 1] for code in codes.tolist()] == owners
    counts = by_role(np.bincount(codes, minlength=CODES))
    assert {role: tokens for role, (tokens, _) in counts.items()} == {role: owners.count(role) for role in {*owners}}
    assert sum(on for _, on in counts.values()) == np.count_nonzero(codes & 1)


def test_texts_end_to_end_do_not_leak_into_each_other():
    one = Rendered("abc", ((1, 3),), roles=((0, 3, "user"),))
    other = Rendered("de", (), roles=((1, 2, "tool"),))
    changes = [*one.changes(), *((3 + place, change) for place, change in other.changes())]
    codes = mark(np.arange(6), np.arange(1, 7), np.array(changes, np.int64))
    user, tool = code_of("user", trained=False), code_of("tool", trained=False)
    assert codes.tolist() == [user, user + 1, user + 1, 0, tool, 0]


@pytest.mark.parametrize("role", ROLES)
def test_a_code_is_twice_the_place_of_the_role_and_one_if_trained(role):
    assert [code_of(role, trained=on) for on in (False, True)] == [2 * ROLES.index(role), 2 * ROLES.index(role) + 1]
    assert CODES <= STRADDLES
    counts = np.zeros(CODES, np.int64)
    counts[[code_of(role, trained=False), code_of(role, trained=True)]] = 5, 3
    assert by_role(counts) == {role: (8, 3)}
