"""Test, validation and training problems that have nothing in common.

The test and validation sets are drawn first, from streams that depend on the data's split seed alone, so
that every training size, sampler and run is tested on the same problems. All training draws leave both out.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ..config import DataConfig
from ..errors import OutOfProblems
from ..operations import Codes, DecimalFunction, Domain, IntegerOperation, Lists, Operation, Pairs, operation
from ..sampling import Barred, Drawing, Goals, Plan, excluded_numbers, make_plan
from ..sampling.strata import longest

_MOST_ALWAYS_TRAINED = 10_000
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class HeldOut:
    """What training never sees."""

    test: Codes
    validation: Codes
    notes: tuple[str, ...]
    """What a small domain could not give, in words."""

    @property
    def both(self) -> Codes:
        return np.concatenate([self.test, self.validation])


@dataclass(frozen=True)
class Splits:
    config: DataConfig
    seed: int
    operation: Operation
    domain: Domain
    train: Codes
    validation: Codes
    test: Codes
    excluded_numbers: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    goals: Goals = field(default_factory=dict)

    def codes(self, split: str) -> Codes:
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]


def make_splits(config: DataConfig, seed: int = 0) -> Splits:
    """All three sets. `seed` chooses the training sample and nothing else."""
    op, domain = domain_of(config)
    held_out = draw_held_out(config)
    plan = training_plan(config)
    barred = _barred_from_training(config, seed, plan, domain, held_out)
    train = Drawing(plan, barred).distinct(config.num_examples, "train", seed)
    return Splits(
        config,
        seed,
        op,
        domain,
        train,
        held_out.validation,
        held_out.test,
        tuple(barred.numbers),
        held_out.notes,
        plan.goals(config.num_examples),
    )


class Endless:
    """Training problems without end, in blocks that each keep the sampler's proportions.

    Block k depends on (seed, k) alone, so that a resumed run starts at any block. Problems may repeat; test
    and validation problems and what the config excludes never occur.
    """

    def __init__(self, config: DataConfig, seed: int = 0) -> None:
        _, domain = domain_of(config)
        plan = training_plan(config)
        self._drawing = Drawing(plan, _barred_from_training(config, seed, plan, domain, draw_held_out(config)))
        self._seed = seed
        self.block_size = min(config.num_examples, self._drawing.exist)
        if not self.block_size:
            raise OutOfProblems(config.num_examples, 0, "after the test and validation sets and what is excluded")

    def block(self, number: int, size: int | None = None, longest: int | None = None) -> Codes:
        return self._drawing.block(size or self.block_size, "endless", self._seed, number, longest=longest)


def training_plan(config: DataConfig) -> Plan:
    op, domain = domain_of(config)
    return make_plan(config.sampler_name, domain, op, _longest_shown(config))


def _longest_shown(config: DataConfig) -> int | None:
    """Digits of the longest operand that training may see."""
    if not config.exclude.lengths:
        return None
    shown = [length for length in range(1, config.longest + 1) if length not in config.exclude.lengths]
    if not shown:
        raise OutOfProblems(config.num_examples, 0, f"exclude.lengths hides all lengths up to {config.longest}")
    return shown[-1]


def domain_of(config: DataConfig) -> tuple[Operation, Domain]:
    op = operation(config.operation, config.base)
    if isinstance(op, DecimalFunction):
        return op, op.domain
    assert isinstance(op, IntegerOperation)
    if config.operands > 2:
        return op, Lists(config.operands, config.base**config.digits, config.base)
    return op, Pairs(config.table, config.base) if config.table else op.domain(config.digits)


@lru_cache(maxsize=4)
def draw_held_out(config: DataConfig) -> HeldOut:
    """The test and validation sets."""
    op, domain = domain_of(config)
    always = always_trained(config, domain)
    free = domain.size - len(always)
    num_test, test_note = _held_out_size("test", config.num_test, 10_000, 60, domain.size, free)
    num_validation, validation_note = _held_out_size(
        "validation", config.num_validation, 1_000, 10, domain.size, free - num_test
    )
    plan = make_plan(config.test_sampler, domain, op)
    test = Drawing(plan, Barred(domain, always)).distinct(num_test, "test", config.split_seed)
    avoid = np.concatenate([always, test])
    validation = Drawing(plan, Barred(domain, avoid)).distinct(num_validation, "validation", config.split_seed)
    return HeldOut(test, validation, tuple(filter(None, (test_note, validation_note))))


def always_trained(config: DataConfig, domain: Domain) -> Codes:
    """The one-digit problems: training sets include all of them, so no test may.

    They stay out of the tests of every sampler, so that all samplers are tested on the same problems; only a
    table of revealed entries is tested on all that it holds. Of five operands on there are so many that tests leave
    enough of them.
    """
    if isinstance(domain, Lists):
        counts = [count for count in range(2, domain.most + 1) if domain.base**count <= _MOST_ALWAYS_TRAINED]
        return np.concatenate([domain.join(np.indices((domain.base,) * n).reshape(n, -1).T) for n in counts])
    if isinstance(domain, Pairs) and config.table is None:
        ones = longest(domain, 1, 1)
        return domain.codes(ones.codes.tolist())  # type: ignore[attr-defined]
    return domain.codes([])


def _held_out_size(
    split: str, asked: int | None, default: int, percent: int, size: int, free: int
) -> tuple[int, str | None]:
    if asked is not None:
        return asked, None
    given = min(default, size * percent // 100, free)
    if given == default:
        return given, None
    why = f"{percent} % of the {size:,} problems there are" if given < free else "all that training does not include"
    return given, f"{split}: {given:,} problems instead of {default:,} ({why})"


def _barred_from_training(config: DataConfig, seed: int, plan: Plan, domain: Domain, held_out: HeldOut) -> Barred:
    codes = None
    if config.exclude.numbers and config.exclude.choice == "rarest":
        codes = Drawing(plan, Barred(domain, held_out.both)).distinct(config.num_examples, "train", seed)
    # Random numbers belong to the data, so all runs hide the same; the rarest depend on the training sample.
    numbers = excluded_numbers(domain, config.exclude, codes, config.split_seed)
    return Barred(domain, held_out.both, config.exclude, numbers)
