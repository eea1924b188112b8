import json
import re
from math import isclose

import numpy as np
import pytest

from carryon.config import DataConfig, EvaluationConfig, load
from carryon.data import make_dataset
from carryon.errors import BadConfig, BadInput, Unsupported
from carryon.evaluation import (
    describe,
    evaluate,
    evaluate_corrupted,
    exemplar_pairs,
    exemplars,
    first_wrong_line,
    make_sheets,
    percent,
    read_problems,
    score,
    slices_of,
    wilson,
)
from carryon.formats import make_format
from carryon.operations import operation
from carryon.training.asking import problems_of

ADD = operation("add")


def data(**values):
    return make_dataset(load(DataConfig, {"num_examples": 500, "num_test": 400, "num_validation": 50} | values))


def oracle(dataset, spoil=lambda index, text: text):
    """A model that is right, except where it is spoiled."""
    answers = {e.prompt: e.completion for split in ("test", "train") for e in dataset.examples(split)}

    def complete(prompts):
        return [spoil(i, answers[prompt]) for i, prompt in enumerate(prompts)]

    return complete


def test_a_right_model_is_right_and_a_silent_one_wrong():
    dataset = data()
    assert evaluate(dataset.problems("test"), dataset.format, oracle(dataset)).accuracy == 1
    silent = evaluate(dataset.problems("test"), dataset.format, lambda prompts: [""] * len(prompts))
    assert (silent.accuracy, silent.unreadable, silent.count) == (0, 400, 400)


def test_every_problem_counts_once_however_it_is_counted():
    dataset = data()
    rng = np.random.default_rng(0)
    spoiled = set(rng.choice(400, 37, replace=False).tolist())
    complete = oracle(dataset, lambda i, text: "7" + text if i in spoiled else text)
    report = evaluate(dataset.problems("test"), dataset.format, complete, slices=slices_of(dataset)).as_dict()
    assert (report["right"], report["count"]) == (363, 400)
    problems = list(dataset.problems("test"))
    for kind in ("digits", "carries", "lengths"):
        assert sum(count for _, count in report["by"][kind].values()) == 400
        assert sum(right for right, _ in report["by"][kind].values()) == 363
    # Against the slow way, one problem at a time.
    expected: dict[str, list[int]] = {}
    for index, problem in enumerate(problems):
        cell = expected.setdefault(f"{len(problem.operands[0])}x{len(problem.operands[1])}", [0, 0])
        cell[0] += index not in spoiled
        cell[1] += 1
    assert report["by"]["lengths"] == expected
    by_carries: dict[str, list[int]] = {}
    for index, problem in enumerate(problems):
        cell = by_carries.setdefault(str(sum(s.carry_out for s in ADD.steps(problem.operands))), [0, 0])
        cell[0] += index not in spoiled
        cell[1] += 1
    assert report["by"]["carries"] == dict(sorted(by_carries.items()))
    assert report["by"]["slice"]["not seen"] == [363, 400]


def test_sums_of_many_numbers_are_counted_by_digits_and_operands():
    dataset = data(operands=4, digits=3, format="running_sums", test_sampler="equal_operands")
    complete = oracle(dataset, lambda i, text: "9" + text[:-1] + "\n" if i % 4 else text[:-2] + "9\n")
    report = evaluate(dataset.problems("test"), dataset.format, oracle(dataset), slices=slices_of(dataset)).as_dict()
    problems = dataset.problems("test")
    assert report["right"] == report["count"] == 400
    assert {kind: sum(count for _, count in report["by"][kind].values()) for kind in ("digits", "operands")} == {
        "digits": 400,
        "operands": 400,
    }
    for operands in (2, 3, 4):
        expected = sum(len(problem.operands) == operands for problem in problems)
        assert report["by"]["operands"][str(operands)] == [expected, expected]
    assert "lengths" not in report["by"]
    assert evaluate(problems, dataset.format, complete).accuracy < 1
    # Problems of two operands are told from these, and these from them.
    other = data()
    parts = slices_of(other)(list(problems))
    assert parts["seen in training"].sum() <= sum(len(problem.operands) == 2 for problem in problems)
    assert read_problems(["1+2+30=33"], "here")[0].answer == "33"
    asked = DataConfig(operands=6, digits=8, format={"name": "running_sums"})
    assert describe(EvaluationConfig(data=asked)) == "the test set of 8-digit add of up to 6 operands, greedy"


