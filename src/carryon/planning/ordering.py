"""What to run first: what a claim waits for, the claims that cost least before the others."""

from collections.abc import Iterable, Sequence
from itertools import chain

from ..experiments import Case, Claim, Experiment, Measured, Tier, matches, needs
from .known import Known, Wanted, work_for

Likely = tuple[Wanted, float]
"""What a claim waits for, and the chance that it needs it, about."""


def in_order(
    wanted: Sequence[Wanted], experiments: Iterable[Experiment], tier: Tier, seeds: int | None, known: Known
) -> tuple[list[Likely], list[Wanted]]:
    """What is missing: that which claims wait for, and the rest, both the most informative first."""
    waited_for: list[list[Likely]] = []
    missing: list[Wanted] = []
    for experiment in experiments:
        found = [(want, known.find(want)) for want in wanted if want.experiment == experiment.name]
        lines = [line for _, some in found for line in some or ()]
        missing_here = [want for want, some in found if some is None]
        missing += missing_here
        if missing_here and (seeds is None or seeds >= experiment.seeds[tier]):
            measured = Measured(lines, tier, experiment.seeds[tier], experiment.planned(tier))
            enough = [want for want in missing_here if want.case.run.seed < experiment.seeds[tier]]
            waited_for += (_waited_for(claim, measured, enough) for claim in experiment.claims)
    first = _cheapest_first(waited_for, tier, known)
    taken = {id(want) for want, _ in first}
    # Of the rest, one seed of everything before the second of anything.
    rest = sorted((want for want in missing if id(want) not in taken), key=lambda want: want.case.run.seed)
    return first, rest


def _waited_for(claim: Claim, measured: Measured, missing: Sequence[Wanted]) -> list[Likely]:
    """What a claim asks for, what it surely needs first: the end of a curve may not be needed.

    Of that, one seed of everything before the second of anything: the first says where to look with the others.
    """
    asked = needs(claim, measured)

    def places(want: Wanted) -> list[int]:
        return [at for at, need in enumerate(asked) if any(matches(given, need.settings) for _, given in want.lines)]

    waiting = [(found, want) for want in missing if (found := places(want))]
    waiting.sort(key=lambda each: (asked[each[0][0]].place, each[1].case.run.seed, each[0][0]))
    return [(want, max(asked[at].chance for at in found)) for found, want in waiting]


def _cheapest_first(waited_for: Sequence[list[Likely]], tier: Tier, known: Known) -> list[Likely]:
    """Each claim's runs together, those first that take the least beyond what was put before them."""
    seconds: dict[str, float] = {}
    for want, _ in chain.from_iterable(waited_for):
        for key, run in want.chain:
            if key not in seconds:
                seconds[key] = known.estimate(work_for(run), tier)
    ordered: dict[int, Likely] = {}
    left = [likely for likely in waited_for if likely]
    while left:
        chances = [chances_by_run(likely) for likely in left]
        costs = [sum(chance * seconds[key] for key, chance in those.items()) for those in chances]
        cheapest = costs.index(min(costs))
        for want, chance in left.pop(cheapest):
            before = ordered.get(id(want), (want, 0.0))
            ordered[id(want)] = (want, max(chance, before[1]))
        seconds |= dict.fromkeys(chances[cheapest], 0.0)
    return list(ordered.values())


def chances_by_run(likely: Iterable[Likely]) -> dict[str, float]:
    """How likely each run is needed, and each that others start from."""
    chances: dict[str, float] = {}
    for want, chance in likely:
        for key, _ in want.chain:
            chances[key] = max(chance, chances.get(key, 0.0))
    return chances


def spread(cases: Sequence[Case]) -> list[Case]:
    """The ends first, then the middles: a curve that is cut short has its shape."""
    order, gaps = [], [(0, len(cases) - 1)]
    seen: set[int] = set()
    while gaps:
        low, high = gaps.pop(0)
        if low > high:
            continue
        for place in (low, high):
            if place not in seen:
                seen.add(place)
                order.append(place)
        middle = (low + high) // 2
        if high - low > 1:
            gaps += [(low + 1, middle), (middle + 1, high - 1)]
    return [cases[place] for place in order]
