"""Lengths in, layout out. Pure numpy: this room knows no file, token or tokenizer.

    lengths --limit_lengths--> items (sample, start, length) --STRATEGIES[name]--> Layout --shuffle_packs--> Layout

STRATEGIES is the registry: a dict of functions `f(lengths, max_seq_len, *, seed=0, max_samples=None) -> Layout`. All
are deterministic: ties go by sample order, and random order is a stable argsort of raw PCG64 output, which numpy
promises never to change.

mixed    as full as bfd, as varied as shuffle; the default
ffd bfd  first/best-fit-decreasing, exact: the fullest of the classical ones, with samples of one length together
shuffle  best fit in shuffled order
greedy   next fit: samples stay in order
none     one sample a pack
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from numpy.typing import ArrayLike

from packtool.plan.adjust import balance_batches, fill_multiple
from packtool.plan.decreasing import best_fit_decreasing, first_fit_decreasing
from packtool.plan.greedy import next_fit, one_a_pack, one_stream
from packtool.plan.layout import Layout, random_order, shuffle_packs, take_packs
from packtool.plan.measure import lower_bound, packing_bound, square_spread, variance_share
from packtool.plan.mixed import mixed
from packtool.plan.online import shuffled_best_fit
from packtool.plan.overlong import OVERLONG, Items, limit_lengths

__all__ = [
    "OVERLONG",
    "STRATEGIES",
    "Items",
    "Layout",
    "Strategy",
    "balance_batches",
    "fill_multiple",
    "limit_lengths",
    "lower_bound",
    "one_stream",
    "packing_bound",
    "random_order",
    "shuffle_packs",
    "square_spread",
    "take_packs",
    "variance_share",
]


class Strategy(Protocol):
    """A packing strategy."""

    def __call__(
        self, lengths: ArrayLike, max_seq_len: int, *, seed: int = 0, max_samples: int | None = None
    ) -> Layout:
        """Put every sample, whole, into a pack.

        Args:
            lengths: [samples] tokens of each sample, all in 1..max_seq_len.
            max_seq_len: slots of a pack.
            seed: for strategies that draw an order; the others ignore it.
            max_samples: at most this many to a pack.
        """


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "mixed": mixed,
        "ffd": first_fit_decreasing,
        "bfd": best_fit_decreasing,
        "shuffle": shuffled_best_fit,
        "greedy": next_fit,
        "none": one_a_pack,
    }
)