def test_places_are_counted_from_the_lowest_digit():
    format = make_format("plain")
    problems = [ADD.problem("100", "23"), ADD.problem("5", "5"), ADD.problem("900", "200")]
    report = evaluate(problems, format, lambda prompts: ["124\n", "10\n", "no\n"]).as_dict()
    assert report["by"]["place"] == {"1": [1, 3], "2": [2, 3], "3": [1, 2], "4": [0, 1]}


def test_a_problem_of_a_text_that_was_read_is_not_unseen():
    dataset = make_dataset(DataConfig(num_examples=500, num_test=50), 0)
    problems = dataset.problems("test")
    parts = slices_of(dataset, in_text={problems[3].question})(problems)
    assert parts["seen in training"].nonzero()[0].tolist() == [3]
    assert not parts["not seen"][3]


def test_failures_say_what_was_written():
    format = make_format("reverse")
    report = evaluate([ADD.problem("128", "367")], format, lambda prompts: ["595$"])
    (failure,) = report.failures
    assert failure == {
        "question": "128+367",
        "answer": "495",
        "read": "595",
        "prompt": "$128+367=",
        "completion": "595$",
    }


@pytest.mark.parametrize("prefix", ["", {"set 0": "1+1=2\n", "set 1": "2+2=4\n"}])
def test_a_failure_says_after_which_prefix_it_was_written(prefix):
    dataset = data(num_test=5)
    sheets = make_sheets(dataset.problems("test"), dataset.format)
    report = score(sheets, lambda prompts: ["?"] * len(prompts), prefix=prefix, slices=slices_of(dataset))
    expected = [None] * 5 if not prefix else ["set 0"] * 5 + ["set 1"] * 5
    assert [failure.get("after") for failure in report.failures] == expected
    for failure in report.failures:
        shown = prefix[failure["after"]] if prefix else ""
        assert failure["prompt"] == f"{shown}${failure['question']}="


def test_a_prefix_stands_in_front_of_every_prompt():
    seen = []
    evaluate([ADD.problem("1", "2")], make_format("plain"), lambda p: seen.extend(p) or ["3\n"], prefix="\n")
    assert seen == ["\n1+2="]


def test_a_function_that_loses_prompts_is_refused():
    with pytest.raises(BadInput, match="one for each"):
        evaluate([ADD.problem("1", "2")], make_format("plain"), lambda prompts: [])


def test_tolerances_are_measured_from_the_truth():
    sine = operation("sine")
    problem = sine.problem("1.5707")  # 0.9999; the scratchpad's series ends on 0.9998
    detailed = make_format("detailed_scratchpad")
    report = evaluate([problem], detailed, lambda p: [detailed.write(problem).completion]).as_dict()
    assert report["accuracy"] == 1
    assert report["by"]["tolerance"] == {"0": [0, 1], "5e-4": [1, 1], "5e-3": [1, 1]}
    assert report["by"]["tolerance of the ending"] == {"0": [1, 1], "5e-4": [1, 1], "5e-3": [1, 1]}
    assert report["by"]["output within 0"] == {"0.99": [1, 1]}  # in the bin of the truth
    plain = make_format("plain")
    for written, expected in [("0.9999", [1, 1, 1]), ("0.9995", [0, 1, 1]), ("0.9960", [0, 0, 1]), ("2", [0, 0, 0])]:
        report = evaluate([problem], plain, lambda p, w=written: [f"{w}\n"]).as_dict()
        assert [right for right, _ in report["by"]["tolerance"].values()] == expected


