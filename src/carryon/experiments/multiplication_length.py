"""Do models multiply numbers longer than any in training?

Cho et al. (2025) write the product of the first number with each digit of the second, then add these up one by one,
and give every token three ids: its weight in the first number and in the products, which digit of the second it
belongs to, and its weight in the sums. Trained on up to ten digits by ten, theirs get to twenty by fifteen. Here: the
same text and the same ids, four layers of width 256 in tier fast, with and without `reach` (see position_methods).
"""

from collections.abc import Sequence

from ..config import DataConfig, FormatConfig
from ..reports import Item, Table
from .base import Case, Experiment, Tier
from .claims import Claim
from .lengths import SEEDS, ask_all_pairs, at, heat_map, middle_cell, train_on, typical, worst
from .measured import Measured

WAYS = {"three ids": {}, "three ids, reach 1": {"reach": 1}}
TRAINED, LONGEST = 10, 20
PAIRS = (2, 5, 8, 10, 12, 15, 20)
TOLD = ((5, 5), (10, 10), (12, 10), (10, 12), (12, 12), (15, 15), (20, 15), (20, 20))


class MultiplicationLength(Experiment):
    name = "multiplication_length"
    title = "Products of longer numbers than in training"
    seeds = SEEDS
    claims = (
        Claim(
            "twenty by fifteen",
            "Trained on ten digits by ten, three ids within reach multiply twenty by fifteen.",
            lambda m: typical(m, at(20, 15), way="three ids, reach 1"),
            "accuracy at 20 by 15 digits, median over seeds",
            (90, 100),
            (50, 90),
            "some of them",
            " %",
            ours=True,
        ),
        Claim(
            "one and a half times as long",
            "Every seed of them multiplies numbers half as long again.",
            lambda m: worst(m, at(15), way="three ids, reach 1"),
            "accuracy at 15 by 15 digits, worst seed",
            (90, 100),
            (50, 90),
            "not all of them",
            " %",
            ours=True,
        ),
        Claim(
            "without reach they stay behind",
            "Without reach they do not get there.",
            lambda m: typical(m, at(20, 15), way="three ids"),
            "accuracy at 20 by 15 digits without reach, median over seeds",
            (0, 50),
            (50, 90),
            "most of the way",
            " %",
            ours=True,
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        few = tier == "smoke"
        data = DataConfig(
            operation="multiply",
            digits=3 if few else TRAINED,
            format=FormatConfig(name="partial_products"),
            sampler="balanced_lengths",
        )
        # Twenty products of 22 tokens, and as many sums of 41.
        model = {"ids": "coupling_products", "context": 140 if few else 1_360, "places": 20 if few else 48}
        asked = [ask_all_pairs(tier, PAIRS)]
        return [
            Case({"way": way}, train_on(tier, f"products of {way}", data, {**model, **more}), asked)
            for way, more in (list(WAYS.items())[1:] if few else WAYS.items())
        ]

    def report(self, measured: Measured) -> Sequence[Item]:
        maps: list[Item] = [
            heat_map(f"Accuracy (%), {way}, trained on up to 10 by 10 digits", measured, PAIRS, way=way) for way in WAYS
        ]
        cells = [[way, *(middle_cell(measured, at(*told), way=way) for told in TOLD)] for way in WAYS]
        heads = ("ids", *(f"{a} by {b} digits" for a, b in TOLD))
        return [*maps, Table("Accuracy (%) on 20 products, median over seeds (worst to best)", heads, cells)]
