import math
from itertools import pairwise

import numpy as np
import pytest

from carryon.errors import BadInput, UnknownName, Unsupported
from carryon.matrix_completion import (
    METHODS,
    NUCLEAR_NORM_LIMIT,
    Completion,
    _least_nuclear_norm,
    as_published,
    nuclear_norm,
    reveal,
    run_trials,
    sums,
)
from carryon.rng import Stream

SMALL = [(n, revealed, trial) for n in range(2, 10) for revealed in range(0, n * n + 1, 3) for trial in range(4)]
"""Sizes at which slow and obvious code is fast enough."""


def table_of(n):
    return np.array([[float(i + j) for j in range(n)] for i in range(n)])


def mask_of(n, codes):
    mask = np.zeros((n, n), bool)
    for code in codes.tolist():
        mask[divmod(code, n)] = True
    return mask


def judge(n, codes, values, tolerance=1e-6):
    """A Completion, counted entry by entry; `values` maps the places that have one."""
    revealed = set(codes.tolist())
    hidden = [(i, j) for i in range(n) for j in range(n) if i * n + j not in revealed]
    if not hidden:
        return Completion(True, 1.0, 1.0, 1.0)
    errors = [abs(values[i, j] - (i + j)) if (i, j) in values else math.inf for i, j in hidden]
    return Completion(
        filled=len(values) == n * n,
        determined=sum((i, j) in values for i, j in hidden) / len(hidden),
        right=sum(error < tolerance for error in errors) / len(hidden),
        rounded=sum(error < 0.5 for error in errors) / len(hidden),
    )


def rank_one_sweeps(n, codes):
    """Block by block and row by row, until a whole sweep has changed nothing."""
    values = {divmod(code, n): np.float64(sum(divmod(code, n))) for code in codes.tolist()}
    changed = True
    while changed:
        changed = False
        for i in range(n - 1):
            for j in range(n - 1):
                corners = [(i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1)]
                missing = [corner for corner in corners if corner not in values]
                if len(missing) != 1:
                    continue
                row, column = missing[0]
                other_row, other_column = 2 * i + 1 - row, 2 * j + 1 - column
                with np.errstate(all="ignore"):
                    product = values[row, other_column] * values[other_row, column]
                    values[row, column] = product / values[other_row, other_column]
                changed = True
    return values


def reached(n, codes):
    """Entries whose row and column are joined by a path of revealed entries, by a search from every row."""
    columns_of, rows_of = [set() for _ in range(n)], [set() for _ in range(n)]
    for i, j in (divmod(code, n) for code in codes.tolist()):
        columns_of[i].add(j)
        rows_of[j].add(i)
    values = {}
    for start in range(n):
        rows, columns, waiting = {start}, set(), [start]
        while waiting:
            for j in columns_of[waiting.pop()] - columns:
                columns.add(j)
                waiting += rows_of[j] - rows
                rows |= rows_of[j]
        values |= {(start, j): float(start + j) for j in columns}
    return values


# --- what is revealed ---------------------------------------------------------------------------------------------


def test_revealed_entries_are_distinct_and_a_smaller_set_begins_a_larger_one():
    everything = reveal(7, 49, "order")
    assert everything.dtype == np.int64
    assert sorted(everything.tolist()) == list(range(49))
    for revealed in range(50):
        assert reveal(7, revealed, "order").tolist() == everything[:revealed].tolist()
    assert reveal(7, 49, "another").tolist() != everything.tolist()


def test_every_entry_is_revealed_equally_often():
    draws = 3_000
    counts = np.bincount(np.concatenate([reveal(4, 5, "uniform", draw) for draw in range(draws)]), minlength=16)
    share = 5 / 16
    assert np.abs(counts - draws * share).max() < 4 * math.sqrt(draws * share * (1 - share))


def test_the_revealed_entries_never_change():
    assert reveal(10, 6, "golden", 0).tolist() == [17, 61, 28, 98, 12, 56]