def test_hidden_things_are_told_apart():
    dataset = data(exclude={"numbers": 100, "digit": 5, "position": 1}, num_test=2_000)
    report = evaluate(dataset.problems("test"), dataset.format, oracle(dataset), slices=slices_of(dataset)).as_dict()
    hidden = set(dataset.splits.excluded_numbers)
    expected = sum(any(int(o) in hidden for o in p.operands) for p in dataset.problems("test"))
    assert report["by"]["slice"]["with a hidden number"] == [expected, expected]
    fives = sum(any(o[-1] == "5" for o in p.operands) for p in dataset.problems("test"))
    assert report["by"]["slice"]["5 at place 1"] == [fives, fives]
    nothing_hidden = data(num_test=2_000)
    parts = slices_of(nothing_hidden, digit_apart=5)(nothing_hidden.problems("test"))
    assert int(parts["5 at place 1"].sum()) == fives
    assert "5 at place 1" not in slices_of(nothing_hidden)(nothing_hidden.problems("test"))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (("[3,6,7] has 3 digits.", "[3,6,7] has 4 digits."), "digit count"),
        (("8+7+0=15", "8+7+0=14"), "digit step"),
        (("A->5 , C->1", "A->6 , C->1"), "digit step"),
        (("A->5 , C->1", "A->5 , C->0"), "carry"),
        (("A=[4,9,5] C=0", "A=[4,9,6] C=0"), "result"),
        (("4 9 5\n", "4 9 6\n"), "result"),
        (("</scratch>\n4 9 5\n", ""), "layout"),
    ],
)
def test_the_first_wrong_line_of_a_scratchpad_is_named(change, kind):
    right = make_format("detailed_scratchpad").write(ADD.problem("128", "367")).completion
    wrong = right.replace(*change)
    assert wrong != right
    assert first_wrong_line(right, wrong) == kind
    report = evaluate([ADD.problem("128", "367")], make_format("detailed_scratchpad"), lambda p: [wrong])
    # A wrong step that a right answer came out of explains no error.
    assert report.first_wrong_lines == ({} if report.right else {kind: 1})
    without_answer = wrong.replace("4 9 5\n", "4 9 7\n")
    report = evaluate([ADD.problem("128", "367")], make_format("detailed_scratchpad"), lambda p: [without_answer])
    assert report.first_wrong_lines == {kind: 1}


def test_a_wrong_comparison_is_named():
    format = make_format("detailed_scratchpad_v2")
    right = format.write(operation("subtract").problem("128", "367")).completion
    wrong = right.replace("128<367 : 128-367=-(367-128)", "128>=367")
    assert first_wrong_line(right, wrong) == "comparison"
    assert first_wrong_line(right, right[:30]) in ("digit count", "stopped early")


def test_examples_in_front_are_training_examples():
    dataset = data(format="plain")
    shown = exemplars(dataset, 3)
    trained = {e.text for e in dataset.examples("train")}
    assert len(shown.splitlines()) == 3
    assert all(f"{line}\n" in trained for line in shown.splitlines())
    assert exemplars(dataset, 3, which=1) != shown
    assert exemplars(dataset, 1) == shown.splitlines(keepends=True)[0]
    wrong = exemplars(dataset, 3, wrong=True)
    for line in wrong.splitlines():
        a, b, answer = map(int, re.split(r"[+=]", line))
        assert a + b != answer
    with pytest.raises(Unsupported, match="501"):
        exemplars(dataset, 501)


