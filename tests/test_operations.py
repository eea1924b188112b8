from decimal import ROUND_FLOOR, Decimal, getcontext
from fractions import Fraction
from itertools import product
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carryon.errors import BadOperand, UnknownName, Unsupported
from carryon.operations import OPERATIONS, Lists, Problem, operation, parse_question
from carryon.operations.decimals import decimal_text, parse_decimal
from carryon.operations.digits import digit_sum, num_digits, to_text

INTEGER = ("add", "subtract", "multiply")
numbers = st.integers(0, 10**40)
bases = st.integers(2, 10)


def in_base(text: str, base: int) -> int:
    return int(text, base)


@given(numbers, numbers, bases)
def test_answers_are_what_python_computes(a, b, base):
    for name, value in (("add", a + b), ("subtract", a - b), ("multiply", a * b)):
        problem = operation(name, base).problem(to_text(a, base), to_text(b, base))
        assert in_base(problem.answer, base) == value


@given(st.integers(-(10**30), 10**30), bases)
def test_text_in_a_base_reads_back(number, base):
    assert int(to_text(number, base), base) == number
    assert num_digits(abs(number), base) == len(to_text(abs(number), base))
    assert digit_sum(abs(number), base) == sum(map(int, to_text(abs(number), base)))


@pytest.mark.parametrize("name", ["add", "subtract"])
@given(a=numbers, b=numbers, base=bases)
def test_carries_are_those_of_the_worked_columns(name, a, b, base):
    op = operation(name, base)
    if name == "subtract":
        a, b = max(a, b), min(a, b)
    steps = op.steps((to_text(a, base), to_text(b, base)))
    worked = sum(step.carry_out != 0 for step in steps)
    assert op.carries(a, b) == worked
    assert op.carries(b, a) == worked


def test_carries_of_a_product_are_counted_column_by_column():
    multiply = operation("multiply")
    assert multiply.carries(12, 36) == 2  # 12 -> 1, 6+6+1=13 -> 1, 3+1=4
    assert multiply.carries(11, 11) == 0
    assert multiply.carries(99, 99) == 3
    assert multiply.carries(5, 0) == 0


@pytest.mark.parametrize("name", INTEGER)
@pytest.mark.parametrize("base", [2, 3, 10])
def test_carries_of_arrays_are_those_of_numbers(name, base):
    op = operation(name, base)
    a, b = np.meshgrid(np.arange(0, 300, 7), np.arange(0, 300, 7))
    a, b = a.ravel(), b.ravel()
    expected = [op.carries(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert op.carries(a, b).tolist() == expected
    assert op.carries(a.astype(object), b.astype(object)).tolist() == expected


def test_sine_is_floored_exactly_for_all_31415_inputs():
    # Another road to the same number: exact fractions between two partial sums of the series.
    sine = operation("sine")
    assert sine.domain.size == 31_415
    for value in range(sine.domain.first, sine.domain.last + 1):
        x = Fraction(abs(value), 10_000)
        # Consecutive partial sums of an alternating, falling series enclose the sine.
        low = sum((-1) ** k * x ** (2 * k + 1) / factorial(2 * k + 1) for k in range(6))
        high = low + x**13 / factorial(13)
        if value < 0:
            low, high = -high, -low
        low, high = ((bound * 10_000).__floor__() for bound in (low, high))
        answer = type(sine).compute(value)
        assert low <= answer <= high
        if low == high:
            continue
        getcontext().prec = 60
        exact = _decimal_sine(Decimal(value) / 10_000)
        assert answer == int((exact * 10_000).to_integral_value(ROUND_FLOOR))


def _decimal_sine(x: Decimal) -> Decimal:
    total, term, k = Decimal(0), x, 1
    while abs(term) > Decimal(10) ** -50:
        total += term
        k += 2
        term *= -x * x / (k * (k - 1))
    return total


def test_square_roots_are_floored_exactly_for_all_90000_inputs():
    sqrt = operation("sqrt")
    assert sqrt.domain.size == 90_000
    for value in range(sqrt.domain.first, sqrt.domain.last + 1):
        root = type(sqrt).compute(value)
        assert root**2 <= value * 10_000 < (root + 1) ** 2


@given(st.integers(-(10**7), 10**7))
def test_decimals_have_one_way_to_be_written(value):
    text = decimal_text(value)
    assert parse_decimal(text) == value
    assert Decimal(text) * 10_000 == value
    assert parse_decimal(text + "0" * (5 - len(text.split(".")[1]))) is None


def test_decimals_of_the_paper():
    assert decimal_text(27_175) == "2.7175"
    assert decimal_text(-6_360) == "-0.636"
    assert decimal_text(10_000) == "1.0"
    assert decimal_text(0) == "0.0"


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("add", ["12", "x"]),
        ("add", ["12"]),
        ("add", ["1"] * 101),
        ("add", ["1", "2", "03"]),
        ("multiply", ["1", "2", "3"]),
        ("add", ["012", "3"]),
        ("add", ["-1", "3"]),
        ("add", ["+1", "3"]),
        ("add", ["1_0", "3"]),
        ("add", ["", "3"]),
        ("add", ["٣", "3"]),  # a digit, but not ours
        ("add", ["1.5", "3"]),
        ("add", [1.5, "3"]),
        ("add", [None, "3"]),
        ("add", [True, "3"]),
        ("add", ["9" * 2001, "3"]),
        ("sine", ["1.6"]),
        ("sine", ["-1.5708"]),
        ("sine", ["1"]),
        ("sine", ["0.50"]),
        ("sine", ["0.12345"]),
        ("sine", ["nan"]),
        ("sine", ["-0.0"]),
        ("sine", [0.5]),
        ("sine", []),
        ("sqrt", ["10.0"]),
        ("sqrt", ["0.9999"]),
        ("sqrt", ["1.0", "2.0"]),
    ],
)
def test_operands_that_are_not_canonical_are_refused(name, operands):
    with pytest.raises(BadOperand) as error:
        operation(name).problem(*operands)
    assert len(str(error.value)) < 300


