import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carryon.rng import Stream


def test_the_same_labels_give_the_same_numbers():
    # Golden values: these must never change, on any platform or with any library.
    assert Stream(0, "train", 17).below(1000, 5).tolist() == [864, 774, 293, 452, 108]
    assert Stream("x").below(10**30, 2).tolist() == [
        340013611557937187083547543140,
        143818338341917367195743333403,
    ]
    assert Stream("x").permutation(6).tolist() == [5, 3, 1, 4, 2, 0]


def test_other_labels_give_unrelated_numbers():
    streams = [Stream(0), Stream(1), Stream("0"), Stream((0,)), Stream(0, 0), Stream(None), Stream("0", ""), Stream()]
    draws = {tuple(stream.below(2**60, 4).tolist()) for stream in streams}
    assert len(draws) == len(streams)
    near, far = Stream("seed", 42).words(10_000), Stream("seed", 43).words(10_000)
    assert not set(near.tolist()) & set(far.tolist())


def test_a_stream_goes_on():
    stream = Stream("s")
    assert stream.words(4).tolist() != stream.words(4).tolist()


@pytest.mark.parametrize("label", [np.int64(3), 1.5, True, b"x", ["list"]])
def test_labels_that_would_silently_name_another_stream_are_refused(label):
    with pytest.raises(TypeError):
        Stream(label)


@given(st.integers(1, 2**200), st.integers(0, 50))
def test_numbers_stay_below_their_limit(limit, count):
    numbers = Stream("limit", limit).below(limit, count).tolist()
    assert len(numbers) == count
    assert all(0 <= number < limit for number in numbers)


@pytest.mark.parametrize("limit", [2, 3, 10, 1000])
def test_numbers_are_uniform(limit):
    count = 200 * limit
    seen = np.bincount(Stream("uniform", limit).below(limit, count), minlength=limit)
    chi_squared = ((seen - 200) ** 2 / 200).sum()
    assert chi_squared < limit - 1 + 5 * (2 * limit) ** 0.5


def test_weights_are_kept():
    picks = np.bincount(Stream("pick").pick([1, 3], 40_000), minlength=2)
    assert abs(picks[1] / 40_000 - 0.75) < 0.01


@given(st.integers(0, 2000))
def test_a_permutation_holds_everything_once(count):
    assert sorted(Stream("p", count).permutation(count).tolist()) == list(range(count))
