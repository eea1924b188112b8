"""Which format is cheapest, counted in tokens?

The paper (fig sample_efficiency_num_tokens, tab num_tokens_per_format): the runs of sample_efficiency over examples
times 13, 15, 64 or 281 tokens, its means of an example. Ours: the same runs over the tokens their
training sets really hold (shorter operands make shorter examples).
"""

from ..formats import make_format
from ..operations import operation
from ..paper import table
from ..reports import Figure, Point, Series, Table
from .base import Case, Experiment, Tier
from .bounds import ratio, smallest
from .claims import INF, Claim
from .measured import Measured
from .protocols import FORMATS
from .sample_efficiency import PAPER_NAMES, SampleEfficiency, needed
from .showing import paper_series

TOKENS = {
    "plain": 12.0099,
    "reverse": 14.0099,
    "simplified_scratchpad": 62.6899,
    "detailed_scratchpad": 274.6744,
}
"""Mean characters of an example in the training set of 10,000; a test counts them."""


def cost(measured: Measured, format: str) -> float:
    """Training tokens for 99 %."""
    return needed(measured, format) * TOKENS[format]


class TokenCost(Experiment):
    name = "token_cost"
    title = "What each format costs in tokens"
    paper = ("fig:sample_efficiency_num_tokens", "tab:num_tokens_per_format")
    claims = (
        Claim(
            "reverse is cheapest",
            "Counted in training tokens, reverse is the cheapest format.",
            lambda m: ratio(smallest(cost(m, f) for f in FORMATS if f != "reverse"), cost(m, "reverse")),
            "tokens for 99 %, cheapest other format over reverse",
            (1.1, INF),
            (0.8, 1.1),
            "it shares the first place",
        ),
    )

    def cases(self, tier: Tier) -> list[Case]:
        return SampleEfficiency().cases(tier)

    def report(self, measured: Measured) -> list[Figure | Table]:
        ours = [
            Series(
                format,
                [
                    Point(float(point.x) * TOKENS[format], point.y, point.low, point.high, point.seeds)
                    for point in measured.curve("examples", format=format)
                ],
            )
            for format in FORMATS
        ]
        theirs = paper_series(self.paper[0], PAPER_NAMES)
        problem = operation("add").problem("128", "367")
        rows = []
        examples = [make_format(format).write(problem) for format in FORMATS]
        parts = {
            "Prompt": [len(example.prompt) for example in examples],
            "Completion": [len(example.completion) for example in examples],
            "Total": [len(example.text) for example in examples],
        }
        for part, *numbers in table("tab:num_tokens_per_format")["rows"]:
            rows.append([part, *map(str, parts[part])])
            rows.append([f"{part} (paper)", *map(str, numbers)])
        means = [f"{TOKENS[format]:.1f}" for format in FORMATS]
        rows.append(["Total, mean of 10,000 training examples", *means])
        return [
            Figure(
                "Accuracy by tokens", "tokens in the training set", "test accuracy (%)", [*ours, *theirs], log_x=True
            ),
            Table("Tokens per example (128+367)", ("part", *FORMATS), rows),
        ]
