"""What becomes of addition among text, and of text among addition?

The paper (figs NanoGPT_mixed_performance, mixed_performance, mixed_text_prompt_performance, train_curve_nanogpt): tiny
Shakespeare, plain sums and detailed scratchpads in one stream over 80 characters; 500 to 40,000 plain sums beside 3,000
detailed ones, 500 to 5,000 detailed ones beside 10,000 plain; asked bare, after 1, 2 or 3 examples (five sets each),
and after text (five texts of five kinds). It prints 5,000 steps and a random number of sums between two speeches. The
released code ran 50,000 steps, and its data are a hundred equal blocks of 72 speeches, then plain sums, then
scratchpads, of which the first 90 % are trained on: a plain sum follows a speech a hundred times, a scratchpad never.
It asked 9,900 plain and 1,000 detailed problems bare, greedily, and 990 and 99 after each prompt, sampled. The plots'
numbers were not published. Ours: blocks as released, all of them trained on, and for comparison one mixture as the
paper describes it; the last tenth of the text held out for perplexity; texts of our own; 1,000 plain and 300 detailed
problems after each prompt, greedily, and in tier paper sampled, too; a prompt that leaves no room for an answer is cut
from the left. In tier fast fewer sizes and 10,000 steps, after which plain sums are not learnt to the end.
"""

from collections.abc import Mapping
from typing import Literal

from ..config import EvaluationConfig, RunConfig, TextConfig
from ..reports import Figure, Series, Table
from .base import Case, Experiment, Question, Tier
from .bounds import NotEnough
from .claims import INF, Claim
from .histories import curve
from .measured import Measured
from .prompting import SAME, SHOTS, TEXT, TEXT_KINDS, ZERO_SHOT, after, cut_prompts, deviation, few_shot, prompted, shot
from .protocols import NANOGPT, addition, ask, make_run
from .showing import cell

PLAIN_SIZES = (500, 2_000, 5_000, 10_000, 20_000, 40_000)
DETAILED_SIZES = (500, 1_000, 2_000, 3_000, 5_000)
FAST_PLAIN_SIZES, FAST_DETAILED_SIZES = (2_000, 10_000, 40_000), (500, 1_000, 3_000)
PLAIN, DETAILED = 10_000, 3_000
"""How many of one kind there are while the other varies."""
BLOCKS, DIALOGUE = "blocks", "dialogue"
MAIN = {"mixing": BLOCKS, "plain": PLAIN, "detailed": DETAILED}
MANY, FEW_DETAILED = {**MAIN, "plain": 40_000}, {**MAIN, "detailed": 500}
PLAIN_ASKED, DETAILED_ASKED = 1_000, 300
"""Problems after each prompt; the same are asked bare, and along the way."""
READING = EvaluationConfig(problems="text")
WATCHED = {
    "plain": EvaluationConfig(limit=PLAIN_ASKED),
    "detailed": EvaluationConfig(part=1, limit=DETAILED_ASKED),
    "text": READING,
}
FAST_STEPS = 10_000


def mixture(
    tier: Tier,
    plain: int,
    detailed: int,
    mixing: Literal["blocks", "dialogue"] = "blocks",
    size: Mapping[str, int] = NANOGPT,
    batch_size: int = 16,
    fast_steps: int = FAST_STEPS,
    **more: float,
) -> RunConfig:
    """Text, so many plain sums and so many detailed ones."""
    return make_run(
        tier,
        addition("plain", plain),
        mix=[addition("detailed_scratchpad", detailed)],
        text=TextConfig(mixing=mixing),
        size=size,
        context=1024,
        batch_size=batch_size,
        warmup_steps=0 if size == NANOGPT else 2_000 if tier == "paper" else 200,
        steps=50_000,
        fast_steps=fast_steps,
        stop=False,
        eval_every=fast_steps // 4 if tier == "fast" else 5_000,
        watch=list(WATCHED.values()),
        **more,  # type: ignore[arg-type]
    )


def questions(tier: Tier) -> list[Question]:
    """Plain and detailed sums after every kind of prompt, and the text."""
    return [
        *prompted(tier, 0, None, PLAIN_ASKED, on="plain"),
        *prompted(tier, 1, 1_000, DETAILED_ASKED, on="detailed"),
        Question(ask(tier, READING), {"on": "text"}),
    ]


def sizes_of_both(tier: Tier) -> list[tuple[int, int]]:
    """How many plain and how many detailed examples: one varies while the other stays."""
    if tier == "smoke":
        return [(80, 100), (120, 100)]
    fast = tier == "fast"
    plain, detailed = (FAST_PLAIN_SIZES, FAST_DETAILED_SIZES) if fast else (PLAIN_SIZES, DETAILED_SIZES)
    return [*((size, DETAILED) for size in plain), *((PLAIN, size) for size in detailed if size != DETAILED)]