# --- the published rule -------------------------------------------------------------------------------------------


def test_the_published_rule_fills_what_plain_sweeps_fill_with_their_values():
    filled = 0
    for n, revealed, trial in SMALL:
        codes = reveal(n, revealed, "published", trial)
        expected = judge(n, codes, rank_one_sweeps(n, codes))
        assert as_published(n, codes) == expected, (n, revealed, trial)
        filled += expected.filled
    assert len(SMALL) / 4 < filled < 3 * len(SMALL) / 4, "the cases should fall on both sides"


@pytest.mark.parametrize(("n", "revealed"), [(24, 100), (24, 120), (24, 150), (24, 300), (40, 330)])
def test_the_published_rule_fills_larger_tables_in_the_order_of_the_sweeps(n, revealed):
    for trial in range(3):
        codes = reveal(n, revealed, "larger", trial)
        assert as_published(n, codes) == judge(n, codes, rank_one_sweeps(n, codes))


@pytest.mark.parametrize("missing", range(4))
def test_each_corner_of_a_block_can_be_filled_and_comes_out_wrong(missing):
    # 1 * 1 / 2 for 0, 0 * 2 / 1 for 1 twice, and 1 * 1 / 0, which is infinite but counts as filled, for 2.
    codes = np.array([code for code in range(4) if code != missing])
    assert as_published(2, codes) == Completion(filled=True, determined=1.0, right=0.0, rounded=0.0)


def test_a_value_that_is_nearly_right_rounds_to_the_right_one():
    last = np.arange(15)  # 5 * 5 / 4 = 6.25 for 3 + 3
    assert as_published(4, last) == Completion(filled=True, determined=1.0, right=0.0, rounded=1.0)


@pytest.mark.parametrize(
    ("n", "revealed", "published"),
    [
        *[(20, 70, 0.07), (20, 85, 0.41), (20, 100, 0.83), (20, 150, 1.0)],
        *[(50, 300, 0.02), (50, 400, 0.44), (50, 480, 0.97)],
        *[(100, 500, 0.0), (100, 1_000, 0.02), (100, 1_500, 0.82), (100, 2_000, 1.0)],
    ],
)
def test_the_published_transition_is_found_again(n, revealed, published):
    trials = 60
    found = run_trials("as_published", n, revealed, trials, seed=0)
    # Both are shares of random trials, the published one of 100.
    spread = math.sqrt(published * (1 - published) * (1 / trials + 1 / 100))
    assert abs(found["filled"] / trials - published) < 3 * spread + 0.03
    assert found["all_right"] == 0


def test_hardly_any_value_of_a_published_success_is_right():
    found = run_trials("as_published", 100, 2_000, 10, seed=0)
    assert (found["filled"], found["determined"]) == (10, 1.0)
    assert 0 < found["right"] < 0.01
    # Near, though: most would round to the right integer. Still no trial has them all.
    assert 0.8 < found["rounded"] < 0.95
    assert (found["all_right"], found["all_rounded"]) == (0, 0)


def test_the_published_rule_takes_on_the_largest_published_table():
    assert as_published(500, reveal(500, 50_000, "large")).filled


# --- sums ---------------------------------------------------------------------------------------------------------


def test_sums_determines_what_is_connected_and_gets_all_of_it_right():
    partly = 0
    for n, revealed, trial in SMALL:
        codes = reveal(n, revealed, "sums", trial)
        completion = sums(n, codes)
        assert completion == judge(n, codes, reached(n, codes)), (n, revealed, trial)
        assert completion.right == completion.rounded == completion.determined
        partly += 0 < completion.determined < 1
    assert partly > len(SMALL) / 5


