"""Does going through the same layers again carry a sum further than as many layers of their own?

McLeish et al. (2024) say so: with Abacus ids, trained on up to twenty digits, a block gone through again and again, the
embedding added each time, made fewer mistakes on longer numbers than as many layers. Here: eight layers, two gone
through four times with and without the embedding added again, and two; width 256 in tier fast, asked up to a hundred
digits. The same once more within reach (see position_methods).
"""

from collections.abc import Sequence
from typing import Any

from ..reports import Item
from .base import Case, Experiment, Tier
from .claims import INF, Claim
from .lengths import SEEDS, SIZES, Method, adder, along, ask_along, at, tables, typical
from .measured import Measured

LOOPS = {"loops": 4}
SHAPES: dict[str, tuple[int, dict[str, Any]]] = {
    "8 layers": (8, {}),
    "2 layers 4 times, embedding added": (2, {**LOOPS, "inject": True}),
    "2 layers 4 times": (2, LOOPS),
    "2 layers": (2, {}),
    "8 layers, reach 1": (8, {"reach": 1}),
    "2 layers 4 times, embedding added, reach 1": (2, {**LOOPS, "inject": True, "reach": 1}),
    "2 layers, reach 1": (2, {"reach": 1}),
}
TRAINED, LONGEST = 20, 100
ALONG = (5, 10, 20, 22, 25, 28, 32, 38, 45, 60, 75, 100)
TOLD = (20, 22, 25, 32, 45, 60, 100)


def asked(shape: str) -> dict[str, object]:
    return {"shape": shape, "asked": "diagonal"}


def beyond(measured: Measured, shape: str) -> float:
    """Mean over the lengths beyond training of the median over seeds."""
    lengths = [length for length in ALONG if length > TRAINED]
    return sum(typical(measured, at(length), **asked(shape)) for length in lengths) / len(lengths)


class Looped(Experiment):
    name = "looped"
    title = "Layers gone through again"
    seeds = SEEDS
    claims = (
        Claim(
            "loops carry further",
            "Two layers gone through four times, the embedding added each time, carry Abacus further than eight.",
            lambda m: beyond(m, "2 layers 4 times, embedding added") - beyond(m, "8 layers"),
            "trained on twenty digits, accuracy on 22 to 100, mean over lengths of the median over seeds, difference",
            (5, INF),
            (0, 5),
            "hardly",
            " points",
            ours=True,
        ),
        Claim(
            "it takes the embedding",
            "It takes the embedding added each time.",
            lambda m: beyond(m, "2 layers 4 times, embedding added") - beyond(m, "2 layers 4 times"),
            "the same, with the embedding added minus without",
            (5, INF),
            (0, 5),
            "hardly",
            " points",
            ours=True,
        ),
        Claim(
            "within reach it does not matter",
            "Within reach shapes do not matter: all carry on to a hundred digits.",
            lambda m: min(typical(m, at(100), **asked(shape)) for shape in SHAPES if "reach" in shape),
            "accuracy at 100 digits, median over seeds, the least of three shapes",
            (95, 100),
            (50, 95),
            "they matter somewhat",
            " %",
            ours=True,
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        tried = ("2 layers 4 times, embedding added",) if tier == "smoke" else tuple(SHAPES)
        cases = []
        for name in tried:
            layers, more = SHAPES[name]
            method = Method(name, {"ids": "abacus", **more}, {"name": "reverse_all"})
            size = None if tier == "smoke" else {**SIZES[tier], "layers": layers}
            run = adder(tier, method, TRAINED, LONGEST, size=size)
            cases.append(Case({"shape": name}, run, [ask_along(tier, ALONG)]))
        return cases

    def report(self, measured: Measured) -> Sequence[Item]:
        rows = {name: {"shape": name} for name in SHAPES}
        anywhere, within = ({n: s for n, s in rows.items() if ("reach" in n) == near} for near in (False, True))
        return [
            along("Abacus, trained on up to 20 digits", measured, anywhere, ALONG),
            along("The same within reach", measured, within, ALONG),
            *tables(measured, ("shape",), {(name,): settings for name, settings in rows.items()}, TOLD, ALONG),
        ]