def test_operands_may_be_numbers_where_that_is_safe():
    assert operation("add").problem(128, 367) == operation("add").problem("128", "367")


def test_digits_beyond_the_base_are_refused():
    with pytest.raises(BadOperand, match="base 2"):
        operation("add", 2).problem("102", "1")
    with pytest.raises(BadOperand, match="2 to 10"):
        operation("add", 11)
    with pytest.raises(BadOperand, match="10 only"):
        operation("sine", 2)


def test_unknown_operations_get_a_guess():
    with pytest.raises(UnknownName, match="did you mean 'subtract'"):
        operation("substract")


@pytest.mark.parametrize("name", OPERATIONS)
def test_codes_and_operands_are_two_names_of_one_problem(name):
    op = operation(name)
    domain = op.domain(3) if name in INTEGER else op.domain
    codes = np.arange(0, domain.size, max(1, domain.size // 997))
    for code, operands in zip(codes.tolist(), domain.operands(codes), strict=True):
        assert op.check(operands) == operands
        assert domain.code(operands) == code
        assert parse_question(Problem(op, operands).question) == Problem(op, operands)


@pytest.mark.parametrize(("base", "digits"), [(10, 30), (2, 12), (2, 70), (7, 5)])
def test_codes_reach_any_number_of_digits(base, digits):
    domain = operation("add", base).domain(digits)
    largest = domain.codes([domain.size - 1, 0])
    assert list(domain.operands(largest)) == [(str(base - 1) * digits,) * 2, ("0", "0")]
    assert domain.longest(largest).tolist() == [digits, 1]
    assert domain.code(("1" + "0" * digits, "0")) is None


@given(st.lists(numbers, min_size=2, max_size=100), bases)
def test_sums_of_many_numbers_are_what_python_computes(terms, base):
    add = operation("add", base)
    problem = add.problem(*(to_text(term, base) for term in terms))
    assert in_base(problem.answer, base) == sum(terms)
    assert problem.question.count("+") == len(terms) - 1
    assert parse_question(problem.question, base) == problem
    assert add.running_sums(problem.operands) == [sum(terms[:count]) for count in range(1, len(terms) + 1)]
    if len(terms) > 2:
        with pytest.raises(Unsupported, match="columns are worked for 2 operands"):
            add.steps(problem.operands)


def test_lists_are_numbered_the_shorter_first():
    domain = Lists(3, limit=10)
    assert domain.size == 100 + 1_000
    every = np.arange(domain.size)
    operands = list(domain.operands(every))
    assert operands == [*product("0123456789", repeat=2), *product("0123456789", repeat=3)]
    assert [domain.code(texts) for texts in operands] == every.tolist()
    assert domain.counts(every[[5, 99, 100, 1099]]) == [2, 2, 3, 3]
    for outside in (("1",), ("1", "2", "3", "4"), ("1", "10")):
        assert domain.code(outside) is None
    assert operation("add").domain(1).code(("1", "2", "3")) is None


@given(st.integers(2, 12), st.integers(1, 40), bases, st.data())
def test_lists_of_any_size_read_back(most, digits, base, data):
    domain = Lists(most, base**digits, base)
    codes = domain.codes(data.draw(st.lists(st.integers(0, domain.size - 1), min_size=1, max_size=5)))
    operands = list(domain.operands(codes))
    assert [domain.code(texts) for texts in operands] == codes.tolist()
    for texts, code in zip(operands, codes, strict=True):
        numbers = np.array([[in_base(text, base) for text in texts]], object)
        assert domain.join(numbers).tolist() == [code]
        assert domain.longest(domain.codes([code])) == [max(map(len, texts))]


def test_questions_that_nobody_asks_are_not_parsed():
    for text in (
        "",
        "1+",
        "+1",
        "1++2",
        "1+" * 100 + "1",
        "1-2-3",
        "1*2*3",
        "1+2-3",
        "1 + 2",
        "sin()",
        "cos(1.0)",
        "1+2=",
        "²+1",
        "1\n+2",
        "1+2\n",
    ):
        assert parse_question(text) is None
    with pytest.raises(BadOperand):
        parse_question("sin(7.5)")
