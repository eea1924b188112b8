import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carryon.config import DataConfig, config_hash, load
from carryon.data import SPLITS, Endless, draw_held_out, make_dataset, make_splits
from carryon.errors import OutOfProblems, Unsupported
from carryon.operations import operation
from carryon.sampling import SAMPLERS


def splits(seed=0, **values):
    return make_splits(load(DataConfig, values), seed)


def sets(made):
    return {split: set(made.codes(split).tolist()) for split in SPLITS}


CASES = [
    *(
        {"sampler": sampler, "num_examples": 5_000}
        for sampler in sorted(set(SAMPLERS) - {"revealed", "equal_operands"})
    ),
    {"sampler": "revealed", "table": 100, "num_examples": 2_000},
    {"operation": "subtract", "num_examples": 3_000},
    {"operation": "multiply", "digits": 2, "num_examples": 3_000},
    {"operation": "sine", "num_examples": 20_415, "format": "plain"},
    {"operation": "sqrt", "num_examples": 40_000, "format": "plain"},
    {"digits": 10, "sampler": "balanced_lengths", "num_examples": 5_000},
    {"digits": 20, "num_examples": 2_000, "num_test": 500},
    {"base": 2, "digits": 10, "num_examples": 5_000},
    {"digits": 7, "sampler": "equal_lengths", "test_sampler": "equal_lengths", "num_examples": 5_000},
    {"operands": 3, "digits": 2, "format": "plain", "test_sampler": "equal_operands", "num_examples": 5_000},
    {"operands": 3, "digits": 2, "format": "plain", "test_sampler": "full_length", "sampler": "uniform"}
    | {"num_examples": 5_000},
    {"operands": 6, "digits": 9, "format": "plain", "test_sampler": "equal_operands", "num_examples": 5_000},
]


@pytest.mark.parametrize("values", CASES, ids=str)
def test_the_splits_have_nothing_in_common_and_no_duplicates(values):
    made = splits(**values)
    found = sets(made)
    assert len(made.train) == values["num_examples"]
    for split in SPLITS:
        assert len(found[split]) == len(made.codes(split))
    assert not found["train"] & found["test"]
    assert not found["train"] & found["validation"]
    assert not found["validation"] & found["test"]


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 30_000))
def test_any_seeds_and_size_keep_the_splits_apart(seed, split_seed, size):
    found = sets(splits(seed, split_seed=split_seed, num_examples=size))
    assert not found["train"] & (found["test"] | found["validation"])


def test_the_test_set_depends_on_the_split_seed_alone():
    base = splits()
    for seed, values in [
        (1, {}),
        (0, {"num_examples": 500}),
        (0, {"sampler": "uniform"}),
        (0, {"sampler": "balanced_carries"}),
        (0, {"operation": "subtract"}),
        (0, {"format": "plain"}),
        (0, {"exclude": {"numbers": 100}}),
        (0, {"exclude": {"digit": 5, "position": 1}}),
    ]:
        other = splits(seed, **values)
        assert other.test.tolist() == base.test.tolist()
        assert other.validation.tolist() == base.validation.tolist()
    assert len(set(splits(split_seed=1).test.tolist()) & set(base.test.tolist())) < 200


def test_training_samples_depend_on_their_seed():
    assert splits(0).train.tolist() == splits(0).train.tolist()
    assert len(set(splits(0).train.tolist()) & set(splits(1).train.tolist())) < 1_000


def test_the_sizes_of_a_family_are_nested():
    smaller = set()
    for size in (250, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 20_000, 40_000):
        larger = set(splits(3, num_examples=size).train.tolist())
        assert smaller < larger
        smaller = larger


def test_subtraction_uses_the_pairs_of_addition():
    assert splits(2).train.tolist() == splits(2, operation="subtract").train.tolist()


def test_one_digit_problems_are_trained_on_and_never_tested():
    made = splits()
    digits = made.domain.longest
    assert (digits(made.train) == 1).sum() == 100
    assert (digits(made.test) > 1).all()
    assert (digits(made.validation) > 1).all()


@pytest.mark.parametrize(
    "values", [{}, {"digits": 2, "num_examples": 2_000}, {"operation": "multiply", "digits": 2, "num_examples": 500}]
)
def test_a_test_set_looks_like_its_domain(values):
    """No stratum is starved: every count of carries and digits as often as in the domain, within chance."""
    made = splits(**values)
    op = operation("add")
    domain = made.domain
    every = np.arange(domain.size)
    every = every[domain.longest(every) > 1]
    for label in (domain.longest, lambda codes: op.carries(*domain.split(codes)), lambda codes: codes % 10):
        expected, found = Counter(label(every).tolist()), Counter(label(made.test).tolist())
        for key, count in expected.items():
            share = count / len(every)
            chance = (share * (1 - share) * len(made.test)) ** 0.5
            assert abs(found[key] - share * len(made.test)) < 5 * chance + 1, key


