"""Do models add more numbers, and longer ones, than any in training?

Cho et al. (2025) write the sums along the way, and give every token two ids: the weight of its digit, and which number
it is in. Trained on up to ten numbers of up to ten digits, theirs add up to thirty of thirty. Here: the same text and
the same ids, four layers of width 256 in tier fast, with and without `reach` (see position_methods), asked at numbers
that all have so many digits.
"""

from collections.abc import Sequence

from ..config import DataConfig, EvaluationConfig, FormatConfig
from ..reports import HeatMap, Item, Table
from .base import Case, Experiment, Question, Tier
from .claims import Claim
from .lengths import SEEDS, middle_cell, train_on, typical, worst
from .measured import Measured, accuracy

WAYS = {"two ids": {}, "two ids, reach 1": {"reach": 1}}
TRAINED = 10
COUNTS, LENGTHS = (2, 5, 10, 12, 15, 20, 30), (5, 10, 12, 15, 20, 30)
TOLD = ((10, 10), (15, 10), (10, 15), (15, 15), (20, 20), (30, 30))
ROOM = 40
"""Ids of either kind: thirty numbers of thirty digits need 34."""


def of(operands: int, digits: int) -> dict[str, object]:
    return {"operands": operands, "digits": digits}


class OperandCount(Experiment):
    name = "operand_count"
    title = "More numbers than in any sum of training"
    seeds = SEEDS
    claims = (
        Claim(
            "thirty numbers of thirty digits",
            "Trained on ten numbers of ten digits, two ids within reach add thirty of thirty.",
            lambda m: typical(m, accuracy, way="two ids, reach 1", **of(30, 30)),
            "accuracy at 30 numbers of 30 digits, median over seeds",
            (90, 100),
            (50, 90),
            "some of them",
            " %",
            ours=True,
        ),
        Claim(
            "half as many again",
            "Every seed of them adds half as many again, of half as many digits again.",
            lambda m: worst(m, accuracy, way="two ids, reach 1", **of(15, 15)),
            "accuracy at 15 numbers of 15 digits, worst seed",
            (90, 100),
            (50, 90),
            "not all of them",
            " %",
            ours=True,
        ),
        Claim(
            "without reach they stay behind",
            "Without reach they do not get there.",
            lambda m: typical(m, accuracy, way="two ids", **of(30, 30)),
            "accuracy at 30 numbers of 30 digits without reach, median over seeds",
            (0, 50),
            (50, 90),
            "most of the way",
            " %",
            ours=True,
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        few = tier == "smoke"
        most, digits = (3, 2) if few else (TRAINED, TRAINED)
        data = DataConfig(operands=most, digits=digits, format=FormatConfig(name="running_sums"))
        # Thirty numbers, and thirty-one sums and zeros, of 32 digits and a sign each.
        model = {"ids": "coupling_sums", "context": 120 if few else 2_080, "places": 12 if few else ROOM}
        asked = [_ask(few, count, length) for count in COUNTS for length in LENGTHS]
        return [
            Case({"way": way}, train_on(tier, f"sums of {way}", data, {**model, **more}), asked[::13] if few else asked)
            for way, more in (list(WAYS.items())[1:] if few else WAYS.items())
        ]

    def report(self, measured: Measured) -> Sequence[Item]:
        items: list[Item] = []
        for way in WAYS:
            stats = [[measured.stat(way=way, **of(count, length)) for count in COUNTS] for length in LENGTHS]
            items.append(
                HeatMap(
                    f"Accuracy (%), {way}, trained on up to 10 numbers of up to 10 digits",
                    "how many numbers",
                    "digits of all of them",
                    [str(count) for count in COUNTS],
                    [str(length) for length in LENGTHS],
                    [[None if stat is None else stat.mean for stat in row] for row in stats],
                )
            )
        cells = [[way, *(middle_cell(measured, accuracy, way=way, **of(*told)) for told in TOLD)] for way in WAYS]
        heads = ("ids", *(f"{count} of {length} digits" for count, length in TOLD))
        return [*items, Table("Accuracy (%) on 100 sums, median over seeds (worst to best)", heads, cells)]


def _ask(few: bool, count: int, length: int) -> Question:
    data = DataConfig(
        operands=min(3, count) if few else count,
        digits=2 if few else length,
        format=FormatConfig(name="running_sums"),
        num_test=4 if few else 100,
        num_validation=0,
        test_sampler="both_full_length",
    )
    return Question(EvaluationConfig(data=data), of(count, length))
