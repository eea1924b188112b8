"""Does learning five tasks together help?

The paper (tab multiple_tasks): addition, subtraction, multiplication, sine and square root in plain format, each alone
(5,000 steps) and all together (the paper says 5,000 steps; the released code runs 50,000); zero-shot, and after one to
three examples of each task. The few-shot script crashes as released. Ours: the same budgets as the code, in tier fast
3,000 steps alone and 10,000 together, of 32 windows each; five sets of examples, no test problem in training; and after
text, which the joint model has never seen: the characters of tiny Shakespeare only join its vocabulary.
"""

from ..config import DataConfig, EvaluationConfig, TextConfig
from ..paper import table
from ..reports import Figure, Point, Series, Table
from .base import Case, Experiment, Question, Tier
from .claims import INF, Claim
from .measured import Measured
from .other_operations import STEPS_MISSING, data_of
from .prompting import SAME, SETS, SHOTS, TEXT, TEXT_KINDS, cut_prompts
from .protocols import ask, few, greedy_and_sampled, make_run
from .showing import cell, cell_with_sampled

TASKS = {"+": "add", "-": "subtract", "x": "multiply", "sin": "sine", "sqrt": "sqrt"}
SIZES = {"multiply": 3_000}


def task_data(operation: str) -> DataConfig:
    if operation == "add":
        return DataConfig(format="plain")  # type: ignore[arg-type]
    return data_of(operation, "plain", SIZES.get(operation, 10_000))


class JointTasks(Experiment):
    name = "joint_tasks"
    title = "Five tasks alone and together"
    paper = ("tab:multiple_tasks",)
    finding = STEPS_MISSING
    claims = (
        Claim(
            "together helps multiplication",
            "Learning all tasks together helps multiplication.",
            lambda m: m.mean(training="together", task="x", shots="zero") - m.mean(training="alone", task="x"),
            "multiplication, together minus alone",
            (3, INF),
            (0, 3),
            "hardly",
            " points",
        ),
        Claim(
            "together helps square root",
            "Learning all tasks together helps the square root.",
            lambda m: m.mean(training="together", task="sqrt", shots="zero") - m.mean(training="alone", task="sqrt"),
            "square root, together minus alone",
            (3, INF),
            (0, 3),
            "hardly",
            " points",
        ),
        Claim(
            "examples help addition",
            "Examples in front lift addition.",
            lambda m: (
                m.mean(training="together", task="+", shots="few", examples_of="+")
                - m.mean(training="together", task="+", shots=SAME)
            ),
            "addition, few-shot minus zero-shot on the same problems",
            (4, INF),
            (1, 4),
            "by less",
            " points",
        ),
        Claim(
            "any examples do",
            "Examples of any task help as much as those of the task itself.",
            lambda m: (
                m.mean(training="together", task="+", shots="few", examples_of="+")
                - min(m.mean(training="together", task="+", shots="few", examples_of=t) for t in TASKS if t != "+")
            ),
            "addition, after its own examples minus after the worst other task's",
            (-INF, 1),
            (1, 4),
            "nearly as much",
            " points",
        ),
        Claim(
            "text changes little",
            "After text the joint model does about as well as asked bare.",
            lambda m: max(
                abs(m.mean(training="together", task=t, shots=TEXT) - m.mean(training="together", task=t, shots=SAME))
                for t in TASKS
            ),
            "largest difference, after text and zero-shot on the same problems, over the five tasks",
            (0, 5),
            (5, 15),
            "it changes some",
            " points",
        ),
        Claim(
            "together hurts subtraction",
            "Learning all tasks together makes subtraction slightly worse.",
            lambda m: m.mean(training="alone", task="-") - m.mean(training="together", task="-", shots="zero"),
            "subtraction, alone minus together",
            (1, 15),
            (-1, 1),
            "it makes no difference",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cases = []
        for task, operation in few(tier, tuple(TASKS.items()), 2):
            run = make_run(tier, task_data(operation))
            asked = greedy_and_sampled(tier, EvaluationConfig(), shots="zero")
            cases.append(Case({"training": "alone", "task": task}, run, asked))
        first, *others = (task_data(operation) for operation in TASKS.values())
        text = TextConfig(mixing="none")
        together = make_run(tier, first, mix=others, steps=50_000, stop=False, text=text)
        if tier == "fast":
            steps = together.train.model_copy(update={"steps": 10_000, "eval_every": 2_500})
            together = together.model_copy(update={"train": steps})
        questions = []
        for part, task in enumerate(TASKS):
            zero = EvaluationConfig(part=part)  # as alone
            questions += greedy_and_sampled(tier, zero, task=task, shots="zero")
            same = EvaluationConfig(part=part, limit=1_000)
            questions.append(Question(ask(tier, same), {"task": task, "shots": SAME}))
            for source, shown in few(tier, tuple(enumerate(TASKS))):
                for shots in few(tier, SHOTS):
                    config = EvaluationConfig(part=part, limit=1_000, examples=shots, examples_part=source, sets=SETS)
                    settings = {"task": task, "shots": "few", "examples_of": shown, "number": shots}
                    questions.append(Question(ask(tier, config), settings))
            after_text = EvaluationConfig(part=part, limit=1_000, text_prompts=few(tier, TEXT_KINDS))
            questions.append(Question(ask(tier, after_text), {"task": task, "shots": TEXT}))
        cases.append(Case({"training": "together"}, together, questions))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        theirs = {row[0]: row[1:] for row in table("tab:multiple_tasks")["rows"]}
        rows = []
        series: dict[str, list[Point]] = {"alone": [], "together": [], "together, few-shot": []}
        for task in TASKS:
            alone = measured.stat(training="alone", task=task)
            zero = measured.stat(training="together", task=task, shots="zero")
            shots = [measured.stat(training="together", task=task, shots="few", examples_of=other) for other in TASKS]
            every = measured.stat(training="together", task=task, shots="few")
            first = (
                cell_with_sampled(measured, training="alone", task=task),
                cell_with_sampled(measured, training="together", task=task, shots="zero"),
            )
            same, after_text = (measured.stat(training="together", task=task, shots=asked) for asked in (SAME, TEXT))
            rows.append([task, *first, *map(cell, (same, *shots, after_text))])
            alone_there, together_there, *others = (f"{value}" for value in theirs[task])
            rows.append([f"{task} (paper)", alone_there, together_there, "–", *others])
            for name, stat in zip(series, (alone, zero, every), strict=True):
                if stat:
                    series[name].append(stat.point(task))
        ours = [Series(name, points) for name, points in series.items()]
        paper = [
            Series(f"{name} (paper)", [Point(task, theirs[task][index]) for task in TASKS], "paper", "exact")
            for index, name in enumerate(("alone", "together"))
        ]
        after = (*(f"after examples of {task}" for task in TASKS), "after text")
        columns = ("task", "alone", "together", "together, same problems", *after)
        note = (
            "Same problems: the 1,000 that are asked after examples and after text. After examples: the mean over 1, 2 "
            "and 3 of them and five sets of each; after text: over 25 texts."
        ) + cut_prompts(measured, (TEXT,), "shots")
        return [
            Figure("Alone and together", "task", "test accuracy (%)", [*ours, *paper], bars=True),
            Table("Accuracy (%), exact", columns, rows, note),
        ]
