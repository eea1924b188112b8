"""What an experiment is: cases to run, a report, and claims."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..config import AnyRun, EnumerationConfig, EvaluationConfig, RunConfig
from ..reports import Item, Verdict
from .claims import Claim
from .measured import Measured, Settings

Tier = Literal["smoke", "fast", "paper"]
SEEDS: dict[str, int] = {"smoke": 1, "fast": 3, "paper": 2}
"""Seeds a claim wants before it is decided, and what `reproduce` runs if nothing else is said."""


@dataclass(frozen=True)
class Question:
    """An evaluation, and what it varies."""

    config: EvaluationConfig
    settings: Settings = field(default_factory=dict)


ASKED = (Question(EvaluationConfig()),)


@dataclass(frozen=True)
class Case:
    """One run of an experiment, apart from its seed."""

    settings: Settings
    run: AnyRun
    questions: Sequence[Question] = ASKED
    parents: Sequence[RunConfig] = ()
    """Runs whose weights this one starts from, the first one first."""
    history: bool = False
    """Keep what was measured along the way, too."""

    def with_seed(self, seed: int) -> "Case":
        """The same with another seed, parents and all."""
        if not isinstance(self.run, RunConfig):
            return Case(self.settings, self.run.model_copy(update={"seed": seed}), self.questions)
        before: str | None = None
        chain = []
        for config in (*self.parents, self.run):
            config = config.model_copy(update={"seed": seed, "parent": before})
            chain.append(config)
            before = config.hash
        return Case(self.settings, chain[-1], self.questions, tuple(chain[:-1]), self.history)

    def with_seeds(self, count: int) -> "list[Case]":
        """Once for each seed; an enumeration draws nothing, and once is enough."""
        return [self.with_seed(seed) for seed in range(1 if isinstance(self.run, EnumerationConfig) else count)]


class Experiment(ABC):
    """One figure or table of the paper, or a question of ours."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[tuple[str, ...]] = ()
    """Labels of the paper's figures and tables."""
    claims: ClassVar[tuple[Claim, ...]] = ()
    finding: ClassVar[str] = ""
    """What was found out of why tier fast has other numbers than the paper."""
    finding_under: ClassVar[int] = 0
    """Which figure that stands under; the first, unless it is about another."""
    seeds: ClassVar[Mapping[str, int]] = SEEDS
    """By tier; more where the seeds differ by more than what is to be told apart."""

    @abstractmethod
    def cases(self, tier: Tier) -> list[Case]:
        """What to run."""

    @abstractmethod
    def report(self, measured: Measured) -> Sequence[Item]:
        """What to show, the paper's numbers beside ours."""

    def planned(self, tier: Tier) -> list[Settings]:
        """What each line varies once everything is run."""
        return [{**case.settings, **question.settings} for case in self.cases(tier) for question in case.questions]

    def verdicts(self, measured: Measured) -> list[Verdict]:
        return [claim.decide(measured) for claim in self.claims]
