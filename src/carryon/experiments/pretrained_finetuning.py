"""What does fine-tuning on 1,000 examples give a model that has read before?

The paper (tabs gpt3_addition, gpt3_subtraction, gpt3_sine_sqrt): Davinci, Curie and Ada, fine-tuned by their maker on
1,000 examples for four epochs, loss on the completion alone, in four formats with spaces between digits; 1,000 problems
asked bare, before and after. No code was released, and the models are gone. Ours: the same strings, examples, epochs
and loss with two models that come inside packages: SmolLM2-135M-Instruct, widened from 4 bits, so not quite the
published weights, and stories15M, which has read children's stories only. Eight examples a step, one learning rate for
each model, and one for LoRA, checked on addition's validation set. Beside: after three examples, before and after
fine-tuning (stories15M reads 256 tokens: three detailed examples are too many, and some of three simplified ones are
cut); LoRA; the same model from random weights, for the same four epochs; and NanoGPT from scratch on as many sums, for
as long as it needs.
"""

from collections.abc import Mapping
from typing import Any

from ..config import DataConfig, EvaluationConfig, FormatConfig, LoraConfig, PretrainedConfig, RunConfig, TrainConfig
from ..paper import table
from ..reports import Figure, Point, Series, Table
from .base import Case, Experiment, Question, Tier
from .claims import INF, Claim
from .measured import Measured, share
from .prompting import SAME, SETS, ZERO_SHOT, cut_prompts
from .protocols import FORMATS, addition, ask, detailed_steps, few, make_run, small
from .showing import cell

MODELS = {"SmolLM2-135M": "smollm2-135m-instruct", "stories15M": "stories15m"}
LARGE, SMALL = MODELS
CONTEXTS = {LARGE: 1024, SMALL: 256}
NANOGPT = "NanoGPT"
RATES = {(LARGE, "full"): 1e-4, (SMALL, "full"): 5e-4, (LARGE, "LoRA"): 1e-3}
OPERATIONS = {"+": "add", "-": "subtract", "sin": "sine", "sqrt": "sqrt"}
INTEGERS, FUNCTIONS = ("+", "-"), ("sin", "sqrt")
NAMES = {"+": "Addition", "-": "Subtraction"}
FUNCTION_FORMATS = ("plain", "detailed_scratchpad")
EXAMPLES, EPOCHS, BATCH = 1_000, 4, 8
FEW = "few-shot"
TOLERANCES = {"0": "0", "5e-4": "0.0005", "5e-3": "0.005"}
"""As evaluations and as the paper write them."""


def data_of(task: str, format: str) -> DataConfig:
    name: Any = f"hosted_{format}"
    return DataConfig(
        operation=OPERATIONS[task],  # type: ignore[arg-type]
        format=FormatConfig(name=name),
        num_examples=EXAMPLES,
        num_test=1_000,
        num_validation=200,
    )


