"""Do examples help a model that knows nothing but sums, even wrong ones, and does text hurt it?

The paper (fig nanogpt_only_addition): plain addition alone, 500 to 40,000 examples, with the 80 characters of text and
arithmetic as vocabulary so that text can be read; asked bare, after 1, 2 or 3 examples, after three wrong ones
("noisy"), and after text; five sets each, 9,900 problems. The plot's numbers were not published. Ours: the same, 1,000
problems after each prompt, greedily, and in tier paper sampled, too; a wrong example has the answer of another; two of
the 25 texts are longer than the context and are cut from the left.
"""

from ..config import TextConfig
from ..reports import Figure, Series, Table
from .base import Case, Experiment, Tier
from .bounds import NotEnough
from .claims import INF, Claim
from .measured import Measured
from .prompting import (
    NOISY,
    SAME,
    SHOTS,
    TEXT,
    TEXT_KINDS,
    ZERO_SHOT,
    after,
    cut_prompts,
    deviation,
    few_shot,
    prompted,
    shot,
)
from .protocols import addition, make_run, sizes
from .showing import cell

SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 40_000)
MANY = 10_000
TEXT_ONLY = TextConfig(mixing="none", characters="+/<=>[]")
"""Not trained on; with what scratchpads are written with, its characters are the paper's 80."""
PROMPTS = (ZERO_SHOT, SAME, *map(shot, SHOTS), NOISY, TEXT)


def share_of_wrong_examples(measured: Measured) -> float:
    """What three wrong examples add to zero-shot, as a part of what three right ones add."""
    zero, right, wrong = (measured.mean(examples=MANY, prompt=prompt) for prompt in (SAME, shot(3), NOISY))
    if right - zero < 1:
        raise NotEnough("right examples hardly help, so there is nothing to have a part of")
    return (wrong - zero) / (right - zero)


class TextFreePrompts(Experiment):
    name = "text_free_prompts"
    title = "Prompts for a model of sums alone"
    paper = ("fig:nanogpt_only_addition",)
    claims = (
        Claim(
            "examples help",
            "Examples in front help, though sums are all the model knows.",
            lambda m: few_shot(m, examples=MANY) - m.mean(examples=MANY, prompt=SAME),
            "10,000 examples, few-shot minus zero-shot on the same problems",
            (3, INF),
            (0.5, 3),
            "by little",
            " points",
        ),
        Claim(
            "wrong examples help as much",
            "Wrong examples in front help nearly as much as right ones.",
            share_of_wrong_examples,
            "10,000 examples, what three wrong examples add to zero-shot, as a part of what three right ones add",
            (0.8, INF),
            (0.3, 0.8),
            "less, but they help",
        ),
        Claim(
            "text hurts",
            "Text in front hurts a model that never saw any.",
            lambda m: m.mean(examples=MANY, prompt=SAME) - m.mean(examples=MANY, prompt=TEXT),
            "10,000 examples, zero-shot minus after text, same problems",
            (2, INF),
            (0, 2),
            "hardly",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"examples": size},
                make_run(tier, addition("plain", size), text=TEXT_ONLY),
                prompted(tier, 0, None, 1_000, noisy=True),
            )
            for size in sizes(tier, SIZES)
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        series = [Series(prompt, measured.curve("examples", prompt=prompt)) for prompt in PROMPTS if prompt != SAME]
        kinds = [Series(kind, measured.curve("examples", after(kind), prompt=TEXT)) for kind in TEXT_KINDS]
        rows = [
            [
                f"{size:,}",
                *(cell(measured.stat(examples=size, prompt=prompt)) for prompt in PROMPTS),
                *(cell(measured.stat(deviation, examples=size, prompt=prompt)) for prompt in (shot(1), TEXT)),
            ]
            for size in measured.values("examples")
        ]
        columns = ("examples", *PROMPTS, "deviation over sets of 1 example", "deviation over texts")
        note = "Noisy: after three wrong examples. The last two columns: points, over five sets, and over 25 texts."
        note += cut_prompts(measured, PROMPTS)
        return [
            Figure("A model of sums after examples and text", "examples", "test accuracy (%)", series, log_x=True),
            Figure("A model of sums after text, by its kind", "examples", "test accuracy (%)", kinds, log_x=True),
            Table("Accuracy (%)", columns, rows, note),
        ]
