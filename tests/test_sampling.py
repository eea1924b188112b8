from collections import Counter
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carryon.config import DataConfig, ExcludeConfig
from carryon.data import make_dataset
from carryon.errors import OutOfProblems, UnknownName, Unsupported
from carryon.operations import Lists, Pairs, operation
from carryon.rng import Stream
from carryon.sampling import SAMPLERS, Barred, Drawing, make_plan, strata
from carryon.sampling.exclusions import random_numbers, rarest_numbers
from carryon.sampling.plans import deal

ADD = operation("add")
SIZES = (500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 20_000, 40_000)
ALL_PAIRS = sorted(set(SAMPLERS) - {"revealed", "equal_operands"})


def nothing(domain):
    return Barred(domain, domain.codes([]))


def draw(sampler, size, digits=3, seed=0, base=10, barred=None, op="add"):
    kind = operation(op, base)
    domain = kind.domain(digits)
    return domain, Drawing(make_plan(sampler, domain, kind), barred or nothing(domain)).distinct(size, "train", seed)


def digits_of(domain, codes):
    return Counter(max(len(a), len(b)) for a, b in domain.operands(codes))


def carries_of(domain, codes):
    """Counted the slow way, from the worked columns."""
    add = operation("add", domain.base)
    return Counter(sum(step.carry_out for step in add.steps(operands)) for operands in domain.operands(codes))


# --- strata -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "digits"), [(10, 2), (2, 5), (3, 3), (10, 3)])
def test_strata_drawn_by_construction_hold_what_listed_ones_do(base, digits, monkeypatch):
    domain = operation("add", base).domain(digits)
    kinds = [strata.by_lengths, strata.by_digits, strata.by_carries, strata.by_digits_and_carries]
    listed = [kind(domain, digits) for kind in kinds]
    monkeypatch.setattr(strata, "is_listable", lambda domain, size: False)
    strata.by_digits_and_carries.cache_clear()
    built = [kind(domain, digits) for kind in kinds]
    strata.by_digits_and_carries.cache_clear()
    for here, there in zip(listed, built, strict=True):
        assert list(here.of) == list(there.of)
        # Every problem lies in exactly one stratum, that of its label.
        assert sorted(np.concatenate([s.codes for s in here.of.values()]).tolist()) == list(range(domain.size))
        for key, stratum in here.of.items():
            assert set(here.label(stratum.codes)) == ({key} if stratum.size else set())
            other = there.of[key]
            assert not isinstance(other, strata.Listed)
            assert other.size == stratum.size
            if not stratum.size:
                continue
            drawn = other.draw(Stream("strata", str(key)), 4_000)
            assert set(drawn.tolist()) <= set(stratum.codes.tolist())
            if stratum.size < 200:  # all of them, and none much more often than another
                times = Counter(drawn.tolist())
                assert len(times) == stratum.size
                spread = 4_000 / stratum.size
                assert all(abs(count - spread) < 6 * spread**0.5 + 1 for count in times.values())


def test_strata_of_many_digits_are_drawn_by_construction():
    domain = ADD.domain(60)
    cells = strata.by_digits_and_carries(domain, 60)
    for carries in (0, 30, 60):
        codes = cells.of[60, carries].draw(Stream("long", carries), 20)
        assert set(ADD.carries(*domain.split(codes)).tolist()) == {carries}
        assert set(domain.longest(codes).tolist()) == {60}
    assert sum(stratum.size for stratum in cells.of.values()) == domain.size


# --- plans --------------------------------------------------------------------------------------------------------


