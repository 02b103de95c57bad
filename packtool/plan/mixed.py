r"""As full as the decreasing packers, as varied as random order.

Decreasing packers put samples of one length together: short ones by the hundred, long ones in threes. `mixed` starts
from full packs and then exchanges groups of samples that have the same sum, which changes what lies together and
nothing else:

    pack A   700 700 700 | 1000 996          every pack is cut in two at random; packs whose first halves have
    pack B   2000 100 | 1996                 equal sums (2100) exchange them
    --> A    2000 100 | 1000 996     B   700 700 700 | 1996

1. start: where a pack has many samples, fill packs in shuffled order, with a random part held back that then goes,
   longest first, into the tightest gaps; where it has few, best-fit-decreasing, which such a fill cannot match.
2. mix: rounds of exchanges. Sums need not be equal where the pack that gains has room for the difference.
3. squeeze: as long as a pack could be saved, exchanges move empty slots out of all packs into a few (a group goes to
   the pack that it fills up exactly); those few are taken apart and packed again.
4. mix again.

A round costs one pass over the samples and a sort of the packs. All choices come from raw PCG64 output and all
decisions are made in integers, so the layout is the same on every machine.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packtool.plan.decreasing import longest_first, place_decreasing
from packtool.plan.greedy import consecutive
from packtool.plan.layout import Layout, checked_lengths, in_order, no_packs, sorted_places
from packtool.plan.measure import packing_bound

__all__ = ["mixed"]

_MANY = 12  # samples to a pack from which a random fill closes its gaps well
_ROUNDS = 10  # of mixing for a large set; a small one gets more, they cost nothing there and meet fewer equal sums
_VARIED_ROUNDS = 4  # after a start in shuffled order
_WORK = 4_000_000  # samples x rounds that are spent on a small set
_SQUEEZES = 4
_SQUEEZE_ROUNDS = 24


def mixed(lengths: ArrayLike, max_seq_len: int, *, seed: int = 0, max_samples: int | None = None) -> Layout:
    """Full packs of varied lengths; inside a pack samples lie in an order drawn with `seed`.

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`.
    """
    array = checked_lengths(lengths, max_seq_len, max_samples)
    if not array.size:
        return no_packs()
    raw = np.random.PCG64(seed)
    index = np.int32 if len(array) < 2**31 else np.int64
    order = np.argsort(raw.random_raw(len(array)), kind="stable").astype(index)
    state = _Packs(array[order], max_seq_len, max_samples, raw)
    rounds = (_VARIED_ROUNDS if state.varied else _ROUNDS) + min(100, _WORK // len(array))
    state.mix(rounds // 2)
    for _ in range(_SQUEEZES):
        if not state.squeeze():
            break
    state.mix(rounds - rounds // 2)
    pack, count = np.empty(len(array), np.int32), state.count
    pack[order] = state.pack
    order = order[np.argsort(state.pack, kind="stable")]  # the samples lie in random order already
    del state
    return in_order(array, order, pack, count)


class _Packs:
    """The packing while it changes.

    Attributes:
        lengths: [samples] int32, in random order.
        pack: [samples] int32 the pack of each; packs are numbered at random.
        space: [packs] int64 slots left; taken: [packs] int64 samples in each.
        count: packs; excess: those over the lower bound.
        varied: lengths are mixed from the start.
    """

    def __init__(
        self, lengths: NDArray[np.int32], max_seq_len: int, max_samples: int | None, raw: np.random.PCG64
    ) -> None:
        self.lengths, self.size, self.raw, self.max_samples = lengths, max_seq_len, raw, max_samples
        tokens = int(lengths.sum(dtype=np.int64))
        self.varied = len(lengths) * max_seq_len >= _MANY * tokens and max_samples is None
        if self.varied:
            self.pack, self.count = _random_fill(lengths, max_seq_len)
        else:
            order = longest_first(lengths, max_seq_len)
            pack, self.count = place_decreasing(lengths, order, max_seq_len, best=True, max_samples=max_samples)
            names = np.argsort(raw.random_raw(self.count), kind="stable").astype(np.int32)
            self.pack = names[pack]
        self.excess = self.count - packing_bound(lengths, max_seq_len, max_samples)
        self.space = max_seq_len - self._sums(slice(None))
        self.taken = np.bincount(self.pack, minlength=self.count)

    def _sums(self, items: Any) -> NDArray[np.int64]:
        """[packs] tokens of some samples by pack; doubles hold them exactly."""
        sums = np.bincount(self.pack[items], weights=self.lengths[items], minlength=self.count)
        return sums.astype(np.int64)

    def _half(self, count: int) -> NDArray[np.bool_]:
        """[count] drawn by a coin each."""
        words = self.raw.random_raw(count // 64 + 1).astype("<u8")
        return np.unpackbits(words.view(np.uint8), count=count).view(np.bool_)

    def mix(self, rounds: int) -> None:
        """Exchange halves between packs whose halves have (nearly) equal sums."""
        for number in range(rounds):
            items = np.flatnonzero(self._half(len(self.lengths)))
            sums = self._sums(items)
            order = sorted_places(sums, self.size)
            shift = number & 1  # who is paired with whom: (0, 1) (2, 3) ..., or (1, 2) (3, 4) ...
            pairs = order[shift : shift + (len(order) - shift) // 2 * 2].reshape(-1, 2)
            low, high = pairs[:, 0], pairs[:, 1]
            gain = sums[high] - sums[low]
            self._exchange(items, low, high, gain, gain <= self.space[low])
        self._close(np.flatnonzero(self.taken == 0))

    def _close(self, empty: NDArray[np.int64]) -> None:
        """Take empty packs out; the packs with the highest numbers move into their places."""
        if not len(empty):
            return
        free, moved = _renumbered(self.count, empty)
        names = np.arange(self.count, dtype=np.int32)
        names[moved] = free
        self.pack = names[self.pack]
        for column in (self.space, self.taken):
            column[free] = column[moved]
        self.count -= len(empty)
        self.excess -= len(empty)
        self.space, self.taken = self.space[: self.count], self.taken[: self.count]

    def _exchange(
        self,
        items: NDArray[np.int64],
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        gain: NDArray[np.int64],
        allowed: NDArray[np.bool_],
    ) -> None:
        """Exchange the groups `items` of the packs `low` and `high`, by which `low` gains `gain` tokens."""
        group = np.bincount(self.pack[items], minlength=self.count)
        more = group[high] - group[low]
        if self.max_samples is not None:
            allowed &= (self.taken[low] + more <= self.max_samples) & (self.taken[high] - more <= self.max_samples)
        low, high, gain, more = low[allowed], high[allowed], gain[allowed], more[allowed]
        partner = np.arange(self.count, dtype=np.int32)
        partner[low], partner[high] = high, low
        self.pack[items] = partner[self.pack[items]]
        self.space[low] -= gain
        self.space[high] += gain
        self.taken[low] += more
        self.taken[high] -= more  # possibly the whole pack, for room that the other had

    def squeeze(self) -> bool:
        """Gather empty slots in a few packs and pack those again; whether more packs might be saved so."""
        if self.excess < 1:
            return False
        few = min(self.count, max(8 * self.excess, 64))
        dump = np.argsort(-self.space, kind="stable")[:few]
        is_dump = np.zeros(self.count, np.bool_)
        is_dump[dump] = True
        live = np.flatnonzero((is_dump | (self.space > 0))[self.pack])  # full packs stay out of it
        for _ in range(_SQUEEZE_ROUNDS):
            receivers = np.flatnonzero((self.space > 0) & ~is_dump)
            if not len(receivers):
                break
            items = live[self._half(len(live))]
            sums = self._sums(items)
            wanted = sums[receivers] + self.space[receivers]
            rising = sorted_places(wanted, self.size)
            receivers = receivers[rising]
            givers = dump[sorted_places(sums[dump], self.size)]
            at = _matched(wanted[rising], sums[givers])
            low, high = receivers[at >= 0], givers[at[at >= 0]]
            gain = sums[high] - sums[low]
            self._exchange(items, low, high, gain, gain > 0)
        return self._again(is_dump)

    def _again(self, is_dump: NDArray[np.bool_]) -> bool:
        """Pack the samples of some packs anew, if that takes fewer; says whether it did and more could be saved."""
        items = np.flatnonzero(is_dump[self.pack])
        lengths = self.lengths[items]
        order = longest_first(lengths, self.size)
        pack, count = place_decreasing(lengths, order, self.size, best=True, max_samples=self.max_samples)
        old = np.flatnonzero(is_dump)
        saved = len(old) - count
        if saved <= 0:
            return False
        kept = old[:count]
        self.pack[items] = kept.astype(np.int32)[pack]
        self.space[kept] = self.size - np.bincount(pack, weights=lengths, minlength=count).astype(np.int64)
        self.taken[kept] = np.bincount(pack, minlength=count)
        self._close(old[count:])
        return self.excess > 0


def _random_fill(lengths: NDArray[np.int32], max_seq_len: int) -> tuple[NDArray[np.int32], int]:
    """Fill packs in order with all samples but a few, which then go, longest first, into the tightest gaps."""
    exact = lengths.astype(np.int64)
    # What a sample that does not fit leaves open is half a sample on average, a long one being met more often:
    # sum(l^2) / 2 sum(l) slots a pack. A fifth more, so that there is a choice; all in integers.
    squares, tokens = int((exact * exact).sum()), int(exact.sum())
    held = min(len(lengths) // 2, -(-len(lengths) * squares * 3 // (5 * tokens * max_seq_len)))
    bulk, rest = lengths[held:], lengths[:held]
    pack = np.empty(len(lengths), np.int32)
    pack[held:] = consecutive(bulk, max_seq_len, None)
    count = int(pack[-1]) + 1
    if held:
        spaces = max_seq_len - np.bincount(pack[held:], weights=bulk, minlength=count).astype(np.int64)
        order = longest_first(rest, max_seq_len)
        pack[:held], count = place_decreasing(rest, order, max_seq_len, best=True, spaces=spaces)
    return pack, count


def _matched(wanted: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of `wanted` a place in `sums`, both sorted, of an equal value or else a near one below; -1 for none.

    No place is given twice.
    """
    first = np.searchsorted(sums, wanted)
    equal = np.arange(len(wanted)) - np.searchsorted(wanted, wanted) + first
    inside = np.minimum(equal, len(sums) - 1)
    at = np.where((equal < len(sums)) & (sums[inside] == wanted), equal, -1)
    # What is left takes what is left, the nearest below.
    open_wanted = np.flatnonzero(at < 0)
    free = np.ones(len(sums), np.bool_)
    free[at[at >= 0]] = False
    open_sums = np.flatnonzero(free)
    near = np.searchsorted(sums[open_sums], wanted[open_wanted]) - 1
    kept, which = np.unique(near, return_index=True)
    which = which[kept >= 0]
    at[open_wanted[which]] = open_sums[near[which]]
    return at


def _renumbered(count: int, freed: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers below the new count that became free, and the packs from above it that take them."""
    new = count - len(freed)
    stays = np.ones(count - new, np.bool_)
    stays[freed[freed >= new] - new] = False
    return freed[freed < new], new + np.flatnonzero(stays)