@pytest.mark.parametrize("format", ["plain", "detailed_scratchpad"])
def test_models_of_every_size_are_asked_after_the_same_examples(format):
    smallest, *larger = (data(format=format, num_examples=size) for size in (500, 900, 4_000))
    for dataset in larger:
        trained = {example.text for example in dataset.examples("train")}
        for which in range(3):
            pairs = exemplar_pairs(dataset, 3, which, among=500)
            assert {prompt + completion for prompt, completion in pairs} <= trained
            for wrong in (False, True):
                shown = exemplars(dataset, 3, which, wrong, among=500)
                assert shown == exemplars(smallest, 3, which, wrong) != exemplars(dataset, 3, which, wrong)
    assert exemplars(smallest, 3, among=900) == exemplars(smallest, 3)
    with pytest.raises(ValueError, match="examples_among needs examples"):
        EvaluationConfig(examples_among=500)


@pytest.mark.parametrize("format", ["plain", "reverse"])
@pytest.mark.parametrize("kind", ["random", "precise"])
def test_the_corrupted_output_test(format, kind):
    written = make_format(format)
    problems = [ADD.problem(str(a), str(b)) for a in range(100, 400, 13) for b in range(100, 500, 17)]
    truths = {written.write(p).prompt: written.write(p).completion for p in problems}
    seen = []

    def complete(prompts):
        out = []
        for prompt in prompts:
            base, digits = prompt[:-2], prompt[-2:]
            right = truths[base]
            assert digits != right[:2]
            assert digits[0] != "0" or format == "reverse" or kind == "precise"  # no number starts with 0
            if kind == "precise":
                assert digits[0] == right[0]
                assert (int(digits[1]) - int(right[1])) % 10 in (1, 9)
            seen.append(prompt)
            out.append(str((int(right[2]) + len(seen) % 2) % 10))  # every other one is off by one
        return out

    result = evaluate_corrupted(problems, written, complete, kind)
    assert result["count"] == len(problems)
    assert isclose(result["exact"], 0.5, abs_tol=0.01)
    assert result["relaxed"] == 1.0
    with pytest.raises(Unsupported, match="digit by digit"):
        evaluate_corrupted(problems, make_format("detailed_scratchpad"), complete, kind)
    with pytest.raises(Unsupported, match="three-digit"):
        evaluate_corrupted([ADD.problem("1", "2")], written, complete, kind)


def test_intervals_are_wilsons():
    assert wilson(0, 0) is None
    low, high = wilson(10_000, 10_000)
    assert (round(low, 5), round(high, 9)) == (0.99962, 1.0)
    low, high = wilson(50, 100)
    assert (round(low, 4), round(high, 4)) == (0.4038, 0.5962)


def test_percentages_never_round_up():
    assert percent(999_999, 1_000_000) == "99.999%"
    assert percent(5, 5) == "100.000%"
    assert percent(0, 0) == "0.000%"


def test_problems_are_read_as_people_write_them():
    lines = [
        "128+367=495",
        "128-367=-239",
        "",
        "sin(0.5)=0.4794",
        "12 * 36 =",
        '{"operation":"sqrt","operands":["4.0"]}',
    ]
    questions = [problem.question for problem in read_problems(lines, "here")]
    assert questions == ["128+367", "128-367", "sin(0.5)", "12*36", "sqrt(4.0)"]
    for line, says in [
        ("1+1=3", "the answer is 2"),
        ("1+", "not a problem"),
        ("{}", "operation"),
        ("sin(9.0)", "range"),
    ]:
        with pytest.raises(BadInput, match=f"here line 2.*{says}"):
            read_problems(["1+1", line], "here")


def asked(dataset, **question):
    return problems_of(load(EvaluationConfig, question), dataset)


