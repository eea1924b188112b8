"""Is a larger model better at the same mixture?

The paper (fig nanogpt_vs_gpt2, and GPT-2's halves of mixed_performance, mixed_text_prompt_performance and
train_curve_nanogpt): NanoGPT, 10.6 M parameters, and GPT-2's size, 12 layers of width 768, 85 M, both from scratch on
text, plain sums and detailed scratchpads by characters. GPT-2 read 40 x 1,024 tokens a step at 6e-4 for 50,000 steps,
2,000 of them warm-up, with a second beta of 0.95. The plots' numbers were not published. Ours: the same; in tier fast
both read 16 x 1,024 tokens a step for 6,000 steps, with one number of examples: it compares how fast they learn.
"""

from collections.abc import Mapping

from ..config import RunConfig
from ..reports import Figure, Point, Series, Table
from .base import Case, Experiment, Tier
from .claims import INF, Claim
from .measured import Measured, number
from .prompting import SAME, SHOTS, TEXT, ZERO_SHOT, cut_prompts, few_shot, shot
from .protocols import GPT2, NANOGPT
from .showing import cell
from .text_mixture import PLAIN, mixture, questions, sizes_of_both

MODELS: dict[str, Mapping[str, int]] = {"NanoGPT": NANOGPT, "GPT-2": GPT2}
FEW = 500
"""Detailed examples where models are compared: with more both would be nearly perfect."""
FAST_STEPS = 6_000


def run_of(tier: Tier, model: str, plain: int, detailed: int) -> RunConfig:
    if model == "NanoGPT":
        return mixture(tier, plain, detailed, fast_steps=FAST_STEPS)
    return mixture(tier, plain, detailed, size=GPT2, batch_size=40, fast_steps=FAST_STEPS, lr=6e-4, beta2=0.95)


def gain(measured: Measured, **settings: object) -> float:
    """Zero-shot, the larger model minus the smaller."""
    large, small = (measured.mean(model=model, prompt=ZERO_SHOT, **settings) for model in ("GPT-2", "NanoGPT"))
    return large - small


def cost_of_text(measured: Measured, on: str) -> float:
    """What text in front costs the larger model."""
    settings = {"model": "GPT-2", "plain": PLAIN, "detailed": FEW, "on": on}
    return measured.mean(**settings, prompt=SAME) - measured.mean(**settings, prompt=TEXT)


class ModelScale(Experiment):
    name = "model_scale"
    title = "A larger model"
    paper = ("fig:nanogpt_vs_gpt2",)
    finding = (
        "For plain sums bare prompts are the hardest here, those of two three-digit numbers, too, other than in "
        "prompt_start; for detailed scratchpads text is. GPT-2's 20.90 % of plain sums become 73.50 after text and "
        "82.46 after examples. The paper compares text with bare prompts; beside examples, it costs plain 8.95 points "
        "and detailed 16.23."
    )
    claims = (
        Claim(
            "larger is better at plain",
            "The larger model is better at plain addition.",
            lambda m: gain(m, plain=PLAIN, detailed=FEW, on="plain"),
            "plain with 10,000 examples, zero-shot, GPT-2 minus NanoGPT",
            (1, INF),
            (-1, 1),
            "they are alike",
            " points",
        ),
        Claim(
            "larger is better at detailed",
            "The larger model is better at the detailed scratchpad.",
            lambda m: gain(m, plain=PLAIN, detailed=FEW, on="detailed"),
            "detailed with 500 examples, zero-shot, GPT-2 minus NanoGPT",
            (1, INF),
            (-1, 1),
            "they are alike",
            " points",
        ),
        Claim(
            "examples help the larger model",
            "Examples in front help the larger model, too.",
            lambda m: (
                few_shot(m, model="GPT-2", plain=PLAIN, detailed=FEW, on="plain")
                - m.mean(model="GPT-2", plain=PLAIN, detailed=FEW, on="plain", prompt=SAME)
            ),
            "GPT-2, plain with 10,000 examples, few-shot minus zero-shot on the same problems",
            (1, INF),
            (0, 1),
            "hardly",
            " points",
        ),
        Claim(
            "text hurts the larger model",
            "Text in front hurts the larger model, plain and detailed alike.",
            lambda m: min(cost_of_text(m, on) for on in ("plain", "detailed")),
            "GPT-2, lesser of plain's and detailed's loss to text",
            (1, INF),
            (-1, 1),
            "one of them it does not hurt",
            " points",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return [
            Case(
                {"model": model, "plain": plain, "detailed": detailed},
                run_of(tier, model, plain, detailed),
                questions(tier),
                history=True,
            )
            for model in MODELS
            for plain, detailed in (sizes_of_both(tier) if tier == "paper" else [(PLAIN, FEW)])
        ]

    def report(self, measured: Measured) -> list[Figure | Table]:
        prompts = (ZERO_SHOT, SAME, *map(shot, SHOTS), TEXT)
        found = {(line.settings["plain"], line.settings["detailed"]) for line in measured.lines}
        items: list[Figure | Table] = []
        for on in ("plain", "detailed"):
            series, rows = [], []
            for model in MODELS:
                points: list[Point] = []
                for plain, detailed in sorted(found):
                    settings = {"model": model, "plain": plain, "detailed": detailed, "on": on}
                    stats = {prompt: measured.stat(**settings, prompt=prompt) for prompt in prompts}
                    rows.append([model, f"{plain:,}", f"{detailed:,}", *map(cell, stats.values())])
                    trained = "" if len(found) == 1 else f", {plain:,} + {detailed:,}"
                    asked = {prompt: stat for prompt, stat in stats.items() if stat and prompt != ZERO_SHOT}
                    names = {SAME: ZERO_SHOT}  # of what is asked after the others, too
                    points += [stat.point(names.get(prompt, prompt) + trained) for prompt, stat in asked.items()]
                series.append(Series(model, points))
            title = f"{on.capitalize()} addition by two sizes of model"
            axis = "prompt" if len(found) == 1 else "prompt, and plain + detailed examples"
            items.append(Figure(title, axis, "test accuracy (%)", series, bars=True))
            note = cut_prompts(measured, prompts, on=on).strip()
            items.append(Table(f"{title} (%)", ("model", "plain", "detailed", *prompts), rows, note))
        rows = [
            [
                model,
                f"{plain:,}",
                f"{detailed:,}",
                cell(measured.stat(number("perplexity"), model=model, plain=plain, detailed=detailed, on="text")),
            ]
            for model in MODELS
            for plain, detailed in sorted(found)
        ]
        items.append(Table("Perplexity of the text held out", ("model", "plain", "detailed", "perplexity"), rows))
        return items