def finetuning(
    tier: Tier,
    model: str,
    task: str,
    format: str,
    method: str = "full",
    weights: str = "pretrained",
    epochs: int = EPOCHS,
) -> RunConfig:
    """`epochs` 0: the model as it came."""
    data, name, context = data_of(task, format), MODELS[model], CONTEXTS[model]
    if tier == "smoke":
        data, name, context = small(data), "tiny", 256
    steps = min(4, epochs) if tier == "smoke" else epochs * data.num_examples // BATCH
    lora = LoraConfig(rank=16, alpha=32.0) if method == "LoRA" else None
    return RunConfig(
        name=f"{model}-{task}-{format}-{method}".lower().replace("+", "add").replace("-", "_"),
        data=data,
        tokenizer="own",
        model=PretrainedConfig(pretrained=name, context=context, lora=lora, weights=weights),  # type: ignore[arg-type]
        train=TrainConfig(
            steps=steps,
            batch_size=BATCH,
            packing="rows",
            loss="answer",
            lr=RATES[model, method],
            warmup_steps=min(20, steps // 2),
            eval_every=max(1, steps),
        ),
        evaluations=(),
    )


def asked(tier: Tier, examples: bool = True) -> list[Question]:
    """Bare, and after three examples, five sets of them; stories15M has no room for three detailed ones."""
    questions = {ZERO_SHOT: EvaluationConfig()}
    if examples:
        questions |= {SAME: EvaluationConfig(limit=200), FEW: EvaluationConfig(limit=200, examples=3, sets=SETS)}
    return [Question(ask(tier, config), {"prompt": prompt}) for prompt, config in questions.items()]


class PretrainedFinetuning(Experiment):
    name = "pretrained_finetuning"
    title = "Fine-tuning models that have read before"
    paper = ("tab:gpt3_addition", "tab:gpt3_subtraction", "tab:gpt3_sine_sqrt")
    finding = (
        "Before fine-tuning, examples in front teach SmolLM2 mostly the form: after three of them 718, 792 and 711 of "
        "1,000 answers can be read (seeds 0 to 2), and none is right, even if spaces are ignored (seed 0, on a CPU in "
        'float32, where the commonest answer is " 1 1 2 6###"). Asked without spaces 11 of 1,000 are right after '
        "three examples, and none bare."
    )
    claims = (
        Claim(
            "unable before",
            "Before fine-tuning, asked bare, the models cannot add or subtract.",
            lambda m: max(m.mean(model=LARGE, task=task, method="none", prompt=ZERO_SHOT) for task in INTEGERS),
            "SmolLM2 as it came, better of + and -, zero-shot, where an answer without its end mark is wrong",
            (0, 5),
            (5, 20),
            "hardly",
            " %",
        ),
        Claim(
            "examples help before",
            "Before fine-tuning, examples in front help.",
            lambda m: _gain(m, method="none"),
            "SmolLM2 as it came, +, few-shot minus zero-shot on the same problems",
            (3, INF),
            (0.5, 3),
            "by little",
            " points",
        ),
        Claim(
            "detailed is best",
            "With 1,000 examples the detailed scratchpad is by far the best for addition.",
            lambda m: _tuned(m, "+", "detailed_scratchpad") - max(_tuned(m, "+", format) for format in FORMATS[:-1]),
            "SmolLM2, +, detailed minus the best other format",
            (10, INF),
            (0, 10),
            "by less",
            " points",
        ),
        Claim(
            "detailed is best for subtraction",
            "With 1,000 examples the detailed scratchpad is by far the best for subtraction, too.",
            lambda m: _tuned(m, "-", "detailed_scratchpad") - max(_tuned(m, "-", format) for format in FORMATS[:-1]),
            "SmolLM2, -, detailed minus the best other format",
            (10, INF),
            (0, 10),
            "by less",
            " points",
        ),
        Claim(
            "detailed is nearly perfect",
            "With a detailed scratchpad addition is nearly perfect.",
            lambda m: _tuned(m, "+", "detailed_scratchpad"),
            "SmolLM2, +, detailed",
            (97, 100),
            (80, 97),
            "good, not nearly perfect",
            " %",
        ),
        Claim(
            "other formats help addition",
            "Reverse and the simplified scratchpad are better than plain for addition.",
            lambda m: (
                min(_tuned(m, "+", format) for format in ("reverse", "simplified_scratchpad")) - _tuned(m, "+", "plain")
            ),
            "SmolLM2, +, worse of reverse and simplified minus plain",
            (2, INF),
            (-1, 2),
            "one of them is not",
            " points",
        ),
        Claim(
            "other formats hurt subtraction",
            "Reverse and the simplified scratchpad are worse than plain for subtraction.",
            lambda m: (
                _tuned(m, "-", "plain") - max(_tuned(m, "-", format) for format in ("reverse", "simplified_scratchpad"))
            ),
            "SmolLM2, -, plain minus the better of reverse and simplified",
            (2, INF),
            (-1, 2),
            "one of them is not",
            " points",
        ),
        Claim(
            "too few for functions",
            "1,000 examples are too few for exact sines and square roots.",
            lambda m: max(
                m.mean(share("tolerance", "0"), model=LARGE, task=task, format=f, method="full", prompt=ZERO_SHOT)
                for task in FUNCTIONS
                for f in FUNCTION_FORMATS
            ),
            "SmolLM2, best of both functions and formats, exact",
            (0, 15),
            (15, 40),
            "for most of them",
            " %",
        ),
        Claim(
            "pretraining helps",
            "With 1,000 examples a pretrained model does better than NanoGPT from scratch.",
            lambda m: sum(
                _tuned(m, "+", format) - m.mean(model=NANOGPT, task="+", format=format, prompt=ZERO_SHOT) >= 2
                for format in FORMATS
            ),
            "formats of the four in which SmolLM2 is better at + by two points or more",
            (4, 4),
            (1, 3),
            "not in every format",
        ),
        Claim(
            "examples help less after",
            "After fine-tuning on single examples, examples in front help less than before.",
            lambda m: _gain(m, method="full", format="plain", weights="pretrained") - _gain(m, method="none"),
            "SmolLM2, +, plain, few-shot minus zero-shot, after minus before fine-tuning",
            (-INF, 0),
            (0, 3),
            "as much as before",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        cells = [(LARGE, task, format, "full", "pretrained") for task in INTEGERS for format in FORMATS]
        cells += [(LARGE, task, format, "full", "pretrained") for task in FUNCTIONS for format in FUNCTION_FORMATS]
        cells += [(LARGE, "+", format, "LoRA", "pretrained") for format in ("plain", "detailed_scratchpad")]
        cells += [(LARGE, "+", "detailed_scratchpad", "full", "random")]
        cells += [(SMALL, task, format, "full", "pretrained") for task in INTEGERS for format in FORMATS]
        if tier == "smoke":
            cells = [
                cells[0],
                (LARGE, "sin", "plain", "full", "pretrained"),
                (LARGE, "+", "plain", "LoRA", "pretrained"),
            ]
        cases = [
            Case(
                {"model": model, "task": task, "format": format, "method": method, "weights": weights},
                finetuning(tier, model, task, format, method, weights),
                asked(tier, examples=(model, format) != (SMALL, "detailed_scratchpad")),
                history=True,
            )
            for model, task, format, method, weights in cells
        ]
        for format in few(tier, FORMATS):
            scratch = make_run(tier, addition(format, EXAMPLES), steps=detailed_steps(format))
            cases.append(Case({"model": NANOGPT, "task": "+", "format": format}, scratch, asked(tier, examples=False)))
        for model in few(tier, tuple(MODELS)):
            for task in few(tier, tuple(OPERATIONS) if model == LARGE else INTEGERS):
                settings = {"model": model, "task": task, "method": "none"}
                cases.append(Case(settings, finetuning(tier, model, task, "plain", epochs=0), asked(tier)))
        return cases

    def report(self, measured: Measured) -> list[Figure | Table]:
        items: list[Figure | Table] = []
        for task, label in zip(INTEGERS, self.paper, strict=False):
            items += _integer_items(measured, task, table(label))
        items.append(_functions(measured, table(self.paper[2])))
        prompts = (ZERO_SHOT, SAME, FEW)
        rows = []
        for s in _settings(measured):
            # As it came, a model is asked in plain strings.
            shown = {**s, "format": s["format"] or "plain", "weights": s["weights"] or "pretrained"}
            rows.append([*map(str, shown.values()), *(cell(measured.stat(**s, prompt=p)) for p in prompts)])
        columns = ("model", "task", "format", "trained", "weights", *prompts)
        note = "Few-shot: after three examples, five sets, 200 problems each. LoRA: rank 16 on every linear layer."
        note += cut_prompts(measured, (FEW,))
        items.append(Table("After three examples, and otherwise trained (%)", columns, rows, note))
        return items


def _gain(measured: Measured, **settings: str) -> float:
    """What examples in front add to addition, on the same problems."""
    few, zero = (measured.mean(model=LARGE, task="+", **settings, prompt=prompt) for prompt in (FEW, SAME))
    return few - zero


def _tuned(measured: Measured, task: str, format: str) -> float:
    return measured.mean(model=LARGE, task=task, format=format, method="full", weights="pretrained", prompt=ZERO_SHOT)


def _settings(measured: Measured) -> list[dict[str, Any]]:
    """What was trained, and each model as it came, each once."""
    names = ("model", "task", "format", "method", "weights")
    found = {tuple(line.settings.get(name) for name in names) for line in measured.lines if "method" in line.settings}
    return [dict(zip(names, values, strict=True)) for values in sorted(found, key=lambda found: [*map(str, found)])]


def _integer_items(measured: Measured, task: str, theirs: Mapping[str, Any]) -> list[Figure | Table]:
    rows, series = [], []
    for model in MODELS:
        before = measured.stat(model=model, task=task, method="none", prompt=ZERO_SHOT)
        after = {
            format: measured.stat(
                model=model, task=task, format=format, method="full", weights="pretrained", prompt=ZERO_SHOT
            )
            for format in FORMATS
        }
        rows.append([model, cell(before), *map(cell, after.values())])
        series.append(Series(model, [stat.point(format) for format, stat in after.items() if stat]))
    if task == "+":
        scratch = [measured.stat(model=NANOGPT, task=task, format=format, prompt=ZERO_SHOT) for format in FORMATS]
        rows.append([f"{NANOGPT} from scratch", "–", *map(cell, scratch)])
    for name, *values in theirs["rows"]:
        rows.append([f"{name} (paper)", *map(str, values)])
        points = [Point(format, value) for format, value in zip(FORMATS, values[1:], strict=True)]
        series.append(Series(f"{name} (paper)", points, "paper", "exact"))
    title = f"{NAMES[task]} after 1,000 examples"
    return [
        Figure(title, "format", "test accuracy (%)", series, bars=True),
        Table(f"{title} (%)", ("model", "before", *FORMATS), rows),
    ]


def _functions(measured: Measured, theirs: Mapping[str, Any]) -> Table:
    rows = []
    for ours, within in TOLERANCES.items():
        cells = []
        for task in FUNCTIONS:
            metric = share("tolerance", ours)
            cells.append(cell(measured.stat(metric, model=LARGE, task=task, method="none", prompt=ZERO_SHOT)))
            for format in FUNCTION_FORMATS:
                settings = {"model": LARGE, "task": task, "format": format, "method": "full", "prompt": ZERO_SHOT}
                cells.append(cell(measured.stat(metric, **settings)))
        rows.append([LARGE, within, *cells])
    rows += [[f"{name} (paper)", *map(str, values)] for name, *values in theirs["rows"]]
    columns = tuple(f"{name}, {what}" for name in ("sine", "sqrt") for what in ("before", "plain", "detailed"))
    note = (
        "By the true value, however it is written. The table below asks for what the format would have written: a "
        "scratchpad's last step, which is not always the true value."
    )
    return Table("Sine and square root after 1,000 examples (%)", ("model", "within", *columns), rows, note)
