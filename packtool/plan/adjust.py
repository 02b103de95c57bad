"""Changes to a finished layout: more packs so that ranks share them equally, and an order of equal batches."""

import numpy as np

from packtool.errors import UsageError
from packtool.plan.layout import Layout, random_order, take_packs

__all__ = ["balance_batches", "fill_multiple"]


def fill_multiple(layout: Layout, multiple: int) -> Layout:
    """The layout with further packs, so that their number is a multiple of `multiple`.

    The packs with most pieces are halved, as often as needed; a new pack comes right after the one that it was part
    of, so pieces keep their order.

        fill_multiple(packs {a, b, c} and {d}, 3)  ->  {a, b} {c} {d}

    Raises:
        UsageError: there are fewer pieces than packs would be.
    """
    wanted = -(-layout.num_packs // multiple) * multiple
    if wanted > len(layout.sample):
        raise UsageError(
            f"{len(layout.sample)} pieces cannot fill {wanted} packs, the next multiple of {multiple}",
            hint="a smaller `--pack-multiple` takes fewer packs, a smaller `--max-seq-len` makes more",
        )
    while layout.num_packs < wanted:
        offsets = layout.pack_offsets()
        counts = np.diff(offsets)
        halved = np.argsort(-counts, kind="stable")[: wanted - layout.num_packs]
        halved = np.sort(halved[counts[halved] > 1])
        begins = offsets[halved] + (counts[halved] + 1) // 2  # where the second halves begin
        later = np.zeros(len(layout.pack), np.int32)
        later[begins] = 1
        later = np.cumsum(later, out=later)
        # Within a halved pack the second half has counted one more than the first; the packs behind it as well.
        pack = layout.pack + later
        layout = Layout(layout.sample, layout.start, layout.length, pack, layout.num_packs + len(halved))
    return layout


def balance_batches(layout: Layout, batch: int, seed: int) -> Layout:
    """The same packs in an order in which every `batch` in a row cost attention about the same.

    The cost of a pack is the sum of its squared piece lengths. The packs, dearest first, are dealt out a layer at a
    time: each layer gives every batch one pack, the dearest to the batch that has cost least so far. Batches, and
    packs within one, then come in an order drawn with `seed`. The packs that fill no batch come last.
    """
    cost = np.bincount(layout.pack, weights=layout.length.astype(np.float64) ** 2, minlength=layout.num_packs)
    batches = layout.num_packs // batch
    shuffled = random_order(layout.num_packs, seed)
    if batches < 2:
        return take_packs(layout, shuffled)
    rest, dealt = shuffled[batches * batch :], shuffled[: batches * batch]
    dealt = dealt[np.argsort(-cost[dealt], kind="stable")].reshape(batch, batches)
    placed = np.empty((batches, batch), np.int64)
    sums = np.zeros(batches)
    for place, layer in enumerate(dealt):
        least_first = np.argsort(sums, kind="stable")
        placed[least_first, place] = layer
        sums[least_first] += cost[layer]
    keys = np.random.PCG64(seed).jumped().random_raw(batches * batch).reshape(batches, batch)
    placed = np.take_along_axis(placed, np.argsort(keys, axis=1, kind="stable"), axis=1)
    placed = placed[np.argsort(keys[:, 0], kind="stable")]
    return take_packs(layout, np.concatenate([placed.reshape(-1), rest]))