def test_small_domains_give_less_and_say_so():
    made = splits(operation="multiply", digits=2, num_examples=3_000)
    assert (len(made.test), len(made.validation)) == (6_000, 1_000)
    assert made.notes == ("test: 6,000 problems instead of 10,000 (60 % of the 10,000 problems there are)",)
    assert splits().notes == ()
    assert len(splits(operation="sine", format="plain").test) == 10_000
    one_digit = splits(digits=1, num_examples=100)
    assert len(one_digit.test) == 0
    assert "all that training does not include" in one_digit.notes[0]


@pytest.mark.parametrize(
    ("values", "wanted", "exist"),
    [
        ({"operation": "sine", "num_examples": 20_416, "format": "plain"}, 20_416, 20_415),
        ({"operation": "multiply", "digits": 2, "num_examples": 3_001}, 3_001, 3_000),
        ({"num_examples": 1_000_000}, 1_000_000, 989_000),
        ({"num_test": 2_000_000}, 2_000_000, 999_900),
        ({"digits": 1, "num_examples": 101}, 101, 100),
        ({"exclude": {"lengths": (1, 2, 3)}}, 10_000, 0),
    ],
)
def test_more_than_there_is_cannot_be_had(values, wanted, exist):
    with pytest.raises(OutOfProblems) as error:
        splits(**values)
    assert (error.value.wanted, error.value.exist) == (wanted, exist)
    assert f"{wanted:,}" in str(error.value)
    assert f"{exist:,}" in str(error.value)


def test_all_that_is_left_can_be_trained_on():
    made = splits(num_examples=989_000)
    assert len(sets(made)["train"]) == 989_000


@pytest.mark.parametrize("choice", ["random", "rarest"])
def test_excluded_numbers_are_missing_from_training_and_present_in_tests(choice):
    made = splits(exclude={"numbers": 500, "choice": choice})
    hidden = set(made.excluded_numbers)
    assert len(hidden) == 500
    a, b = made.domain.split(made.train)
    assert not hidden & {*a.tolist(), *b.tolist()}
    a, b = made.domain.split(made.test)
    assert len(hidden & {*a.tolist(), *b.tolist()}) > 400
    fewer = splits(exclude={"numbers": 100, "choice": choice})
    assert set(fewer.excluded_numbers) < hidden


def test_the_rarest_numbers_of_long_operands_cannot_be_told():
    with pytest.raises(Unsupported, match="up to 6 digits"):
        splits(digits=9, exclude={"numbers": 3, "choice": "rarest"})


def test_two_operands_are_drawn_as_ever():
    """To the problem: every set that was ever made can be made again."""
    digest = hashlib.sha256()
    for values in ({}, {"digits": 20, "num_examples": 2_000, "num_test": 500}, {"operation": "multiply", "digits": 2}):
        made = splits(1, **{"num_examples": 3_000} | values)
        for split in SPLITS:
            digest.update(repr(made.codes(split).tolist()).encode())
    assert digest.hexdigest()[:16] == "fc66c32152106d9e"
    assert config_hash(DataConfig()) == config_hash(DataConfig(operands=2))


def test_sums_of_few_one_digit_numbers_are_never_tested():
    made = splits(operands=5, digits=2, format="plain", test_sampler="equal_operands", num_examples=20_000)
    shapes = {
        split: Counter(zip(made.domain.counts(codes), made.domain.longest(codes), strict=True))
        for split, codes in ((split, made.codes(split)) for split in SPLITS)
    }
    assert {key: shapes["train"][key] for key in ((2, 1), (3, 1))} == {(2, 1): 100, (3, 1): 1_000}
    assert set(shapes["train"]) == {(count, longest) for count in (2, 3, 4, 5) for longest in (1, 2)}
    for split in ("test", "validation"):
        assert set(shapes[split]) == {(5, 1), (2, 2), (3, 2), (4, 2), (5, 2)}


