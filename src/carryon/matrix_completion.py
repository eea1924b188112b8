"""Completing a table of sums from some of its entries.

    completion = sums(100, reveal(100, 700, "any", "label"))
    completion.filled, completion.right

The table has the entry i + j in row i, column j (0 … n-1), and its rank is 2. `codes` say which entries are
revealed: i * n + j. Shapes: N rows or columns of the table, V = 2N vertices of a graph, E revealed entries.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput, UnknownName, Unsupported
from .rng import Label, Stream

Codes = NDArray[np.int64]

NUCLEAR_NORM_LIMIT = 50
"""The largest n of `nuclear_norm`: its time goes with n³, and a trial at this size takes up to a second."""

_EXACT, _ROUNDS = 1e-6, 0.5


@dataclass(frozen=True, slots=True)
class Completion:
    """What became of the hidden entries, those not revealed; shares are 1.0 if nothing is hidden."""

    filled: bool
    """Every entry got a value, right or wrong."""
    determined: float
    """Share of the hidden entries that got a value."""
    right: float
    """Share of the hidden entries with the right value, by the method's own standard (see there)."""
    rounded: float
    """Share of the hidden entries whose value rounds to the right integer: one standard for all methods."""


def reveal(n: int, revealed: int, *labels: Label) -> Codes:
    """`revealed` different entries, uniform. Equal labels: a smaller set is the beginning of a larger one."""
    if n < 2:
        raise BadInput(f"a table needs at least 2 rows and columns, not {n}")
    if not 0 <= revealed <= n * n:
        raise BadInput(f"{revealed:,} entries cannot be revealed: a {n} x {n} table has {n * n:,}")
    keys = Stream(*labels).words(n * n)
    least = np.argpartition(keys, revealed)[:revealed] if revealed < n * n else np.arange(n * n)
    return least[np.argsort(keys[least], kind="stable")].astype(np.int64)


def as_published(n: int, codes: Codes) -> Completion:
    """The rank-one rule on adjacent 2 x 2 blocks, as the paper's authors ran it; right means within 0.000001.

    Wherever three entries of a block (rows i, i+1 and columns j, j+1) have values, the fourth is set so that the
    determinant is zero: the product of its two neighbours divided by the entry opposite. Blocks are visited row by
    row, again and again until nothing changes. The paper calls it a success when everything is filled, and does not
    look at the values. The rule is one for rank one, so for a table of sums even the first value it fills is wrong,
    3 * 3 / 2 = 4.5 for 4, though not by much where the entries are large; errors then grow from block to block.

    The algorithm as printed (algorithm 1) cannot be run: it divides by its own unknown where the lower left entry is
    missing and forgets the upper right one. The code that was run has all four cases, and so does this.

    The entry 0 + 0 and what is computed from it lead to division by zero. As there, the result (infinite or not a
    number) counts as a value: refusing it would change which tables are filled. It is never right.

    Which entries are filled does not depend on the order of the visits, but their values do, so the order is kept.
    Visiting only blocks that are ready makes it fast: a heap holds them by the time the sweeps would come to them.
    """
    revealed_NN = _revealed(n, codes)
    # A border of cells that never have a value: no block outside the table is ever ready, and no edge needs a check.
    width = n + 2
    size = width * width
    has_value = np.pad(revealed_NN, 1)
    values = np.where(has_value, np.pad(_table(n), 1), 0).astype(np.float64).ravel().tolist()
    counts = np.zeros((width, width), np.int64)  # of the block's values, at the place of its upper left cell
    for rows in (slice(None, -1), slice(1, None)):
        for columns in (slice(None, -1), slice(1, None)):
            counts[:-1, :-1] += has_value[rows, columns]
    queue: list[int] = np.flatnonzero(counts == 3).tolist()  # sweep * size + block; ascending, so a heap already
    num_values, known = counts.ravel().tolist(), has_value.ravel().tolist()
    while queue:
        visit = heapq.heappop(queue)
        block = visit % size
        if num_values[block] == 4:  # another block has filled its gap
            continue
        across, along = (block, block + width + 1), (block + 1, block + width)  # the block's two diagonals
        if known[across[0]] and known[across[1]]:
            across, along = along, across
        gap, opposite = across if known[across[1]] else across[::-1]
        values[gap] = _quotient(values[along[0]] * values[along[1]], values[opposite])
        known[gap] = True
        for touched in (gap - width - 1, gap - width, gap - 1, gap):
            num_values[touched] += 1
            if num_values[touched] == 3:
                # Blocks behind the present one wait for the next sweep.
                heapq.heappush(queue, visit - block + touched + (size if touched < block else 0))
    inner = slice(1, -1)
    filled_NN = np.array(known).reshape(width, width)[inner, inner]
    return _completion(revealed_NN, filled_NN, np.array(values).reshape(width, width)[inner, inner], _EXACT)


