"""Where a run stands, and how it is found again after a kill."""

import time
from collections.abc import Mapping
from typing import Any

from ..config import TrainConfig
from ..model import LanguageModel
from ..runs import Run, as_arrays
from .loading import load_arrays
from .stepper import Stepper

CHECKPOINT_SECONDS = 30.0
"""Most work that a kill can cost …"""
_SAVING_SECONDS = 1.5
"""… unless saving takes longer than this, as of a large model: then pauses are longer in proportion."""


class Progress:
    """Where a run stands: the step, what early stopping remembers, and when it was last saved."""

    def __init__(self) -> None:
        self.step = 0
        self.stopped = False
        self.reason = "all steps done"
        self.held, self.best, self.since_best = 0, -1.0, 0
        self.seconds_before = self.training_before = 0.0
        self._started = self._saved = time.monotonic()
        self._stretch = 1.0

    @property
    def seconds(self) -> float:
        """Of all sittings together."""
        return self.seconds_before + time.monotonic() - self._started

    def judge(self, row: Mapping[str, Any], train: TrainConfig) -> bool:
        """Whether to stop early, by the validation accuracy of this evaluation."""
        accuracy = row.get("validation")
        if accuracy is None or not train.stop.is_on:
            return False
        good = train.stop.accuracy is not None and accuracy >= train.stop.accuracy
        self.held = self.held + 1 if good else 0
        self.since_best = 0 if accuracy > self.best else self.since_best + 1
        self.best = max(self.best, accuracy)
        if self.held >= train.stop.hold:
            self.reason = f"validation accuracy held {train.stop.accuracy:.2%}"
            return True
        if train.stop.plateau is not None and self.since_best >= train.stop.plateau:
            self.reason = f"no better validation accuracy in {train.stop.plateau} evaluations"
            return True
        return False

    def checkpoint_is_due(self) -> bool:
        return time.monotonic() - self._saved > CHECKPOINT_SECONDS * self._stretch

    def save(self, run: Run, model: LanguageModel, stepper: Stepper) -> None:
        started = time.monotonic()
        tensors, state = stepper.state()
        weights = {f"model.{name}": tensor for name, tensor in model.weights().items()}
        mine = {"held": self.held, "best": self.best, "since_best": self.since_best, "seconds": self.seconds}
        mine["training_seconds"] = self.training_before + stepper.seconds
        run.write_state(self.step, as_arrays(weights | tensors), {**state, "progress": mine})
        self._saved = time.monotonic()
        self._stretch = max(1.0, (self._saved - started) / _SAVING_SECONDS)

    @classmethod
    def resume(cls, run: Run, model: LanguageModel, stepper: Stepper) -> "Progress | None":
        found = run.read_state()
        if found is None:
            return None
        arrays, state = found
        weights = {name.removeprefix("model."): a for name, a in arrays.items() if name.startswith("model.")}
        load_arrays(model, weights, run.path.name)
        stepper.load_state(arrays, state)
        progress, mine = cls(), state["progress"]
        progress.step, progress.seconds_before = state["step"], mine["seconds"]
        progress.training_before = mine.get("training_seconds", 0.0)
        progress.held, progress.best, progress.since_best = mine["held"], mine["best"], mine["since_best"]
        return progress