def cost_of_text_where_learnt(measured: Measured) -> float:
    """What text costs plain sums with many examples: what is not high cannot stay high."""
    high = few_shot(measured, **MANY, on="plain")
    if high < 90:
        raise NotEnough(f"plain sums are not learnt to the end: {high:.1f} % after examples")
    return high - measured.mean(**MANY, on="plain", prompt=TEXT)


class TextMixture(Experiment):
    name = "text_mixture"
    title = "Addition among text"
    paper = (
        "fig:NanoGPT_mixed_performance",
        "fig:mixed_performance",
        "fig:mixed_text_prompt_performance",
        "fig:train_curve_nanogpt",
    )
    finding = (
        "Whether long text from outside hurts more than short text is a matter of the seed. Of plain sums in blocks "
        "short text hurts more, by 0.36, -26.04 and -6.00 points (seeds 0 to 2; short minus long), in a dialogue long "
        "text, by 5.28, -0.04 and 2.74; detailed sums in blocks lose more to long text, or all to both."
    )
    finding_under = 1  # by kind of text
    claims = (
        Claim(
            "examples help plain",
            "Examples in front help plain addition.",
            lambda m: few_shot(m, **MAIN, on="plain") - m.mean(**MAIN, on="plain", prompt=SAME),
            "plain with 10,000 examples, few-shot minus zero-shot on the same problems",
            (3, INF),
            (0.5, 3),
            "by little",
            " points",
        ),
        Claim(
            "examples help at every size",
            "Examples in front help plain addition however many examples it was trained on.",
            lambda m: min(
                few_shot(m, **{**MAIN, "plain": size}, on="plain")
                - m.mean(**{**MAIN, "plain": size}, on="plain", prompt=SAME)
                for size in FAST_PLAIN_SIZES
            ),
            "plain with 2,000, 10,000 and 40,000 examples, least that few-shot adds",
            (1, INF),
            (-1, 1),
            "not at every size",
            " points",
        ),
        Claim(
            "examples help detailed",
            "Examples in front help the detailed scratchpad.",
            lambda m: (
                m.mean(**FEW_DETAILED, on="detailed", prompt=shot(1))
                - m.mean(**FEW_DETAILED, on="detailed", prompt=SAME)
            ),
            "detailed with 500 examples, 1-shot minus zero-shot on the same problems",
            (2, INF),
            (-2, 2),
            "they make no difference",
            " points",
        ),
        Claim(
            "one example is enough",
            "Two and three examples add little to one.",
            lambda m: max(
                m.mean(**MAIN, on="plain", prompt=shot(count)) - m.mean(**MAIN, on="plain", prompt=shot(1))
                for count in (2, 3)
            ),
            "plain with 10,000 examples, most that 2 or 3 shots add to 1",
            (-INF, 1),
            (1, 3),
            "a little more",
            " points",
        ),
        Claim(
            "plain almost perfect",
            "With 40,000 examples and examples in front plain addition is almost perfect.",
            lambda m: few_shot(m, **MANY, on="plain"),
            "plain with 40,000 examples, few-shot",
            (97, 100),
            (90, 97),
            "good, not almost perfect",
            " %",
        ),
        Claim(
            "plain survives text",
            "Plain addition stays high after text, given many examples.",
            cost_of_text_where_learnt,
            "plain with 40,000 examples, few-shot, where it is 90 % or more, minus after text",
            (-INF, 5),
            (5, 20),
            "it suffers a little",
            " points",
        ),
        Claim(
            "text hurts detailed",
            "Text in front hurts the detailed scratchpad.",
            lambda m: m.mean(**MAIN, on="detailed", prompt=SAME) - m.mean(**MAIN, on="detailed", prompt=TEXT),
            "detailed with 3,000 examples, zero-shot minus after text, same problems",
            (5, INF),
            (1, 5),
            "by little",
            " points",
        ),
        Claim(
            "long text hurts most",
            "Long text that is not of the corpus hurts more than short text.",
            lambda m: (
                m.mean(after("short outside"), **MAIN, on="plain", prompt=TEXT)
                - m.mean(after("long outside"), **MAIN, on="plain", prompt=TEXT)
            ),
            "plain with 10,000 examples, after short minus after long text from outside",
            (2, INF),
            (0, 2),
            "hardly more",
            " points",
        ),
        Claim(
            "texts differ",
            "What a text does to the answers depends much on the text.",
            lambda m: m.mean(deviation, **MAIN, on="plain", prompt=TEXT),
            "plain with 10,000 examples, standard deviation over 25 texts",
            (2, INF),
            (0.5, 2),
            "a little",
            " points",
        ),
        Claim(
            "the boundary decides",
            "Where sums are trained on right after speeches, text in front hurts the detailed scratchpad less.",
            lambda m: (
                m.mean(**{**MAIN, "mixing": DIALOGUE}, on="detailed", prompt=TEXT)
                - m.mean(**MAIN, on="detailed", prompt=TEXT)
            ),
            "detailed with 3,000 examples, after text, random mixture minus blocks",
            (2, INF),
            (-2, 2),
            "it makes no difference",
            " points",
            ours=True,
        ),
        Claim(
            "text is overfitted",
            "The perplexity of the text rises again before training ends.",
            lambda m: m.mean(rise, **MAIN, on=None),
            "perplexity of the held-out text at the end over its lowest",
            (1.05, INF),
            (1.005, 1.05),
            "hardly",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        mixtures = [(BLOCKS, plain, detailed) for plain, detailed in sizes_of_both(tier)]
        if tier != "smoke":
            mixtures.append((DIALOGUE, PLAIN, DETAILED))
        return [
            Case(
                {"mixing": mixing, "plain": plain, "detailed": detailed},
                mixture(tier, plain, detailed, mixing),  # type: ignore[arg-type]
                questions(tier),
                history=True,
            )
            for mixing, plain, detailed in mixtures
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        return [
            *prompt_items(measured, "plain", "plain", "detailed", DETAILED),
            *prompt_items(measured, "detailed", "detailed", "plain", PLAIN),
            _mixings(measured),
            *_training(measured),
            _writing(measured),
        ]


def prompt_items(measured: Measured, on: str, varied: str, fixed: str, count: int) -> list[Figure | Table]:
    """One kind of sum by how many there are, after every kind of prompt."""
    settings = {"mixing": BLOCKS, fixed: count, "on": on}
    prompts = (ZERO_SHOT, *map(shot, SHOTS), TEXT)
    told = (ZERO_SHOT, SAME, *prompts[1:])
    series = [Series(prompt, measured.curve(varied, **settings, prompt=prompt)) for prompt in prompts]
    kinds = [Series(kind, measured.curve(varied, after(kind), **settings, prompt=TEXT)) for kind in TEXT_KINDS]
    rows = [
        [
            f"{size:,}",
            *(cell(measured.stat(**settings, **{varied: size}, prompt=prompt)) for prompt in told),
            *(
                cell(measured.stat(deviation, **settings, **{varied: size}, prompt=prompt))
                for prompt in (shot(1), TEXT)
            ),
        ]
        for size in measured.values(varied, **settings)
    ]
    columns = (f"{on} examples", *told, "deviation over sets of 1 example", "deviation over texts")
    note = f"Beside {count:,} {fixed} examples. The last two columns: points, over five sets, and over 25 texts."
    note += cut_prompts(measured, prompts, **settings)
    name = f"{on.capitalize()} addition"
    return [
        Figure(f"{name} after examples and text", "examples", "test accuracy (%)", series, log_x=True),
        Figure(f"{name} after text, by its kind", "examples", "test accuracy (%)", kinds, log_x=True),
        Table(f"{name} (%)", columns, rows, note),
    ]


def _mixings(measured: Measured) -> Table:
    prompts = (SAME, *map(shot, SHOTS), TEXT)
    rows = [
        [mixing, on, *(cell(measured.stat(**{**MAIN, "mixing": mixing}, on=on, prompt=p)) for p in prompts)]
        for mixing in (BLOCKS, DIALOGUE)
        for on in ("plain", "detailed")
    ]
    note = (
        "Blocks: as the authors' data are. Dialogue: a random number of sums between two speeches, as the paper says."
    )
    return Table("How sums and speeches are mixed (%)", ("mixing", "asked", *prompts), rows, note)


def rise(metrics: Mapping[str, object]) -> float | None:
    """Perplexity at the end over its lowest along the way."""
    history = metrics.get("history")
    found = [row["text"] for row in history if row.get("text") is not None] if isinstance(history, list) else []
    lowest = min(found, default=0.0)
    return found[-1] / lowest if lowest else None


def _training(measured: Measured) -> list[Figure | Table]:
    lines = measured.of(**MAIN)
    accuracy = [Series(on, curve(lines, f"{on}-{SAME}")) for on in WATCHED if on != "text"]
    # Before any training it is as large as the vocabulary, which hides all that comes later.
    text = Series("text", [point for point in curve(lines, "text", 1) if point.x])
    return [
        Figure("Accuracy while training", "steps", "test accuracy (%)", accuracy),
        Figure("The text while training", "steps", "perplexity of the text held out", [text]),
    ]


def _writing(measured: Measured) -> Table:
    rows = []
    for line in measured.of(**MAIN, on="text"):
        sample = next(iter(line.metrics.get("samples", [])), "").strip()
        rows.append([f"{line.seed}", f"{line.metrics['perplexity']:.2f}", " / ".join(sample.splitlines()[:6])])
    note = "Sampled at 0.8 after a newline, first lines; / ends a line. Perplexity: a character of the text held out."
    return Table("What it still writes", ("seed", "perplexity", "sample"), rows, note)
