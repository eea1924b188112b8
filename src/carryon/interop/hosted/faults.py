"""What comes back from a server: an answer, or what went wrong on the way to one."""

from dataclasses import dataclass
from typing import Literal

from ...errors import ServerRefused


@dataclass(frozen=True)
class Reply:
    """An answer as it came."""

    text: str
    finish: str | None
    """Why the model stopped, as the server says: stop, length, content_filter, …"""
    input_tokens: int | None
    output_tokens: int | None
    model: str | None


HALF_RETRIES = 2
"""So often is asked again for a half answer: a server that gives no other does not speak the protocol."""
FaultKind = Literal["busy", "failing", "timeout", "unreachable", "cut", "half", "empty", "unusable"]
"""half: it came with status 200, but is no answer; empty: an answer without a character; unusable: this one request."""


class Fault(Exception):
    """What may pass: the request can be sent again."""

    def __init__(
        self,
        words: str,
        kind: FaultKind,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        reply: Reply | None = None,
    ) -> None:
        super().__init__(words)
        self.words, self.kind, self.status, self.retry_after, self.reply = words, kind, status, retry_after, reply

    @property
    def foreign(self) -> str:
        """What a server does that gives only half answers."""
        return f"answers, but not as OpenAI's protocol does ({self.words}): is --base-url right? It usually ends in /v1"

    @property
    def may_have_cost(self) -> bool:
        """The server may have worked for it, and count it."""
        return self.kind in ("timeout", "cut", "half", "empty")

    @property
    def may_have_arrived(self) -> bool:
        """The server may have done what it was asked to, or be at it still."""
        return self.kind != "unreachable" and self.status != 429


class Unusable(ServerRefused):
    """A request that the server cannot use (400, 413, 422): this one alone, perhaps, for what its prompt says."""

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said
