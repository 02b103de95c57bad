"""Lengths in, layout out. Pure numpy: this room knows no file, token or tokenizer.

    lengths --limit_lengths--> items (sample, start, length) --STRATEGIES[name]--> Layout --shuffle_packs--> Layout

STRATEGIES is the registry: a dict of functions `f(lengths, max_seq_len, *, seed=0) -> Layout`. All are deterministic:
ties go by sample order, and random order is a stable argsort of raw PCG64 output, which numpy promises never to change.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from packtool.plan.ffd import first_fit_decreasing
from packtool.plan.greedy import next_fit, one_stream
from packtool.plan.layout import Layout, lower_bound, random_order, shuffle_packs, take_packs
from packtool.plan.overlong import OVERLONG, Items, limit_lengths

__all__ = [
    "OVERLONG",
    "STRATEGIES",
    "Items",
    "Layout",
    "Strategy",
    "limit_lengths",
    "lower_bound",
    "one_stream",
    "random_order",
    "shuffle_packs",
    "take_packs",
]


class Strategy(Protocol):
    """A packing strategy."""

    def __call__(self, lengths: NDArray[np.int64], max_seq_len: int, *, seed: int = 0) -> Layout:
        """Put every sample, whole, into a pack.

        Args:
            lengths: [samples] tokens of each sample, all in 1..max_seq_len.
            max_seq_len: slots of a pack.
            seed: for strategies that draw an order; the others ignore it.
        """


STRATEGIES: Mapping[str, Strategy] = MappingProxyType({"ffd": first_fit_decreasing, "greedy": next_fit})
