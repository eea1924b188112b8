"""Test problems put to a hosted model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...errors import BadInput
from ...evaluation import Report, make_sheets, score
from ...formats import Format
from ...operations import Problem
from .answers import Answers
from .asking import Asker
from .costs import PER_MESSAGE, Estimate, TokenCount, estimate
from .endpoint import Endpoint
from .request import Request
from .settings import LimitsConfig, RequestConfig


class HostedExam:
    """A question made ready for a hosted model.

    exam = HostedExam(Endpoint(EndpointConfig(base_url=…)), RequestConfig(model=…), problems, format, Path("a.jsonl"))
    print(exam.estimate().in_words())
    result, report = exam.ask()
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: RequestConfig,
        problems: Sequence[Problem],
        format: Format,
        answers: Path,
        *,
        limits: LimitsConfig | None = None,
        shots: Sequence[tuple[str, str]] = (),
        unanswered_are_wrong: bool = False,
    ) -> None:
        """`shots`: prompts and completions shown in front of every problem."""
        if not len(problems):
            raise BadInput("there are no problems to ask")
        self._endpoint, self._format, self._limits = endpoint, format, limits or LimitsConfig()
        self._sheets = list(make_sheets(problems, format))
        self._examples = [example for sheet in self._sheets for example in sheet.examples]
        self._request = Request(config, format, self._examples, shots)
        url, prompts = endpoint.config.base_url, [example.prompt for example in self._examples]
        self._keys = [self._request.key(url, prompt) for prompt in prompts]
        earlier = (self._request.earlier_key(url, prompt) for prompt in prompts)
        self._answers = Answers(answers, dict(zip(earlier, self._keys, strict=True)))
        self._unanswered_are_wrong = unanswered_are_wrong

    def __len__(self) -> int:
        return len(self._examples)

    @property
    def max_tokens(self) -> int:
        return self._request.bound

    @property
    def torn(self) -> int:
        """Lines of the answers' file that cannot be read, such as one that a kill tore: they are asked again."""
        return self._answers.torn

    def estimate(self) -> Estimate:
        """What is still to be asked, and what it would take. Sends nothing."""
        known = self._answers.known
        rest = {
            key: example for key, example in zip(self._keys, self._examples, strict=True) if key not in known
        }.values()
        count = TokenCount()
        shared = sum(map(count, self._request.shown)) + PER_MESSAGE * self._request.num_messages
        answered = sum(key in known for key in self._keys)
        return estimate(
            [example.prompt for example in rest],
            [example.completion for example in rest],
            self._request.bound,
            self._limits,
            (len(self), answered),
            shared,
        )

    def ask(
        self, tick: Callable[[int], None] | None = None, tell: Callable[[str], None] | None = None
    ) -> tuple[dict[str, Any], Report]:
        """What is stored of the answer, and the full report.

        `tick` is told how many problems are answered, `tell` of faults that will be tried again.
        """
        asker = Asker(
            self._endpoint,
            self._request,
            self._limits,
            self._answers,
            unanswered_are_wrong=self._unanswered_are_wrong,
            tick=tick,
            tell=tell,
        )
        report = score(self._sheets, asker)
        report.failures = [row | self._request.asked(row["prompt"]) for row in report.failures]
        known = [self._answers.known[key] for key in self._keys if key in self._answers.known]
        requests, *tokens = self._answers.spent(self._keys)
        counts = {
            "endpoint": self._endpoint.config.base_url,
            "model": self._request.config.model,
            "kind": self._request.config.kind,
            "max_tokens": self._request.bound,
            "asked_now": asker.requests,
            "requests": requests,
            "input_tokens": tokens[0],
            "output_tokens": tokens[1],
            "uncounted": self._answers.uncounted(self._keys),
            "cost": self._limits.cost(tokens[0], tokens[1]),
            "cut_short": sum(answer.was_cut for answer in known),
            "filtered": sum(answer.was_filtered for answer in known),
            "unanswered": len(self._keys) - len(known),
            "answers": str(self._answers.path),
        }
        return report.as_dict() | counts, report