def test_balanced_sets_keep_the_papers_counts_at_every_size():
    earlier = set()
    for size in (*SIZES, 50_000, 97_912, 100_000, 105_000):
        domain, codes = draw("balanced", size)
        two = size * 9 // 100
        assert digits_of(domain, codes) == {1: 100, 2: two, 3: size - 100 - two}
        assert Counter(ADD.carries(*domain.split(codes)).tolist()) == dict.fromkeys(range(4), size // 4)
        assert earlier < set(codes.tolist())
        earlier = set(codes.tolist())
    domain, codes = draw("balanced", 10_000)
    assert digits_of(domain, codes) == {1: 100, 2: 900, 3: 9_000}


@settings(max_examples=30)
@given(st.integers(500, 60_000), st.integers(0, 10**9))
def test_balanced_counts_hold_for_any_size_and_seed(size, seed):
    domain, codes = draw("balanced", size, seed=seed)
    assert len(set(codes.tolist())) == size
    lengths = Counter(domain.longest(codes).tolist())
    assert lengths == {1: 100, 2: size * 9 // 100, 3: size - 100 - size * 9 // 100}
    carries = Counter(ADD.carries(*domain.split(codes)).tolist())
    assert all(count in (size // 4, size // 4 + 1) for count in carries.values())


def test_small_balanced_sets_are_as_near_as_can_be():
    domain, codes = draw("balanced", 250)
    assert digits_of(domain, codes) == {1: 100, 2: 22, 3: 128}
    assert sorted(carries_of(domain, codes).values()) == [62, 62, 63, 63]
    domain, codes = draw("balanced", 40)
    assert digits_of(domain, codes) == {1: 40}
    assert carries_of(domain, codes) == {0: 20, 1: 20}


def test_two_digit_problems_of_a_balanced_set_have_carries_as_they_come():
    domain, codes = draw("balanced", 10_000)
    two = codes[domain.longest(codes) == 2]
    share = {carries: count / 900 for carries, count in carries_of(domain, two).items()}
    # Of all 9,900 two-digit problems: 2,970 have none, 4,455 one, 2,475 two.
    assert share[0] == pytest.approx(0.30, abs=0.05)
    assert share[1] == pytest.approx(0.45, abs=0.05)
    assert share[2] == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize(("base", "digits", "size"), [(10, 5, 6_000), (2, 10, 5_000), (7, 4, 5_000), (10, 12, 3_000)])
def test_balanced_sets_of_other_domains(base, digits, size):
    domain, codes = draw("balanced", size, digits=digits, base=base)
    lengths, carries = digits_of(domain, codes), carries_of(domain, codes)
    assert len(set(codes.tolist())) == size
    assert lengths[1] == base**2
    for length in range(2, digits):
        share = size * (base - 1) * base ** (length - 1) // base**digits
        assert lengths[length] in (share - 1, share)
    assert max(carries.values()) - min(carries.values()) <= 1
    assert len(carries) == digits + 1


def test_balanced_digits_and_balanced_carries_keep_one_rule_each():
    domain, codes = draw("balanced_digits", 10_000)
    assert digits_of(domain, codes) == {1: 100, 2: 900, 3: 9_000}
    assert carries_of(domain, codes)[3] < 1_800  # as they come: one in seven
    domain, codes = draw("balanced_carries", 10_001)
    assert carries_of(domain, codes) == {0: 2_500, 1: 2_500, 2: 2_500, 3: 2_501}
    assert digits_of(domain, codes)[2] < 300


@pytest.mark.parametrize(("digits", "size"), [(3, 10_000), (5, 10_000), (10, 10_000), (7, 777), (2, 400)])
def test_balanced_lengths_follow_the_papers_rule(digits, size):
    domain, codes = draw("balanced_lengths", size, digits=digits)
    pairs = Counter(tuple(sorted(map(len, operands))) for operands in domain.operands(codes))
    assert sum(pairs.values()) == len(set(codes.tolist())) == size
    assert pairs[1, 1] == 100
    classes = [pair for pair in combinations_with_replacement(range(1, digits + 1), 2) if pair != (1, 1)]
    share = (size - 100) // (digits * (digits + 1) // 2 - 1)
    exist = {(a, b): strata.Lengths(domain, a, b).size for a, b in classes}
    for pair in classes:
        assert pairs[pair] >= min(share, exist[pair])
    # What some lack and what is left over is spread over the rest, longest first.
    full = [pair for pair in classes if pairs[pair] < exist[pair]]
    assert max(pairs[pair] for pair in full) - min(pairs[pair] for pair in full) <= 1
    assert pairs[digits, digits] == max(pairs[pair] for pair in classes)


def test_lengths_come_in_both_orders():
    domain, codes = draw("balanced_lengths", 5_000, digits=5)
    first_shorter = [len(a) < len(b) for a, b in domain.operands(codes) if len(a) != len(b)]
    assert 0.45 < np.mean(first_shorter) < 0.55


def test_equal_lengths_are_equal_as_far_as_they_go():
    domain, codes = draw("equal_lengths", 7_000, digits=7)
    lengths = digits_of(domain, codes)
    assert lengths[1] == 100
    assert [lengths[d] for d in range(2, 8)] == [1_150] * 6


def test_of_a_full_length_every_other_length_comes_as_often():
    domain, codes = draw("balanced_full_length", 4_000, digits=4)
    lengths = Counter(tuple(sorted(map(len, operands))) for operands in domain.operands(codes))
    assert lengths == {(short, 4): 1_000 for short in (1, 2, 3, 4)}


@pytest.mark.parametrize("digits", [1, 3, 12])  # listed, and too many to list
def test_both_operands_can_be_of_full_length(digits):
    config = DataConfig(digits=digits, sampler="both_full_length", test_sampler="both_full_length")
    counts = {"num_examples": 50, "num_test": 0 if digits == 1 else 20, "num_validation": 0 if digits == 1 else 10}
    dataset = make_dataset(config.model_copy(update=counts), 0)
    for split, count in zip(("train", "test", "validation"), counts.values(), strict=True):
        problems = dataset.problems(split)
        assert len(set(problems)) == count
        assert {len(operand) for problem in problems for operand in problem.operands} <= {digits}


@pytest.mark.parametrize("sampler", ["full_length", "both_full_length", "balanced_full_length"])
def test_a_full_length_stays_full_where_something_is_hidden(sampler):
    config = DataConfig(sampler=sampler, exclude=ExcludeConfig(digit=5, position=1), num_examples=2_000)
    problems = make_dataset(config, 0).problems("train")
    assert {max(map(len, problem.operands)) for problem in problems} == {3}


def test_products_are_all_of_one_digit_and_then_random_ones():
    domain, codes = draw("balanced", 3_000, digits=2, op="multiply")
    assert digits_of(domain, codes) == {1: 100, 2: 2_900}


def test_revealed_entries_are_uniform_over_the_table():
    table = Pairs(20)
    codes = Drawing(make_plan("revealed", table, ADD), nothing(table)).distinct(400, "train", 0)
    assert sorted(codes.tolist()) == list(range(400))


@given(st.integers(0, 3_000), st.dictionaries(st.integers(0, 9), st.integers(0, 400), min_size=1))
def test_dealing_is_fair_exact_and_only_grows(size, capacity):
    order = sorted(capacity, reverse=True)
    counts = deal(size, capacity, order)
    assert sum(counts.values()) == min(size, sum(capacity.values()))
    assert all(counts[key] <= capacity[key] for key in capacity)
    open_counts = [counts[key] for key in order if counts[key] < capacity[key]]
    assert open_counts == sorted(open_counts, reverse=True)
    assert not open_counts or open_counts[0] - open_counts[-1] <= 1
    more = deal(size + 1, capacity, order)
    assert all(more[key] >= counts[key] for key in capacity)


# --- laws of every sampler ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ALL_PAIRS)
@pytest.mark.parametrize("digits", [3, 10, 25])
def test_equal_seeds_give_equal_sets_and_other_seeds_unrelated_ones(sampler, digits):
    domain, codes = draw(sampler, 2_000, digits=digits)
    assert codes.tolist() == draw(sampler, 2_000, digits=digits)[1].tolist()
    _, other = draw(sampler, 2_000, digits=digits, seed=1)
    long = codes[domain.longest(codes) == digits]
    shared = len(set(long.tolist()) & set(other.tolist()))
    assert shared < 0.05 * len(long)


@pytest.mark.parametrize("sampler", ALL_PAIRS)
@pytest.mark.parametrize(("digits", "sizes"), [(3, (90, 600, 601, 602, 607, 5_000)), (12, (150, 1_000, 1_001, 3_000))])
def test_smaller_sets_lie_inside_larger_ones(sampler, digits, sizes):
    sets = [set(draw(sampler, size, digits=digits)[1].tolist()) for size in sizes]
    assert [len(s) for s in sets] == list(sizes)
    for smaller, larger in pairwise(sets):
        assert smaller < larger


@pytest.mark.parametrize("sampler", ALL_PAIRS)
def test_barred_problems_are_never_drawn(sampler):
    domain = ADD.domain(3)
    avoid = Stream("avoid").below(domain.size, 300_000)
    _, codes = draw(sampler, 20_000, barred=Barred(domain, avoid))
    assert not set(codes.tolist()) & set(avoid.tolist())
    plan = make_plan(sampler, domain, ADD)
    block = Drawing(plan, Barred(domain, avoid)).block(20_000, "block", 0)
    assert len(block) == 20_000
    assert not set(block.tolist()) & set(avoid.tolist())


def test_barring_problems_leaves_the_order_of_the_others():
    domain = ADD.domain(3)
    _, codes = draw("uniform", 2_000)
    out = codes[:1_000]
    _, rest = draw("uniform", 1_000, barred=Barred(domain, out))
    assert set(codes.tolist()) - set(out.tolist()) == set(rest.tolist())


@pytest.mark.parametrize("sampler", ALL_PAIRS)
def test_asking_for_all_gives_all_and_one_more_is_refused(sampler):
    shortest = {"full_length": (1, 2), "balanced_full_length": (1, 2), "both_full_length": (2, 2)}.get(sampler, (1, 1))
    domain = ADD.domain(2)
    lengths = [sorted(map(len, operands)) for operands in domain.operands(np.arange(domain.size))]
    every = [code for code, pair in enumerate(lengths) if pair >= list(shortest)]
    exist = len(every)
    _, codes = draw(sampler, exist, digits=2)
    assert sorted(codes.tolist()) == every
    with pytest.raises(OutOfProblems) as error:
        draw(sampler, exist + 1, digits=2)
    assert (error.value.wanted, error.value.exist) == (exist + 1, exist)


def test_a_block_keeps_the_proportions():
    domain = ADD.domain(3)
    codes = Drawing(make_plan("balanced", domain, ADD), nothing(domain)).block(10_000, "block", 7)
    assert digits_of(domain, codes) == {1: 100, 2: 900, 3: 9_000}
    assert carries_of(domain, codes) == dict.fromkeys(range(4), 2_500)


@pytest.mark.parametrize("sampler", ["balanced_lengths", "equal_lengths"])
def test_a_block_may_end_at_a_length(sampler):
    domain = ADD.domain(9)
    drawing = Drawing(make_plan(sampler, domain, ADD), nothing(domain))
    counts = digits_of(domain, drawing.block(9_000, "block", 7, longest=4))
    assert sorted(counts) == [1, 2, 3, 4]
    share = {"balanced_lengths": [100, 1_978, 2_967, 3_955], "equal_lengths": [100, 2_966, 2_967, 2_967]}[sampler]
    # By pairs of lengths: (2, 1) and (2, 2), three of three digits, four of four.
    assert [counts[length] for length in (1, 2, 3, 4)] == pytest.approx(share, abs=2)
    assert max(digits_of(domain, drawing.block(9_900, "block", 7, longest=1))) == 2  # of one digit there are 100
    assert digits_of(domain, drawing.block(9_000, "block", 7, longest=9)) == digits_of(
        domain, drawing.block(9_000, "block", 7)
    )


def test_lists_are_drawn_by_operands_and_length():
    """Every class alike; in half of a class all numbers have its length, of the others every length is as likely."""
    domain = Lists(4, 10**8)
    codes = Drawing(make_plan("equal_operands", domain, ADD), nothing(domain)).distinct(12_000, "train", 0)
    lists = list(domain.operands(codes))
    assert len(set(lists)) == 12_000
    classes = Counter((len(texts), max(map(len, texts))) for texts in lists)
    assert set(classes) == {(count, longest) for count in (2, 3, 4) for longest in range(1, 9)}
    assert classes.pop((2, 1)) == 100  # all there are
    assert set(classes.values()) <= {517, 518}
    long = [texts for texts in lists if max(map(len, texts)) == 8]
    alike = [texts for texts in long if set(map(len, texts)) == {8}]
    # One in 8 more for two numbers, one in 64 for three: lengths that are alike by chance.
    assert abs(len(alike) / len(long) - 0.5 - (1 / 8 + 1 / 64) / 6) < 0.05
    # Of the others one has eight digits, at any place, and each of the rest as often every length.
    lengths = Counter(length for texts in long if texts not in alike for length in sorted(map(len, texts))[:-1])
    assert max(lengths.values()) < 1.35 * min(count for length, count in lengths.items() if length < 8)
    for place in range(2):
        assert 0.4 < np.mean([len(texts[place]) == 8 for texts in long if len(texts) == 2 and texts not in alike]) < 0.6


@pytest.mark.parametrize(("most", "digits"), [(3, 2), (5, 30)])
def test_strata_of_lists_hold_what_they_say(most, digits):
    domain = Lists(most, 10**digits)
    classes = strata.by_operands(domain, digits)
    assert sum(stratum.size for stratum in classes.of.values()) == domain.size
    full = strata.FullLists(domain)
    assert full.size == classes.of[most, digits].size
    assert set(classes.label(full.draw(Stream("full"), 500))) == {(most, digits)}
    for key, stratum in classes.of.items():
        codes = stratum.draw(Stream("lists", *key), 300)
        assert set(classes.label(codes)) == {key}
        assert all(0 <= code < domain.size for code in codes.tolist())
    if most == 3:
        drawn = classes.of[3, 1].draw(Stream("every"), 20_000)
        assert len(set(drawn.tolist())) == 1_000


def test_lists_may_have_all_digits_in_all_numbers():
    domain = Lists(7, 10**12)
    drawing = Drawing(make_plan("both_full_length", domain, ADD), nothing(domain))
    codes = drawing.distinct(300, "test", 0)
    assert drawing.exist == (9 * 10**11) ** 7
    assert all(len(texts) == 7 and {len(text) for text in texts} == {12} for texts in domain.operands(codes))


def test_smaller_sets_of_lists_lie_in_larger_ones():
    domain, smaller = Lists(4, 10**4), set()
    for size in (10, 100, 1_000, 5_000, 20_000):
        larger = set(Drawing(make_plan("equal_operands", domain, ADD), nothing(domain)).distinct(size, "t", 1).tolist())
        assert smaller < larger
        assert len(larger) == size
        smaller = larger


def test_samplers_that_do_not_fit_are_refused():
    lists = Lists(3, 1_000)
    for sampler in set(SAMPLERS) - {"uniform", "full_length", "both_full_length", "equal_operands", "revealed"}:
        with pytest.raises(Unsupported, match="two operands; more have equal_operands, uniform,"):
            make_plan(sampler, lists, ADD)
    with pytest.raises(Unsupported, match="more than 2 numbers: use uniform or equal_lengths"):
        make_plan("equal_operands", ADD.domain(3), ADD)
    with pytest.raises(Unsupported, match="19,800 classes of operands and digits, at most 10,000"):
        make_plan("equal_operands", Lists(100, 10**200), ADD)
    sine = operation("sine")
    for sampler in set(SAMPLERS) - {"uniform", "revealed"}:
        with pytest.raises(Unsupported, match="uniform"):
            make_plan(sampler, sine.domain, sine)
    with pytest.raises(Unsupported, match="multiply has"):
        make_plan("balanced_carries", ADD.domain(2), operation("multiply"))
    with pytest.raises(Unsupported, match="table of 50"):
        make_plan("balanced", Pairs(50), ADD)
    with pytest.raises(Unsupported, match="100 digits"):
        make_plan("balanced", ADD.domain(101), ADD)
    with pytest.raises(Unsupported, match="300 digits"):
        make_plan("balanced_lengths", ADD.domain(301), ADD)
    with pytest.raises(UnknownName, match="did you mean 'balanced'"):
        make_plan("balance", ADD.domain(3), ADD)


# --- exclusions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ALL_PAIRS)
@pytest.mark.parametrize("digits", [3, 11])
def test_hidden_numbers_digits_and_lengths_never_occur(sampler, digits):
    domain = ADD.domain(digits)
    numbers = random_numbers(domain, 100, 0)
    cases = [
        (ExcludeConfig(), numbers, lambda text: int(text) in set(numbers)),
        (ExcludeConfig(listed=(7, 123)), (), lambda text: text in ("7", "123")),
        (ExcludeConfig(digit=5, position=1), (), lambda text: text[-1] == "5"),
        (ExcludeConfig(digit=0, position=3), (), lambda text: len(text) >= 3 and text[-3] == "0"),
        (ExcludeConfig(lengths=(2,)), (), lambda text: len(text) == 2),
    ]
    for exclude, hidden_numbers, is_hidden in cases:
        barred = Barred(domain, domain.codes([]), exclude, hidden_numbers)
        _, codes = draw(sampler, 1_500, digits=digits, barred=barred)
        assert not any(is_hidden(a) or is_hidden(b) for a, b in domain.operands(codes))


def test_zero_is_a_digit_where_it_stands_and_nowhere_else():
    domain = ADD.domain(3)
    barred = Barred(domain, domain.codes([]), ExcludeConfig(digit=0, position=1))
    codes = domain.codes([domain.code(("0", "1")), domain.code(("7", "58")), domain.code(("57", "10"))])
    assert barred.allows(codes).tolist() == [False, True, False]


def test_fewer_random_numbers_are_the_first_of_more():
    for digits in (3, 12):
        domain = ADD.domain(digits)
        many = random_numbers(domain, 500, 0)
        assert random_numbers(domain, 100, 0) == many[:100]
        assert len(set(many)) == 500
        assert all(len(str(number)) == digits for number in many)
    with pytest.raises(OutOfProblems):
        random_numbers(ADD.domain(3), 901, 0)


def test_the_rarest_numbers_are_the_rarest():
    domain, codes = draw("balanced", 10_000)
    rare = rarest_numbers(domain, 100, codes, 0)
    times = Counter(int(text) for operands in domain.operands(codes) for text in operands)
    limit = max(times[number] for number in rare)
    assert len(set(rare)) == 100
    assert all(times[number] >= limit for number in set(range(100, 1_000)) - set(rare))
