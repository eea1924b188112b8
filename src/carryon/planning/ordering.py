"""What to run first: what a claim waits for, the claims that cost least before the others."""

from collections.abc import Iterable, Sequence

from ..experiments import Case, Claim, Experiment, Measured, Tier, matches, needs
from .known import Known, Wanted, work_for


def in_order(
    wanted: Sequence[Wanted], experiments: Iterable[Experiment], tier: Tier, seeds: int | None, known: Known
) -> tuple[list[Wanted], list[Wanted]]:
    """What is missing: that which claims wait for, and the rest, both the most informative first."""
    waited_for: list[list[Wanted]] = []
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
    taken = {id(want) for want in first}
    # Of the rest, one seed of everything before the second of anything.
    rest = sorted((want for want in missing if id(want) not in taken), key=lambda want: want.case.run.seed)
    return first, rest


def _waited_for(claim: Claim, measured: Measured, missing: Sequence[Wanted]) -> list[Wanted]:
    """What a claim asks for, in that order: the end of a curve may not be needed."""
    asked = needs(claim, measured)

    def places(want: Wanted) -> Iterable[int]:
        return (at for at, one in enumerate(asked) if any(matches(given, one) for _, given in want.lines))

    found = [(place, want) for want in missing if (place := next(iter(places(want)), None)) is not None]
    return [want for _, want in sorted(found, key=lambda pair: pair[0])]


def _cheapest_first(waited_for: Sequence[list[Wanted]], tier: Tier, known: Known) -> list[Wanted]:
    """Each claim's runs together, those first that take the least beyond what was put before them."""
    seconds: dict[str, float] = {}
    for want in (want for wants in waited_for for want in wants):
        for key, run in want.chain:
            if key not in seconds:
                seconds[key] = known.estimate(work_for(run, want.experiment), tier)
    ordered: dict[int, Wanted] = {}
    left = [wants for wants in waited_for if wants]
    while left:
        costs = [sum(seconds[key] for key in {key for want in wants for key, _ in want.chain}) for wants in left]
        wants = left.pop(costs.index(min(costs)))
        ordered |= {id(want): want for want in wants}
        seconds |= dict.fromkeys((key for want in wants for key, _ in want.chain), 0.0)
    return list(ordered.values())


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
