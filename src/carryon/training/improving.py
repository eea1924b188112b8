"""Self-improvement: a model labels problems longer than any it was taught, and learns from its own labels.

    base      1 to 4 digits, true answers
    round 1   it labels problems of 5 digits, then trains on them, half and half with the base's
    round 2   it labels problems of 6 digits, then trains on them, half and half with the base's and those of 5
    …

After Lee et al., 2025 (arXiv 2502.01612). As training, it is a function of its config: labels come from the weights
that a round began with, batches from (seed, step), so that one that was killed ends as one that was not.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from ..config import DataConfig, EvaluationConfig, ImprovementConfig, RunConfig
from ..data import Dataset, Fresh, Rows, Shares, domain_of, draw_held_out, make_dataset, make_rows, stack_rows
from ..devices import describe_device
from ..errors import BadConfig, BadRun, Unsupported
from ..formats import Example, Texts
from ..operations import Pairs, Problems
from ..origin import origin
from ..runs import Run, as_arrays
from ..tokenizers import Characters, Tokenizer
from .asking import Exam
from .display import Display, Silent
from .feeds import RowFeed, make_feed
from .labelling import label
from .loading import build_model, tokenizer_of
from .loop import Interrupted, Learner, Stretch, or_nothing, take_steps, texts_of, torch_here
from .progress import Progress
from .stepper import Stepper, lr_at
from .team import Team, clean_stop, processes
from .watching import Watch

Stop = Callable[[], bool]


def improve(
    config: ImprovementConfig,
    root: Path = Path("runs"),
    *,
    device: str = "auto",
    compile: str = "auto",
    display: Display | None = None,
    stop: Stop | None = None,
) -> Run:
    """Train the base and go through the rounds, or go on where that stopped. Returns the finished run.

    Once `stop` says so, it saves its state and raises Interrupted, as it does on Ctrl-C.
    """
    display = display or Silent()
    with processes(device) as team:
        if team.size > 1:
            raise Unsupported(f"self-improvement runs in one process, not in {team.size}: leave torchrun out")
        is_new = not (root / config.folder).exists()
        run = Run.start(root, config)
        if run.is_done:
            return run
        with run.locked(), clean_stop() as stopping:
            started = time.monotonic()

            def asked_to_stop() -> bool:
                return stopping() or (stop is not None and stop())

            with or_nothing(run, is_new):
                improvement = Improvement(config, run, team, compile, display, asked_to_stop)
            run.write_origin(origin(**torch_here(team.device)))
            improvement.learn_the_base(is_new)
            reason = improvement.go_through_the_rounds()
            try:
                stopping.from_now_on_at_once()
                improvement.finish(reason, started)
            except KeyboardInterrupt:
                improvement.save()
                raise Interrupted("stopped while it was evaluated; the same command goes on from there") from None
    return run


class Improvement:
    """A model, or several that vote, and what they have labelled."""

    def __init__(
        self, config: ImprovementConfig, run: Run, team: Team, compile: str, display: Display, stop: Stop
    ) -> None:
        self._config, self._run, self._team, self._display, self._stop = config, run, team, display, stop
        base = config.learner()
        self._dataset = make_dataset(base.data, base.seed)
        self._tokenizer = tokenizer_of(base, texts_of(base, [self._dataset]))
        longest = self._longest_example()
        self._pupils = []
        for number in range(config.filters.votes):
            its_config = config.learner(number)
            its_run = run if number == 0 else run.of_voter(number, its_config)
            self._pupils.append(Pupil(its_config, its_run, self._dataset, self._tokenizer, team, compile, display))
        # Now, and not in the last round: that it has ids for so many digits.
        tokens_1T = torch.from_numpy(self._tokenizer.encode(longest.text).astype("int64")).unsqueeze(0)
        self._pupils[0].learner.model.check(tokens_1T.to(team.device))
        self._to_label(config.lengths[0])

    def save(self) -> None:
        for pupil in self._pupils:
            pupil.learner.save()

    # --- learning ---------------------------------------------------------------------------------------------------

    def learn_the_base(self, is_new: bool) -> None:
        for pupil in self._pupils:

            def look(pupil: Pupil = pupil) -> dict[str, Any]:
                with or_nothing(self._run, is_new and not pupil.step):
                    return pupil.watch.look(pupil.learner.progress, pupil.learner.stepper)

            self._teach(pupil, Stretch(self._config.base.train, look, of=self._config.steps))

    def go_through_the_rounds(self) -> str:
        """Why that ended."""
        sets: list[Rows] = []
        for number, digits in enumerate(self._config.lengths, start=1):
            pairs, record = self._labels_of(number, digits)
            if not pairs:
                return f"no label of {digits}-digit problems was kept"
            sets.append(make_rows(Texts.of(pairs), self._tokenizer))
            for pupil in self._pupils:
                self._learn_round(number, pupil, sets, record)
        return "all rounds done"

    def _learn_round(self, number: int, pupil: "Pupil", sets: list[Rows], record: dict[str, Any]) -> None:
        train, config = self._config.round_train, self._config

        def look() -> dict[str, Any]:
            stepper, data = pupil.learner.stepper, config.data_of(record["digits"])
            row = {"step": pupil.step, "seconds": 0.0, "lr": lr_at(train.steps, train), "loss": stepper.mean_loss()}
            with stepper.as_asked():
                row["validation"] = pupil.accuracy(held_out(data, "validation"), data)
            return {**row, "seconds": round(pupil.learner.progress.seconds, 3), **record}

        stretch = Stretch(train, look, start=config.steps_before(number), of=config.steps)
        if stretch.start <= pupil.step < stretch.end:
            rows = [*sets, pupil.base_rows(number)]
            weights = shares_of(len(sets), config.base.data.digits, config.rounds.newest)
            sizes = [len(part.tokens_BT) for part in rows]
            order = Shares(list(zip(sizes, weights, strict=True)), "round", pupil.config.seed, number)
            feed = RowFeed(stack_rows(rows), order, pupil.config, self._team, first_step=stretch.start)
            pupil.learner.stepper.turn_to(feed)
        self._teach(pupil, stretch)

    def _teach(self, pupil: "Pupil", stretch: Stretch) -> None:
        """What it has behind it, it is not taught again."""
        if pupil.step > stretch.end:
            return
        if len(self._pupils) > 1:
            self._display.say(f"model {self._pupils.index(pupil) + 1} of {len(self._pupils)}")
        take_steps(pupil.learner, stretch, self._team, self._display, self._stop)

    # --- labelling --------------------------------------------------------------------------------------------------

    def _labels_of(self, number: int, digits: int) -> tuple[list[tuple[str, str]], dict[str, Any]]:
        """The labels of a round, and what became of the others: as they were written down, or new ones."""
        if found := self._run.read_labels(number):
            return found
        start = self._config.steps_before(number)
        if any(pupil.step != start for pupil in self._pupils):
            raise BadRun(
                f"the labels of round {number} in {self._run.path} are lost or damaged, and the model has changed "
                "since: delete the folder to start again"
            )
        dataset = self._to_label(digits)
        self._display.say(f"round {number}: labelling {dataset.size('train'):,} problems of {digits} digits")
        started = time.monotonic()
        learners = [pupil.learner for pupil in self._pupils]
        models, precision = [learner.model for learner in learners], learners[0].stepper.precision
        with ExitStack() as stack:
            for learner in learners:
                stack.enter_context(learner.stepper.as_asked())
            pairs, counts, true = label(dataset, models, self._tokenizer, self._config.filters, precision, self._tick)
        record = {
            "round": number,
            "digits": digits,
            **counts,
            "labels_true": true / len(pairs) if pairs else None,
            "labelling_seconds": round(time.monotonic() - started, 3),
        }
        self._run.write_labels(number, pairs, record)
        return pairs, record

    def _tick(self, done: int) -> None:
        if self._stop():
            self.save()
            raise Interrupted(f"stopped after {done:,} labels of a round; the same command begins the round again")

    # --- problems ---------------------------------------------------------------------------------------------------

    def _to_label(self, digits: int) -> Dataset:
        """Its training problems."""
        return make_dataset(self._config.data_of(digits), self._config.seed)

    def _tests_of(self, digits: int) -> Problems:
        """Test problems whose operands have both so many digits; the base's own where it was taught such problems."""
        if digits > self._config.base.data.digits:
            return held_out(self._config.data_of(digits), "test")
        tests = self._dataset.problems("test")
        assert isinstance(tests.domain, Pairs)
        first, second = tests.domain.lengths(tests.codes)
        return Problems(tests.operation, tests.domain, tests.codes[(first == digits) & (second == digits)])

    def _longest_example(self) -> Example:
        """It has to fit the model."""
        digits, operation = max(self._config.longest, *self._config.asked), self._dataset.splits.operation
        highest = str(operation.base - 1) * digits
        example = self._dataset.format.write(operation.problem(highest, highest))
        tokens, context = len(self._tokenizer.encode(example.text)), self._config.base.model.context
        if tokens > context:
            raise BadConfig(
                f"problems of {digits} digits take {tokens} tokens with their answers, base.model.context is "
                f"{context}: set it to {tokens}"
            )
        return example

    # --- the end ----------------------------------------------------------------------------------------------------

    def finish(self, reason: str, started: float) -> None:
        """Weights, the diagonal, result; the result last."""
        first, run = self._pupils[0], self._run
        learner = first.learner
        learner.stepper.finish()
        vocabulary = self._tokenizer.vocabulary if isinstance(self._tokenizer, Characters) else None
        run.write_model(as_arrays(learner.model.weights()), vocabulary)
        diagonal: dict[str, float | None] = {}
        for digits in self._config.asked:
            problems = self._tests_of(digits)
            self._display.say(f"asking {len(problems):,} problems of {digits} digits")
            diagonal[str(digits)] = first.accuracy(problems, self._config.data_of(digits))
        rounds = [row for row in run.metrics() if "round" in row]
        training = sum(p.learner.progress.training_before + p.learner.stepper.seconds for p in self._pupils)
        run.write_result(
            {
                "steps": first.step,
                "stopped": reason,
                "seconds": round(learner.progress.seconds, 3),
                "training_seconds": round(training, 3),
                "command_seconds": round(time.monotonic() - started, 3),
                "parameters": learner.model.num_parameters,
                "trained_on": self._dataset.size("train") + sum(row["long_enough"] for row in rounds),
                "device": describe_device(self._team.device),
                "rounds": rounds,
                "diagonal": diagonal,
                **{f"reaches_{round(100 * least)}": reached(diagonal, least) for least in (0.99, 0.5)},
                "evaluations": {},
            }
        )
        for pupil in self._pupils:
            pupil.learner.run.drop_state()