def test_a_format_that_does_not_fit_is_refused_before_anything_is_drawn():
    with pytest.raises(Unsupported, match="simplified_scratchpad does not exist for sine"):
        make_dataset(load(DataConfig, {"operation": "sine", "format": "simplified_scratchpad"}))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"operation": "multiply", "digits": 2, "num_examples": 1_000},
        {"digits": 9},
        {"operands": 3, "digits": 3, "format": "plain", "test_sampler": "equal_operands"},
        {"operation": "sqrt", "format": "plain"},
    ],
    ids=str,
)
def test_endless_sampling_never_meets_a_held_out_problem(values):
    config = load(DataConfig, values)
    held_out = set(draw_held_out(config).both.tolist())
    blocks = [Endless(config, 5).block(number) for number in range(12)]
    drawn = Counter(code for block in blocks for code in block.tolist())
    assert len(held_out) >= 7_000
    assert not held_out & set(drawn)
    # It goes on, and starts anywhere.
    assert blocks[7].tolist() == Endless(config, 5).block(7).tolist()
    assert blocks[7].tolist() != blocks[8].tolist()
    assert blocks[7].tolist() != Endless(config, 6).block(7).tolist()


def test_endless_sampling_keeps_exclusions_and_proportions():
    config = load(DataConfig, {"exclude": {"digit": 5, "position": 1}})
    made = make_splits(config)
    for codes in map(Endless(config).block, range(3)):
        a, b = made.domain.split(codes)
        assert not ((a % 10 == 5) | (b % 10 == 5)).any()
        carries = Counter(operation("add").carries(a, b).tolist())
        assert set(carries.values()) == {2_500}


# --- what a hunt for bad input found ------------------------------------------------------------------------------


def test_hiding_the_longest_lengths_leaves_all_the_others():
    uniform = splits(digits=6, sampler="uniform", num_examples=1_000, exclude={"lengths": (5, 6)})
    assert set(uniform.domain.longest(uniform.train).tolist()) <= {1, 2, 3, 4}
    carries = splits(digits=6, sampler="balanced_carries", num_examples=1_000, exclude={"lengths": (5, 6)})
    counts = Counter(operation("add").carries(*carries.domain.split(carries.train)).tolist())
    assert counts == dict.fromkeys(range(5), 200)


def test_hiding_nearly_all_numbers_leaves_what_is_left():
    made = splits(digits=4, num_examples=20_000, exclude={"numbers": 8_990})
    assert len(sets(made)["train"]) == 20_000
    with pytest.raises(OutOfProblems) as error:
        splits(digits=4, num_examples=1_050_000, exclude={"numbers": 8_990})
    # 1,010 numbers are left, and so are all their pairs but the held-out ones.
    held_out = draw_held_out(load(DataConfig, {"digits": 4})).both
    hidden = set(made.excluded_numbers)
    a, b = (part.tolist() for part in made.domain.split(held_out))
    shown = sum(x not in hidden and y not in hidden for x, y in zip(a, b, strict=True))
    assert error.value.exist == 1_010**2 - shown


def test_held_out_problems_count_against_the_class_they_are_in():
    made = splits(base=2, digits=11, num_test=60_000, num_examples=24_000)
    carries = operation("add", 2).carries(*made.domain.split(made.train))
    assert all(abs(count - 2_000) <= 1 for count in Counter(carries.tolist()).values())
    made = splits(digits=10, sampler="balanced_lengths", num_examples=550_000)
    a, b = made.domain.lengths(made.train)
    assert ((np.minimum(a, b) == 1) & (np.maximum(a, b) == 3)).sum() >= 10_183


def test_every_problem_of_a_large_domain_can_be_had():
    config = load(DataConfig, {"base": 2, "digits": 11, "sampler": "uniform", "num_test": 0, "num_validation": 0})
    config = config.model_copy(update={"num_examples": 2**22})
    assert len(set(make_splits(config).train.tolist())) == 2**22


def test_more_rare_numbers_than_there_are_cannot_be_hidden():
    with pytest.raises(OutOfProblems, match="900"):
        splits(exclude={"numbers": 1_000, "choice": "rarest"}, num_examples=1_000)
    assert len(splits(digits=1, exclude={"numbers": 9, "choice": "rarest"}, num_examples=1).excluded_numbers) == 9


def test_a_table_has_its_own_digits():
    made = splits(sampler="revealed", table=50, exclude={"numbers": 5}, num_examples=10)
    assert max(made.excluded_numbers) < 50
    splits(sampler="revealed", table=5_000, exclude={"digit": 4, "position": 4}, num_examples=10)


def test_endless_sampling_works_where_little_is_left():
    config = load(DataConfig, {"operation": "multiply", "digits": 2})
    assert Endless(config).block_size == 3_000
    assert len(Endless(config).block(5)) == 3_000
