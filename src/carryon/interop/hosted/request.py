"""From a prompt to what is sent, and from what came to a completion that a format can read."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from ...formats import Example, Format
from .answers import Answer, has_ended
from .costs import PER_MESSAGE, most_tokens
from .settings import RequestConfig


class Request:
    """All that the requests of an evaluation share."""

    def __init__(
        self, config: RequestConfig, format: Format, examples: Sequence[Example], shots: Sequence[tuple[str, str]] = ()
    ) -> None:
        """`examples`: the problems asked, rightly answered; `shots`: examples shown in front of every prompt."""
        self.config, self._format, self._shots = config, format, tuple(shots)
        longest = max(len(example.completion) for example in examples)
        # A character is at most a token, digits between spaces are half of one: room for answers that go astray.
        self.bound = config.max_tokens or longest + longest // 4 + 8
        first = examples[0].completion
        self._lead = first[: len(first) - len(first.lstrip())]
        self.stop = self._stop_of(examples) if config.send_stop and config.answer_after is None else None

    def _stop_of(self, examples: Sequence[Example]) -> str | None:
        """The end mark, unless it occurs before the end: newlines do in scratchpads."""
        end = self._format.end
        texts = (example.completion for example in examples[:100])
        return end if all(self._format.finished(text[: text.find(end) + len(end)]) for text in texts) else None

    @property
    def shown(self) -> list[str]:
        """Texts that come with every prompt."""
        return [text for text in (self.config.instruction, *(part for shot in self._shots for part in shot)) if text]

    @property
    def num_messages(self) -> int:
        return 1 + len(self.shown) if self.config.kind == "chat" else 0

    def asked(self, prompt: str) -> dict[str, Any]:
        """The prompt with all that stands in front of it: `messages` of a chat, or `prompt`."""
        config = self.config
        if config.kind != "chat":
            return {"prompt": config.instruction + "".join(q + a for q, a in self._shots) + prompt}
        messages = [{"role": "system", "content": config.instruction}] if config.instruction else []
        for question, answer in self._shots:
            messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return {"messages": [*messages, {"role": "user", "content": prompt}]}

    def body(self, prompt: str) -> dict[str, Any]:
        config = self.config
        body = {"model": config.model, **self.asked(prompt), "max_tokens": self.bound}
        for name in ("temperature", "top_p", "seed"):
            if (value := getattr(config, name)) is not None:
                body[name] = value
        if self.stop is not None:
            body["stop"] = [self.stop]
        return body

    def key(self, base_url: str, prompt: str) -> str:
        """The hash of all that is asked, and of whom.

        A bound that nobody chose is left out: it follows from the other problems asked, of which there may be more or
        fewer the next time, and has room for the right answer in any case.
        """
        body = self.body(prompt)
        if self.config.max_tokens is None:
            del body["max_tokens"]
        return self._hash(base_url, body)

    def earlier_key(self, base_url: str, prompt: str) -> str:
        """The key as files have it that were begun when every bound was part of it."""
        return self._hash(base_url, self.body(prompt))

    def _hash(self, base_url: str, body: dict[str, Any]) -> str:
        asked = {"base_url": base_url, "kind": self.config.kind, "body": body, "extra": self.config.body}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]

    def most_input_tokens(self, prompt: str) -> int:
        """Whatever the tokenizer, a prompt has no more of them."""
        return sum(map(most_tokens, self.shown)) + most_tokens(prompt) + PER_MESSAGE * self.num_messages

    def completion(self, answer: Answer | None) -> str:
        """What came, as the format would have it.

        Servers cut the stop sequence off, so that it is put back where they say that the model came to its end. Chat
        templates trim messages, so that the white space around a chat's answer is the format's, not the model's.
        """
        text = "" if answer is None else answer.text
        if self.config.answer_after is not None:
            text = text.rpartition(self.config.answer_after)[2] if self.config.answer_after in text else ""
        if self.config.kind == "chat":
            text = self._lead + text.strip()
        if answer is not None and has_ended(answer.finish) and not self._format.finished(text):
            text += self._format.end
        return text