def _quotient(product: float, divisor: float) -> float:
    """IEEE division of numbers that are not negative; Python's own raises at zero."""
    return product / divisor if divisor else math.inf if product > 0 else math.nan


def sums(n: int, codes: Codes) -> Completion:
    """What follows from knowing that the table is r_i + c_j; right means within 0.000001, and all values are exact.

    A revealed entry joins its row and its column in a graph. Along a path the r and c follow one from another, so
    an entry is determined exactly when its row and column are connected, and the whole table when the graph is.
    No method that assumes no more than this can fill another entry.
    """
    revealed_NN = _revealed(n, codes)
    root_V, level_V = _connect(n, codes)
    filled_NN = root_V[:n, None] == root_V[None, n:]
    return _completion(revealed_NN, filled_NN, level_V[:n, None] - level_V[None, n:], _EXACT)


def _connect(n: int, codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each vertex's root, the same for all that are connected, and how far its level lies above its root's.

    Row i is vertex i with level r_i, column j vertex n + j with level -c_j: an entry is a difference of two levels.
    """
    row_E, column_E = codes // n, n + codes % n
    entry_E = _table(n)[codes // n, codes % n]
    root_V, level_V = np.arange(2 * n), np.zeros(2 * n, np.int64)
    while True:
        low_E, high_E = root_V[column_E], root_V[row_E]
        if not (low_E != high_E).any():
            return root_V, level_V
        # How far the root of the entry's row lies above the root of its column.
        rise_E = entry_E - level_V[row_E] + level_V[column_E]
        swap_E = low_E > high_E
        low_E, high_E = np.where(swap_E, high_E, low_E), np.where(swap_E, low_E, high_E)
        # Every root with a smaller one across some entry hangs itself under it: smaller, so there is no circle.
        open_E = np.flatnonzero(low_E < high_E)
        hung, chosen = np.unique(high_E[open_E], return_index=True)
        parent_V, lift_V = np.arange(2 * n), np.zeros(2 * n, np.int64)
        parent_V[hung] = low_E[open_E[chosen]]
        lift_V[hung] = np.where(swap_E, -rise_E, rise_E)[open_E[chosen]]
        while (parent_V[parent_V] != parent_V).any():
            lift_V += lift_V[parent_V]
            parent_V = parent_V[parent_V]
        level_V += lift_V[root_V]
        root_V = parent_V[root_V]


def nuclear_norm(n: int, codes: Codes, steps: int = 3_000, tolerance: float = 1e-6) -> Completion:
    """The table of least nuclear norm with the revealed entries; every entry gets a value, right means within 0.5.

    The convex stand-in for "the least rank". It knows of low rank only, not of sums, and needs more entries.
    Stops after `steps`, or once no entry moves by more than `tolerance` of the largest possible sum.
    """
    if n > NUCLEAR_NORM_LIMIT:
        raise Unsupported(f"nuclear_norm takes tables up to {NUCLEAR_NORM_LIMIT} x {NUCLEAR_NORM_LIMIT}, not {n} x {n}")
    revealed_NN = _revealed(n, codes)
    values_NN = _least_nuclear_norm(_table(n).astype(np.float64), revealed_NN, steps, tolerance)
    return _completion(revealed_NN, np.ones((n, n), np.bool_), values_NN, _ROUNDS)


def _least_nuclear_norm(
    table_NN: NDArray[np.float64], revealed_NN: NDArray[np.bool_], steps: int, tolerance: float
) -> NDArray[np.float64]:
    """ADMM: shrink the singular values, put the revealed entries back, add up what that changed.

    `debt` is the multiplier of the revealed entries. The result does not depend on the shrinkage, the speed does:
    of 0.02, 0.1 and 0.3 times the largest singular value, 0.02 was the fastest near the transition.
    """
    fitting_NN = np.where(revealed_NN, table_NN, 0.0)
    debt_NN = np.zeros_like(fitting_NN)
    shrinkage = 0.02 * float(np.linalg.norm(fitting_NN, 2))
    for _ in range(steps):
        left, singular, right = np.linalg.svd(fitting_NN - debt_NN)
        low_NN = (left * np.maximum(singular - shrinkage, 0)) @ right
        before_NN, fitting_NN = fitting_NN, np.where(revealed_NN, table_NN, low_NN)
        debt_NN += low_NN - fitting_NN
        moved = max(np.abs(fitting_NN - before_NN).max(), np.abs(fitting_NN - low_NN).max())
        if moved <= tolerance * table_NN.max():
            break
    return fitting_NN


METHODS: dict[str, Callable[[int, Codes], Completion]] = {
    "as_published": as_published,
    "sums": sums,
    "nuclear_norm": nuclear_norm,
}


def run_trials(method: str, n: int, revealed: int, trials: int, seed: int) -> dict[str, Any]:
    """How a method fares on `trials` random sets of revealed entries: counts of trials, and means of shares.

    The sets depend on the seed and the sizes only, so all methods see the same ones.
    """
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    if trials < 1:
        raise BadInput(f"at least 1 trial is needed, not {trials}")
    done = [METHODS[method](n, reveal(n, revealed, "reveal", n, revealed, seed, trial)) for trial in range(trials)]
    return {
        "trials": trials,
        "filled": sum(completion.filled for completion in done),
        "all_right": sum(completion.right == 1 for completion in done),
        "all_rounded": sum(completion.rounded == 1 for completion in done),
        "determined": math.fsum(completion.determined for completion in done) / trials,
        "right": math.fsum(completion.right for completion in done) / trials,
        "rounded": math.fsum(completion.rounded for completion in done) / trials,
    }


def _table(n: int) -> NDArray[np.int64]:
    return np.add.outer(np.arange(n), np.arange(n))


def _revealed(n: int, codes: Codes) -> NDArray[np.bool_]:
    # A negative code would reveal an entry from the end of the table.
    if len(codes) and not 0 <= codes.min() <= codes.max() < n * n:
        raise BadInput(f"the codes of a {n} x {n} table are 0 … {n * n - 1}, not {codes.min()} … {codes.max()}")
    revealed = np.zeros(n * n, np.bool_)
    revealed[codes] = True
    return revealed.reshape(n, n)


def _completion(
    revealed_NN: NDArray[np.bool_], filled_NN: NDArray[np.bool_], values_NN: NDArray[Any], tolerance: float
) -> Completion:
    hidden_NN = ~revealed_NN
    if not hidden_NN.any():
        return Completion(True, 1.0, 1.0, 1.0)
    filled = filled_NN[hidden_NN]
    # Where a value is not a number, the comparisons below are false.
    error = np.where(filled, np.abs(values_NN - _table(len(values_NN)))[hidden_NN], math.inf)
    return Completion(
        filled=bool(filled.all()),
        determined=float(filled.mean()),
        right=float((error < tolerance).mean()),
        rounded=float((error < _ROUNDS).mean()),
    )