def test_sums_determines_what_follows_by_linear_algebra():
    """An entry is determined if its equation is a combination of the revealed ones."""
    for n, revealed in [(2, 2), (3, 4), (4, 5), (4, 7), (6, 8), (6, 11)]:
        for trial in range(6):
            codes = reveal(n, revealed, "rank", trial)
            equations = [np.eye(n)[i].tolist() + np.eye(n)[j].tolist() for i in range(n) for j in range(n)]
            known = [equations[code] for code in codes]
            rank = np.linalg.matrix_rank(known)
            hidden = [code for code in range(n * n) if code not in codes]
            follow = [np.linalg.matrix_rank([*known, equations[code]]) == rank for code in hidden]
            assert sums(n, codes).determined == sum(follow) / len(hidden)
            assert sums(n, codes).filled == (rank == 2 * n - 1)


def test_sums_follows_the_longest_path():
    # A staircase: every row and column hangs on the one before, 2n - 1 entries in all. One step less and it breaks.
    n = 300
    stairs = np.array([code for i in range(n) for code in (i * n + i, i * n + i + 1)][:-1])
    for order in (stairs, stairs[::-1], stairs[Stream("stairs").permutation(len(stairs))]):
        assert sums(n, order) == Completion(True, 1.0, 1.0, 1.0)
    broken = sums(n, np.delete(stairs, 299))
    assert not broken.filled
    assert broken.right == broken.determined < 0.6


@pytest.mark.parametrize(("n", "revealed"), [(50, 180), (50, 240), (50, 320), (100, 450), (100, 550), (100, 750)])
def test_sums_succeeds_as_often_as_random_graphs_are_connected(n, revealed):
    """About n ln n entries are enough: what is missing is a row or column without any, exp(-revealed / n) each."""
    trials = 100
    expected = math.exp(-2 * n * math.exp(-revealed / n))
    found = run_trials("sums", n, revealed, trials, seed=0)
    assert abs(found["filled"] / trials - expected) < 0.15
    assert found["all_right"] == found["all_rounded"] == found["filled"]


def test_sums_determines_all_that_the_published_rule_fills_and_more():
    filled = determined = 0.0
    for revealed in (60, 100, 140, 180):
        for trial in range(10):
            codes = reveal(30, revealed, "both", trial)
            assert as_published(30, codes).determined <= sums(30, codes).determined
            filled += as_published(30, codes).determined
            determined += sums(30, codes).determined
    assert filled < determined / 2


# --- nuclear norm -------------------------------------------------------------------------------------------------


def test_nuclear_norm_recovers_a_table_with_most_entries_and_fails_with_few():
    most, few = (run_trials("nuclear_norm", 12, revealed, 10, seed=0) for revealed in (130, 40))
    assert (most["all_right"], most["right"]) == (10, 1.0)
    assert (few["all_right"], few["filled"], few["determined"]) == (0, 10, 1.0)
    assert few["right"] == few["rounded"] < 0.7


def test_nuclear_norm_finds_the_least_norm_over_a_single_hidden_entry():
    """The norm is convex in one entry, so thirds of an interval close in on its least value."""
    for n, hidden in [(2, 0), (2, 1), (2, 3), (3, 4), (5, 0), (5, 13), (5, 24)]:
        mask = mask_of(n, np.delete(np.arange(n * n), hidden))
        candidate, low, high = table_of(n), -10.0, 20.0
        while high - low > 1e-7:
            norms = []
            for value in (thirds := (low + (high - low) / 3, high - (high - low) / 3)):
                candidate.flat[hidden] = value
                norms.append(np.linalg.norm(candidate, "nuc"))
            low, high = (low, thirds[1]) if norms[0] < norms[1] else (thirds[0], high)
        found = _least_nuclear_norm(table_of(n), mask, 3_000, 1e-6)
        assert found.flat[hidden] == pytest.approx(low, abs=0.01)


