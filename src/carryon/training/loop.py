"""The training loop, as a table of contents.

A run is a function of its config: batches come from (seed, step) and dropout is seeded by (seed, step), so that a run
that was killed and resumed goes through the same steps as one that was not.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from ..config import PretrainedConfig, RunConfig, TrainConfig
from ..data import SPLITS, Dataset, characters_of, make_dataset
from ..devices import describe_device
from ..errors import BadRun, CarryonError
from ..evaluation import describe
from ..model import LanguageModel
from ..origin import origin
from ..pretrained import find_pretrained
from ..runs import Run, as_arrays
from ..tokenizers import Characters, Tokenizer
from .asking import check_lengths, make_exam, read_questions
from .display import Display, Silent
from .feeds import make_feed
from .loading import build_model, load_weights, tokenizer_of
from .progress import Progress
from .stepper import Stepper, lr_at
from .team import Team, clean_stop, processes
from .watching import Watch, main_number


class Interrupted(BadRun):
    """Somebody asked to stop; everything is saved."""


def train(
    config: RunConfig,
    root: Path = Path("runs"),
    *,
    device: str = "auto",
    compile: str = "auto",
    display: Display | None = None,
    parent: Run | None = None,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """Train what a config describes, or go on where it stopped. Returns the finished run.

    Once `stop` says so, it saves its state and raises Interrupted, as it does on Ctrl-C.
    """
    display = display or Silent()
    with processes(device) as team:
        is_new = not (root / config.folder).exists()
        run = Run.start(root, config)
        if run.is_done:
            return run
        with run.locked() if team.is_first else nullcontext(), clean_stop() as stopping:
            started = time.monotonic()
            with or_nothing(run, is_new and team.is_first):
                parts = [make_dataset(data, config.seed) for data in config.parts]
                tokenizer = tokenizer_of(config, texts_of(config, parts))
                model = build_model(config, tokenizer, team.device)
                check_lengths(config, parts, model, tokenizer)
                if parent is not None:
                    load_weights(model, config, tokenizer, parent)
                feed = make_feed(config, parts, tokenizer, team)
                stepper = Stepper(config, model, feed, team, compile, display)
                progress = Progress.resume(run, model, stepper) or Progress()
                watch = Watch(config, parts, tokenizer, model, stepper.precision)
            if team.is_first:
                run.write_origin(origin(**torch_here(team.device), **_pretrained_here(config)))
                run.forget_metrics_from(progress.step)
                if in_text := count_tests_in_text(config, parts):
                    display.say(f"{in_text:,} test problems occur in the text: they are not unseen")
                if watch.shortest > model.context:
                    display.say(
                        f"a problem with its answer takes {watch.shortest:,} tokens or more, model.context is "
                        f"{model.context:,}: no answer can be right"
                    )
                elif watch.shortest > config.window:
                    display.say(
                        f"a problem with its answer takes {watch.shortest:,} tokens or more, train.window is "
                        f"{config.window:,}: training never shows a whole one"
                    )

            def look() -> dict[str, Any]:
                with or_nothing(run, is_new and not progress.step):
                    return watch.look(progress, stepper)

            def asked_to_stop() -> bool:
                return stopping() or (stop is not None and stop())

            learner = Learner(run, model, stepper, progress)
            take_steps(learner, Stretch(config.train, look), team, display, asked_to_stop)

            if team.is_first:
                try:
                    stopping.from_now_on_at_once()
                    stepper.finish()
                    finish(run, config, progress, parts, tokenizer, model, stepper, time.monotonic() - started, display)
                except KeyboardInterrupt:
                    learner.save()
                    raise Interrupted("stopped while it was evaluated; the same command goes on from there") from None
        team.wait()
    return run


@dataclass(frozen=True)
class Stretch:
    """Steps that go by one schedule, and what is asked on the way."""

    train: TrainConfig
    look: Callable[[], dict[str, Any]]
    """Makes a row of metrics, of the step that was reached."""
    start: int = 0
    """The step it begins with."""
    of: int | None = None
    """How many steps there are in all, if others follow."""

    @property
    def end(self) -> int:
        return self.start + self.train.steps

    def asks_at(self, step: int) -> bool:
        """At its end, too; not where it goes on from another, whose end that was."""
        done = step - self.start
        return step == self.end or (done % self.train.eval_every == 0 and (done > 0 or step == 0))

    def lr_at(self, step: int) -> float:
        return lr_at(step - self.start, self.train)


@dataclass(frozen=True)
class Learner:
    """A model that learns: the run it is kept in, what takes its steps, and where it stands."""

    run: Run
    model: LanguageModel
    stepper: Stepper
    progress: Progress

    def save(self) -> None:
        self.progress.save(self.run, self.model, self.stepper)


def take_steps(learner: Learner, stretch: Stretch, team: Team, display: Display, stop: Callable[[], bool]) -> None:
    """All steps of a stretch that are left, or as many as it takes to stop early.

    Once `stop` says so, it saves its state and raises Interrupted.
    """
    stepper, progress = learner.stepper, learner.progress
    while True:
        if stretch.asks_at(progress.step):
            row = stretch.look() if team.is_first else {}
            if team.is_first:
                _check_loss(row)
                learner.run.log(row)
                display.evaluated(row)
            progress.stopped = team.agree(progress.judge(row, stretch.train))
        if progress.step == stretch.end or progress.stopped:
            return
        lr = stretch.lr_at(progress.step)
        stepper.take(progress.step, lr)
        progress.step += 1
        display.step(progress.step, stretch.of or stretch.end, lr, stepper.tokens_per_second, stepper.loss)
        halt = stop()
        if team.agree(halt or progress.checkpoint_is_due()):
            if team.is_first:
                learner.save()
            if team.agree(halt):
                raise Interrupted(f"stopped at step {progress.step:,}; the same command goes on from there")


@contextmanager
def or_nothing(run: Run, is_new: bool) -> Iterator[None]:
    """What cannot begin leaves nothing behind."""
    try:
        yield
    except CarryonError:
        if is_new:
            run.discard()
        raise


def count_tests_in_text(config: RunConfig, parts: Sequence[Dataset]) -> int:
    """How many test problems the text that is trained on has, too."""
    asked = read_questions(config.text)
    return sum(problem.question in asked for part in parts for problem in part.problems("test")) if asked else 0


def _check_loss(row: Mapping[str, Any]) -> None:
    """A run whose loss is no number learns nothing more: better to say so than to go on to the end."""
    if row["loss"] is not None and not math.isfinite(row["loss"]):
        raise BadRun(f"the loss is {row['loss']} at step {row['step']:,}: lower train.lr, or raise train.warmup_steps")


def texts_of(config: RunConfig, parts: Sequence[Dataset]) -> Iterator[str]:
    """What a vocabulary of characters is made of: enough examples to have met every character."""
    if config.tokenizer != "characters":
        return
    if config.text is not None:
        yield characters_of(config.text)
    for part in parts:
        yield part.format.alphabet
        for split in SPLITS:
            for example in islice(part.examples(split), 20_000):
                yield example.text


def finish(
    run: Run,
    config: RunConfig,
    progress: Progress,
    parts: Sequence[Dataset],
    tokenizer: Tokenizer,
    model: LanguageModel,
    stepper: Stepper,
    seconds: float,
    display: Display,
) -> None:
    """Weights, planned evaluations, result; the result last."""
    vocabulary = tokenizer.vocabulary if isinstance(tokenizer, Characters) else None
    run.write_model(as_arrays(model.weights()), vocabulary)
    results = {}
    for question in config.evaluations:
        display.say(f"evaluating: {describe(question)}")
        started = time.monotonic()
        exam = make_exam(question, parts, model, tokenizer, stepper.precision, run=config)
        result, _ = exam.ask(tick=lambda done: display.say(f"  {done:,} asked"))
        result |= {"config": question.model_dump(mode="json"), "seconds": round(time.monotonic() - started, 3)}
        run.write_evaluation(question.hash, result)
        results[question.hash] = result
    run.write_result(
        {
            "steps": progress.step,
            "stopped": progress.reason,
            "seconds": round(progress.seconds, 3),
            "training_seconds": round(progress.training_before + stepper.seconds, 3),
            "command_seconds": round(seconds, 3),
            "parameters": model.num_parameters,
            **({"trained_parameters": model.num_trained} if model.num_trained != model.num_parameters else {}),
            "trained_on": examples_read(config, progress.step) or sum(part.size("train") for part in parts),
            **({"test_problems_in_text": count_tests_in_text(config, parts)} if config.text is not None else {}),
            "device": describe_device(next(model.parameters()).device),
            "evaluations": {name: main_number(result) for name, result in results.items()},
        }
    )
    run.drop_state()


def examples_read(config: RunConfig, steps: int) -> int:
    """How many there were of new examples for ever, a row each; 0: of a set, or of windows, which are no examples."""
    train = config.train
    return steps * train.batch_size if train.endless and train.packing == "rows" else 0


def torch_here(device: torch.device) -> dict[str, Any]:
    return {"torch": torch.__version__, "device": describe_device(device), "threads": torch.get_num_threads()}


def _pretrained_here(config: RunConfig) -> dict[str, Any]:
    """What another's model was, and what ran it."""
    if not isinstance(config.model, PretrainedConfig):
        return {}
    card = find_pretrained(config.model.pretrained).card
    return {
        "pretrained": {key: card[key] for key in ("what", "licence", "source", "digest") if key in card},
        "transformers": version("transformers"),
        **({"peft": version("peft")} if config.model.lora is not None else {}),
    }