def test_problems_of_just_these_lengths():
    dataset = make_dataset(load(DataConfig, {"digits": 5, "num_examples": 1_000}))
    problems = asked(dataset, lengths=["40", "3x25", "12"], each=30)
    lengths = [tuple(map(len, problem.operands)) for problem in problems]
    assert lengths == [(40, 40)] * 30 + [(3, 25)] * 30 + [(12, 12)] * 30
    assert len({problem.question for problem in problems}) == 90
    digits = "".join(operand for problem in problems for operand in problem.operands)
    assert all(abs(digits.count(digit) / len(digits) - 0.1) < 0.03 for digit in "0123456789")
    assert list(asked(dataset, lengths=["3x25"], each=30)) == list(problems[30:60])  # whatever else is asked
    validation = asked(dataset, lengths=["40", "3x25", "12"], each=30, problems="validation")
    assert not {problem.question for problem in validation} & {problem.question for problem in problems}
    assert list(asked(dataset, lengths=["40"], each=30, limit=7)) == list(problems[:7])


def test_problems_of_some_lengths_are_not_those_that_training_saw():
    dataset = make_dataset(load(DataConfig, {"digits": 2, "num_examples": 3_000}))
    seen = {problem.question for problem in dataset.problems("train")}
    problems = asked(dataset, lengths=["2"], each=500)
    assert 250 < len(problems) < 450
    assert not seen & {problem.question for problem in problems}
    assert len(asked(dataset, lengths=["2"], each=500, seen=True)) == 500


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"lengths": ["0"]}, "'0' is not a number of digits up to 2,000 such as 100, or two: 100x3"),
        ({"lengths": ["3x2001"]}, "'3x2001' is not"),
        ({"lengths": ["3x"]}, "'3x' is not"),
        ({"lengths": ["3", "5", "3"]}, "names one twice: 3, 5, 3"),
        ({"lengths": ["3"], "listed": ["1+1"]}, "leave out listed and data"),
        ({"lengths": ["3"], "problems": "exhaustive"}, "test or validation problems"),
        ({"lengths": ["3"], "each": 0}, "each"),
        ({"each": 7}, "each goes with lengths"),
    ],
)
def test_lengths_that_cannot_be_asked_are_refused(question, says):
    with pytest.raises(BadConfig, match=re.escape(says)):
        load(EvaluationConfig, question)


def test_problems_of_a_length_are_different_and_all_there_are_if_they_are_few():
    dataset = make_dataset(load(DataConfig, {"digits": 5, "num_examples": 1_000}))
    few = {"lengths": ["1x2"], "each": 600}
    questions = [load(EvaluationConfig, {**few, "problems": kind}) for kind in ("test", "validation")]
    tests, validation = ([p.question for p in problems_of(question, dataset, endless=True)] for question in questions)
    assert len(tests) == len(validation) == 450  # of 900
    assert len({*tests, *validation}) == 900
    many = asked(dataset, lengths=["2x3"], each=5_000)
    assert len({problem.question for problem in many}) == len(many)


def test_endless_training_has_no_set_to_leave_out():
    dataset = make_dataset(load(DataConfig, {"digits": 2, "num_examples": 3_000}))
    question = load(EvaluationConfig, {"lengths": ["1"], "each": 40})
    assert len(problems_of(question, dataset)) == 0
    assert len(problems_of(question, dataset, endless=True)) == 40


def test_functions_have_no_lengths():
    dataset = make_dataset(load(DataConfig, {"operation": "sine", "format": "plain", "num_examples": 100}))
    with pytest.raises(Unsupported, match="sine has none"):
        asked(dataset, lengths=["3"])


def test_questions_have_words_and_hashes():
    lengths = load(EvaluationConfig, {"lengths": ["3x5", "7", "8", "9", "10"], "each": 20})
    assert describe(lengths) == "20 test problems each of 3x5, 7, 8, 9, … digits, greedy"
    assert describe(EvaluationConfig()) == "the test set, greedy"
    question = EvaluationConfig(problems="train", prefix="\n", examples=2, wrong_examples=True, temperature=0.8)
    assert describe(question) == "the train set, after '\\n', after 2 wrong examples, sampled at 0.8"
    assert question.hash != EvaluationConfig().hash
    assert json.loads(question.model_dump_json())["examples"] == 2