class Pupil:
    """One of the models."""

    def __init__(
        self,
        config: RunConfig,
        run: Run,
        dataset: Dataset,
        tokenizer: Tokenizer,
        team: Team,
        compile: str,
        display: Display,
    ) -> None:
        self.config, self._tokenizer, self._dataset = config, tokenizer, dataset
        model = build_model(config, tokenizer, team.device)
        stepper = Stepper(config, model, make_feed(config, [dataset], tokenizer, team), team, compile, display)
        self.learner = Learner(run, model, stepper, Progress.resume(run, model, stepper) or Progress())
        self.watch = Watch(config, [dataset], tokenizer, model, stepper.precision)
        self._fresh = Fresh(config.data, config.seed)
        run.forget_metrics_from(self.step)

    @property
    def step(self) -> int:
        return self.learner.progress.step

    def base_rows(self, number: int) -> Rows:
        """The base's problems for a round: none that it was taught before the rounds, but for chance."""
        train, size = self.config.train, self.config.data.num_examples
        blocks = -(-train.steps * train.batch_size // size) + number - 1
        return make_rows(self._fresh.take(size, start=blocks * size), self._tokenizer)

    def accuracy(self, problems: Problems, data: DataConfig) -> float | None:
        """How many of them it gets right, written out; None where there are none."""
        learner = self.learner
        question = EvaluationConfig(data=data)
        exam = Exam(
            question, [self._dataset], learner.model, self._tokenizer, learner.stepper.precision, problems=problems
        )
        found: float | None = exam.ask_briefly()["accuracy"]
        return found


def held_out(data: DataConfig, split: str) -> Problems:
    """Test or validation problems, which are never labelled."""
    return Problems(*domain_of(data), getattr(draw_held_out(data), split))


def shares_of(labelled: int, base_lengths: int, newest: float) -> list[float]:
    """Which part of a batch comes from each set of labels, the oldest first, and from the base.

        shares_of(3, base_lengths=4, newest=0.5) == [1/12, 1/12, 1/2, 1/3]

    What the newest leave is shared by the older, one part each, and the base, a part for each of its lengths.
    """
    part = (1 - newest) / (base_lengths + labelled - 1)
    return [*[part] * (labelled - 1), newest, part * base_lengths]


def reached(diagonal: dict[str, float | None], least: float) -> int | None:
    """The longest length up to which every one that was asked has at least this accuracy; None where there is none."""
    longest = None
    for digits, accuracy in sorted(diagonal.items(), key=lambda item: int(item[0])):
        if accuracy is not None and accuracy < least:
            break
        longest = longest if accuracy is None else int(digits)
    return longest
