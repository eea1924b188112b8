"""Which ways to know where a digit stands carry a sum beyond the lengths of training?

The paper leaves it open: trained on seven digits, its models cannot add eight. Later work has many answers, each with
its own model, data and seed. Here all of them are one model, one training and one test: four layers of width 256 in
tier fast, sums of up to thirty digits, both operands of any length, the answer lowest digit first; asked up to 500
digits. Abacus reads every number lowest digit first, and has a second row for the twenty digits of its own paper;
coupling has one for the single layer of its own. `reach` is ours: digits see only those whose ids differ by at most
one. Without it, what lies at distances of ids that training never had gets in the way.
"""

from collections.abc import Sequence

from ..reports import Item
from .base import Case, Experiment, Tier
from .claims import Claim
from .lengths import (
    SEEDS,
    SIZES,
    Method,
    adder,
    along,
    ask_all_pairs,
    ask_along,
    at,
    heat_map,
    tables,
    typical,
    worst,
)
from .measured import Measured

BACKWARDS = {"name": "reverse_all"}
COUPLED = {"ids": "coupling"}
COUNTED = {"ids": "abacus"}
METHODS = (
    Method("learned, random start", {"ids": "shifted"}),
    Method("sinusoidal", {"position": "sinusoidal"}),
    Method("none", {"position": "none"}),
    Method("rotary", {"position": "rotary"}),
    Method("ALiBi", {"position": "alibi"}),
    Method("T5", {"position": "t5"}),
    Method("FIRE", {"position": "fire"}),
    Method("random sorted", {"ids": "scattered"}),
    Method("Abacus", COUNTED, BACKWARDS),
    Method("Abacus, reach 1", {**COUNTED, "reach": 1}, BACKWARDS),
    Method("coupling", COUPLED),
    Method("coupling, reach 1", {**COUPLED, "reach": 1}),
    Method("coupling with T5, reach 1", {**COUPLED, "position": "t5", "reach": 1}),
)
CLASSIC = METHODS[:8]
TRAINED, TWENTY, LONGEST = 30, 20, 500
ALONG = (10, 20, 30, 32, 34, 38, 45, 60, 75, 100, 150, 200, 300, 400, 500)
PAIRS = (5, 15, 30, 45, 70, 100, 200)
TOLD = (30, 34, 38, 60, 100, 200, 300, 500)
ONE_LAYER = "coupling, reach 1, one layer"


def trained(name: str, digits: int = TRAINED) -> dict[str, object]:
    return {"method": name, "trained": digits}


class PositionMethods(Experiment):
    name = "position_methods"
    title = "Ways to know where a digit stands, on numbers longer than any in training"
    seeds = SEEDS
    claims = (
        Claim(
            "classic ways end at once",
            "No usual way to tell positions, random starts and sorted random ids among them, reaches twice the "
            "length it was trained on.",
            lambda m: max(typical(m, at(60), asked="diagonal", **trained(one.name)) for one in CLASSIC),
            "trained on thirty digits, accuracy at sixty, median over seeds, best of eight methods",
            (0, 10),
            (10, 50),
            "some get part of the way",
            " %",
            ours=True,
        ),
        Claim(
            "coupling within reach adds 200",
            "Trained on thirty digits, coupled ids within reach add two hundred.",
            lambda m: typical(m, at(200), asked="diagonal", **trained("coupling, reach 1")),
            "accuracy at 200 digits, median over seeds",
            (98, 100),
            (90, 98),
            "most of them",
            " %",
            ours=True,
        ),
        Claim(
            "every seed of it",
            "So does every seed of it.",
            lambda m: worst(m, at(200), asked="diagonal", **trained("coupling, reach 1")),
            "accuracy at 200 digits, worst seed",
            (90, 100),
            (50, 90),
            "not all of them",
            " %",
            ours=True,
        ),
        Claim(
            "and 500",
            "And five hundred.",
            lambda m: typical(m, at(500), asked="diagonal", **trained("coupling, reach 1")),
            "accuracy at 500 digits, median over seeds",
            (90, 100),
            (50, 90),
            "some of them",
            " %",
            ours=True,
        ),
        Claim(
            "Abacus within reach adds 100",
            "Trained on twenty digits, Abacus within reach adds a hundred.",
            lambda m: typical(m, at(100), asked="diagonal", **trained("Abacus, reach 1", TWENTY)),
            "accuracy at 100 digits, median over seeds",
            (97, 100),
            (80, 97),
            "most of them",
            " %",
            ours=True,
        ),
        Claim(
            "it is the reach",
            "It is the reach that does it: without, both lose their way before two hundred digits.",
            lambda m: max(typical(m, at(200), asked="diagonal", **trained(name)) for name in ("Abacus", "coupling")),
            "accuracy at 200 digits without reach, median over seeds, the better of both",
            (0, 50),
            (50, 90),
            "it helps, and is not all",
            " %",
            ours=True,
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        asked = [ask_along(tier, ALONG), ask_all_pairs(tier, PAIRS)]
        if tier == "smoke":
            return [Case(trained(one.name), adder(tier, one, TRAINED, LONGEST), asked) for one in METHODS[::4]]
        cases = [Case(trained(one.name), adder(tier, one, TRAINED, LONGEST), asked) for one in METHODS]
        for one in METHODS:
            if one.name in ("Abacus", "Abacus, reach 1"):
                cases.append(Case(trained(one.name, TWENTY), adder(tier, one, TWENTY, LONGEST), asked))
            if one.name == "coupling, reach 1":
                single = {**SIZES[tier], "layers": 1}
                cases.append(Case(trained(ONE_LAYER), adder(tier, one, TRAINED, LONGEST, size=single), asked))
        return cases

    def report(self, measured: Measured) -> Sequence[Item]:
        def named(names: Sequence[str], digits: int = TRAINED) -> dict[str, dict[str, object]]:
            return {name: trained(name, digits) for name in names}

        classic = [one.name for one in CLASSIC]
        newer = [one.name for one in METHODS if one.name not in classic]
        twenty = ["Abacus", "Abacus, reach 1"]
        rows: dict[tuple[str, ...], dict[str, object]]
        rows = {(name, "30"): trained(name) for name in (*classic, *newer, ONE_LAYER)}
        rows |= {(name, "20"): trained(name, TWENTY) for name in twenty}
        return [
            along("Usual ways, trained on up to 30 digits", measured, named(classic), ALONG, log_x=True),
            along("Ids of digits, trained on up to 30", measured, named(newer), ALONG, log_x=True),
            along("Abacus, trained on up to 20", measured, named(twenty, TWENTY), ALONG, log_x=True),
            *tables(measured, ("method", "trained up to"), rows, TOLD, ALONG),
            *(
                heat_map(f"Accuracy (%), {name}, by both lengths", measured, PAIRS, **trained(name))
                for name in ("none", "coupling", "coupling, reach 1")
            ),
        ]