@pytest.mark.parametrize(("n", "revealed"), [(6, 14), (10, 50), (16, 100)])
def test_nuclear_norm_keeps_what_is_revealed_and_cannot_be_bettered(n, revealed):
    codes = reveal(n, revealed, "least")
    mask = mask_of(n, codes)
    found = _least_nuclear_norm(table_of(n), mask, 3_000, 1e-6)
    assert np.array_equal(found[mask], table_of(n)[mask])
    assert nuclear_norm(n, codes).right == (np.abs(found - table_of(n)) < 0.5)[~mask].mean() < 1
    least = np.linalg.norm(found, "nuc")
    assert least < np.linalg.norm(table_of(n), "nuc")
    signs = 2 * Stream("signs").below(2, 300 * n * n).reshape(300, n, n) - 1
    for size in (0.01, 0.1, 1.0):
        assert min(np.linalg.norm(found + size * ~mask * sign, "nuc") for sign in signs) > least


def test_nuclear_norm_refuses_tables_beyond_its_limit():
    n = NUCLEAR_NORM_LIMIT
    assert nuclear_norm(n, reveal(n, n * n - 5, "limit")).right == 1
    with pytest.raises(Unsupported, match=f"up to {n} x {n}, not {n + 1} x {n + 1}"):
        run_trials("nuclear_norm", n + 1, 100, 1, seed=0)


# --- all methods --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_nothing_hidden_is_a_success_and_nothing_revealed_is_none(method):
    assert METHODS[method](6, np.arange(36)) == Completion(True, 1.0, 1.0, 1.0)
    nothing = METHODS[method](6, reveal(6, 0, "nothing"))
    assert nothing.right < 0.1
    # Nuclear norm gives every entry a value, zero here.
    assert (nothing.filled, nothing.determined) == ((True, 1.0) if method == "nuclear_norm" else (False, 0.0))


@pytest.mark.parametrize("method", ["as_published", "sums"])
def test_another_entry_never_takes_a_value_away(method):
    for trial in range(5):
        num_values = []
        for revealed in range(0, 401, 10):
            completion = METHODS[method](20, reveal(20, revealed, "more", trial))
            num_values.append(revealed + completion.determined * (400 - revealed))
        assert all(after > before - 1e-9 for before, after in pairwise(num_values))
        assert num_values[-1] == 400


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_codes_does_not_matter(method):
    codes = reveal(14, 80, "order")
    assert METHODS[method](14, codes) == METHODS[method](14, codes[::-1]) == METHODS[method](14, np.sort(codes))


@pytest.mark.parametrize("method", METHODS)
def test_trials_are_the_mean_of_their_streams_and_depend_on_the_seed(method):
    found = run_trials(method, 8, 20, 6, seed=3)
    each = [METHODS[method](8, reveal(8, 20, "reveal", 8, 20, 3, trial)) for trial in range(6)]
    assert found == {
        "trials": 6,
        "filled": sum(completion.filled for completion in each),
        "all_right": sum(completion.right == 1 for completion in each),
        "all_rounded": sum(completion.rounded == 1 for completion in each),
        "determined": pytest.approx(np.mean([completion.determined for completion in each])),
        "right": pytest.approx(np.mean([completion.right for completion in each])),
        "rounded": pytest.approx(np.mean([completion.rounded for completion in each])),
    }
    assert run_trials(method, 8, 20, 6, seed=3) == found != run_trials(method, 8, 20, 6, seed=4)


@pytest.mark.parametrize(
    ("n", "revealed", "trials", "says"),
    [
        (1, 0, 1, "at least 2 rows and columns, not 1"),
        (5, 26, 1, "26 entries cannot be revealed: a 5 x 5 table has 25"),
        (5, -1, 1, "-1 entries cannot be revealed"),
        (5, 3, 0, "at least 1 trial is needed, not 0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(n, revealed, trials, says):
    with pytest.raises(BadInput, match=says):
        run_trials("sums", n, revealed, trials, seed=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("code", [-1, 25])
def test_codes_outside_the_table_are_refused(method, code):
    with pytest.raises(BadInput, match="0 … 24"):
        METHODS[method](5, np.array([3, code]))


def test_an_unknown_method_is_named_with_its_likely_meaning():
    with pytest.raises(UnknownName, match=r"unknown method 'sum' .*did you mean 'sums'"):
        run_trials("sum", 5, 3, 1, seed=0)
