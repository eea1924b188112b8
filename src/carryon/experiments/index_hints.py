"""Do letters that name each digit's place carry a sum beyond the lengths of training?

Zhou et al. (2023, 2024) write a letter in front of every digit, the same for digits of one weight, from a random place
in one long order, so that a model learns what to do with each letter; their best runs, with FIRE and sorted random ids,
went from 40 to 100 digits, and others of the same settings did not. Here: four layers of width 256 in tier fast, sums
of up to thirty digits with 102 letters, asked up to a hundred.
"""

from collections.abc import Sequence

from ..reports import Item
from .base import Case, Experiment, Tier
from .claims import INF, Claim
from .lengths import (
    SEEDS,
    Method,
    adder,
    along,
    ask_along,
    at,
    of_each_seed,
    tables,
    typical,
)
from .measured import Measured

HINTED = {"name": "index_hints"}
METHODS = (
    Method("hints", {"position": "none"}, HINTED),
    Method("hints, rotary", {"position": "rotary"}, HINTED),
    Method("hints, FIRE", {"position": "fire"}, HINTED),
    Method("hints, FIRE, random sorted", {"position": "fire", "ids": "scattered"}, HINTED),
    Method("none", {"position": "none"}),
    Method("FIRE", {"position": "fire"}),
)
TRAINED, LONGEST, MOST_WITHOUT = 30, 100, 500
ALONG = (10, 20, 30, 32, 34, 38, 45, 60, 75, 100)
TOLD = (30, 34, 38, 45, 60, 75, 100)


def asked(method: str) -> dict[str, object]:
    return {"method": method, "trained": TRAINED, "asked": "diagonal"}


def spread(measured: Measured) -> float:
    """Best seed minus worst, at the length where seeds are furthest apart."""
    longer = (length for length in ALONG if length > TRAINED)
    values = [of_each_seed(measured, at(length), **asked("hints, FIRE, random sorted")) for length in longer]
    if len(values[0]) < 2:
        return measured.lacking("several seeds")
    return max(seeds[-1] - seeds[0] for seeds in values)


class IndexHints(Experiment):
    name = "index_hints"
    title = "Letters that name each digit's place"
    seeds = SEEDS
    claims = (
        Claim(
            "hints carry further",
            "Hints carry sums further beyond the trained length, with FIRE and without.",
            lambda m: min(
                typical(m, at(38), **asked(f"hints{more}")) - typical(m, at(38), **asked(without))
                for more, without in (("", "none"), (", FIRE", "FIRE"))
            ),
            "trained on thirty digits, accuracy at 38, median over seeds, with hints minus without, the lesser gain",
            (20, INF),
            (5, 20),
            "by less",
            " points",
            ours=True,
        ),
        Claim(
            "the published recipe triples the length",
            "Hints, FIRE and random ids together reach a hundred digits.",
            lambda m: typical(m, at(100), **asked("hints, FIRE, random sorted")),
            "trained on thirty digits, accuracy at a hundred, median over seeds",
            (90, 100),
            (50, 90),
            "in part",
            " %",
            ours=True,
        ),
        Claim(
            "it depends on the seed",
            "How far that goes depends on the seed.",
            spread,
            "best seed minus worst, at the length where they are furthest apart",
            (30, 100),
            (10, 30),
            "somewhat",
            " points",
            ours=True,
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        tried = METHODS[:1] if tier == "smoke" else METHODS
        cases = []
        for one in tried:
            if one.format == HINTED:
                run = adder(tier, one, TRAINED, LONGEST, tokens=6)
            else:  # as in position_methods
                run = adder(tier, one, TRAINED, MOST_WITHOUT)
            cases.append(Case({"method": one.name, "trained": TRAINED}, run, [ask_along(tier, ALONG)]))
        return cases

    def report(self, measured: Measured) -> Sequence[Item]:
        rows = {one.name: {"method": one.name, "trained": TRAINED} for one in METHODS}
        return [
            along("Trained on up to 30 digits", measured, rows, ALONG),
            *tables(measured, ("method",), {(name,): settings for name, settings in rows.items()}, TOLD, ALONG),
        ]
