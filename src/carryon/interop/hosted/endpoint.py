"""A server that speaks OpenAI's protocol: the key, the client, and what its refusals and faults mean.

Everything a server says goes through `scrub`, so that the key is in no file, no line and no exception.
"""

import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from ...errors import BadConfig, MissingExtra, ServerRefused, did_you_mean
from .settings import KEY_VARIABLE, OPENAI, EndpointConfig

if TYPE_CHECKING:
    from openai import OpenAI

_LONGEST_REPLY = 32 * 2**20
"""Bytes; the longest scratchpads have a few million."""
_OUT_OF_MONEY = ("insufficient_quota", "billing", "credit_balance", "spend_limit", "usage_limit")
_FILTERED = ("content_filter", "content_policy_violation")


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
FaultKind = Literal["busy", "failing", "timeout", "unreachable", "cut", "half", "empty"]
"""half: it came with status 200, but is no answer; empty: an answer without a character."""


class Fault(Exception):
    """What may pass: the request can be sent again."""

    def __init__(
        self,
        words: str,
        kind: FaultKind,
        *,
        retry_after: float | None = None,
        reply: Reply | None = None,
    ) -> None:
        super().__init__(words)
        self.words, self.kind, self.retry_after, self.reply = words, kind, retry_after, reply

    @property
    def foreign(self) -> str:
        """What a server does that gives only half answers."""
        return f"answers, but not as OpenAI's protocol does ({self.words}): is --base-url right? It usually ends in /v1"

    @property
    def may_have_cost(self) -> bool:
        """The server may have worked for it, and count it."""
        return self.kind in ("timeout", "cut", "half", "empty")


class Endpoint:
    """One server, one key. Safe to use from many threads."""

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        self.key_variable = config.key_variable or KEY_VARIABLE
        given = "" if config.key_variable == "none" else os.environ.get(self.key_variable, "")
        self._key = given.strip() or None
        self._new_name_for_bound = False

    @cached_property
    def client(self) -> "OpenAI":
        config = self.config
        if self._key is None and config.key_variable not in (None, "none"):  # not repeated: it may be a key
            raise BadConfig(
                "--key-variable names an environment variable that is not set, or empty: "
                "put the key into it, or say --key-variable none to send none"
            )
        if self._key is not None and not all("!" <= character <= "~" for character in self._key):
            raise BadConfig(
                f"the key in {self.key_variable} has a space, a line break or a character that is not ASCII in it, "
                "as no key does: copy it again"
            )
        if self._key is None and config.base_url == OPENAI:
            raise BadConfig(
                f"{config.base_url} needs a key: put it into the environment variable {self.key_variable}, "
                "or name another server with --base-url"
            )
        if self._key is not None and config.key_variable is None and not config.is_private:
            raise BadConfig(
                f"the key in {KEY_VARIABLE} would go to {config.host} unencrypted: use https, or say --key-variable "
                f"{KEY_VARIABLE} to send it all the same, or --key-variable none to send none"
            )
        openai = import_openai()
        client: OpenAI = openai.OpenAI(
            api_key=self._key or "none",  # the client insists on one; servers without keys ignore it
            base_url=config.base_url,
            timeout=config.timeout,
            max_retries=0,  # retries are ours: they share one clock, one budget and one cap
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [_refuse_pages]}),
        )
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if "client" in vars(self):
            self.client.close()

    def scrub(self, text: str) -> str:
        """`text` without the key, should somebody have put it there."""
        return text.replace(self._key, "[key]") if self._key else text

    def ask(self, kind: str, body: dict[str, Any], extra: dict[str, Any]) -> Reply:
        """One request. Fault: it may be sent again; ServerRefused: there is no use."""
        try:
            return self._read(kind, *self._send(kind, body, extra))
        except ServerRefused as refusal:
            # What newer models call the bound on their answers; older servers know max_tokens alone.
            if self._new_name_for_bound or kind != "chat" or "max_completion_tokens" not in str(refusal):
                raise
            self._new_name_for_bound = True
            return self.ask(kind, body, extra)
        except Fault as fault:
            if fault.reply is not None and fault.reply.finish == "content_filter":
                return fault.reply  # final: asking again would be filtered again
            raise

    def _send(self, kind: str, body: dict[str, Any], extra: dict[str, Any]) -> tuple[bytes, str]:
        """What came, and what the server says it is."""
        if self._new_name_for_bound and "max_tokens" in body:
            body = dict(body)
            body["max_completion_tokens"] = body.pop("max_tokens")
        resource: Any = self.client.chat.completions if kind == "chat" else self.client.completions
        started = time.monotonic()
        content = bytearray()
        with (
            self.translated(str(body["model"])),
            resource.with_streaming_response.create(**body, extra_body=extra or None) as response,
        ):
            for chunk in response.iter_bytes():
                content += chunk
                # The client's timeout starts anew with every byte: a server that drips would never time out.
                if time.monotonic() - started > self.config.timeout:
                    raise Fault(f"no whole answer within {self.config.timeout:g} s", "timeout")
                if len(content) > _LONGEST_REPLY:
                    raise Fault(f"an answer of more than {_LONGEST_REPLY:,} bytes", "half")
            media_type = str(response.headers.get("content-type", ""))
        return bytes(content), media_type.partition(";")[0].strip()[:80]

    def _read(self, kind: str, content: bytes, media_type: str) -> Reply:
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            came = "broken JSON" if "json" in media_type else f"no JSON but {media_type or 'something without a type'}"
            raise Fault(self.scrub(came), "half") from None
        try:
            choice = answer["choices"][0]
            # Where a filter took the text, some servers leave the field out.
            text = dict(choice["message"]).get("content") if kind == "chat" else dict(choice).get("text")
        except (ValueError, KeyError, IndexError, TypeError):
            raise Fault(f"JSON without a {'message' if kind == 'chat' else 'choice'} in it", "half") from None
        usage = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
        finish, model = choice.get("finish_reason"), answer.get("model")
        reply = Reply(
            self.scrub(text) if isinstance(text, str) else "",
            finish if isinstance(finish, str) else None,
            _count(usage.get("prompt_tokens")),
            _count(usage.get("completion_tokens")),
            self.scrub(model) if isinstance(model, str) else None,
        )
        if not isinstance(text, str) and (text is not None or reply.finish in (None, "stop")):  # others say why
            raise Fault("an answer without text in it", "half", reply=reply)
        if reply.finish is None:
            raise Fault("a half answer: it does not say that it ended", "half", reply=reply)
        if not text and reply.finish == "stop":
            raise Fault("an empty answer", "empty", reply=reply)
        return reply

    @contextmanager
    def translated(self, model: str | None = None, what: str = "what was asked for") -> Iterator[None]:
        """What the client raises, as a Fault or a ServerRefused, in words of ours and the server's, without the key."""
        openai = import_openai()
        import httpx2

        try:
            yield
        except (openai.APITimeoutError, httpx2.TimeoutException):
            raise Fault(f"no answer within {self.config.timeout:g} s", "timeout") from None
        except openai.APIStatusError as error:
            raise self._of_status(error, model, what) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__
            if isinstance(cause, Fault):
                raise cause from None
            if isinstance(cause, httpx2.ConnectError | httpx2.UnsupportedProtocol):
                raise Fault(self.scrub(f"{self.config.base_url} cannot be reached ({cause})"), "unreachable") from None
            raise Fault("the connection was cut", "cut") from None
        except httpx2.TransportError:
            raise Fault("the connection was cut", "cut") from None
        except (
            openai.APIResponseValidationError,
            httpx2.DecodingError,
            json.JSONDecodeError,
            UnicodeDecodeError,
        ):
            raise Fault("a half answer: it is not JSON", "half") from None

    def _of_status(self, error: Any, model: str | None, what: str) -> Exception:
        status, words = int(error.status_code), self._words(error)
        code = f"{getattr(error, 'code', None)} {getattr(error, 'type', None)}"
        said = f"{status}: {words}" if words else str(status)
        where = self.config.base_url
        if status in (401, 403):
            # The server's own words are left out: some repeat the key, or part of it.
            given = f"the key in {self.key_variable}" if self._key else f"a request without a key ({self.key_variable})"
            return ServerRefused(f"{where} refuses {given} ({status}): check it, and that it belongs to this server")
        if status == 402 or (status == 429 and any(mark in code for mark in _OUT_OF_MONEY)):
            return ServerRefused(f"{where} says that the money is spent ({said}): waiting would not help")
        if status == 404:
            return ServerRefused(
                f"{where} does not know {f'the model {model!r}' if model else what} ({said})"
                f"{self._models(model)}; --base-url usually ends in /v1"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            kind: FaultKind = "busy" if status in (429, 503) else "timeout" if status == 504 else "failing"
            return Fault(said, kind, retry_after=_wait_of(error))
        if any(mark in code for mark in _FILTERED):
            return Fault(said, "half", reply=Reply("", "content_filter", None, None, None))
        return ServerRefused(f"{where} cannot use the request ({said})")

    def _words(self, error: Any) -> str:
        """What the server says, in one short line."""
        body = error.body
        for name in ("error", "message", "detail"):
            if isinstance(body, dict) and name in body:
                body = body[name]
        if not isinstance(body, str):
            body = "" if body is None else json.dumps(body, default=str)
        return self.scrub(" ".join(body.split()))[:300]

    def _models(self, wanted: str | None) -> str:
        """Which models there are, if the server tells."""
        if wanted is None:
            return ""
        try:
            names = sorted(str(model.id) for model in self.client.with_options(timeout=10).models.list().data)
        except Exception:  # this only makes an error clearer: no second one in its place
            return ""
        listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        return self.scrub(f"{did_you_mean(wanted, names)}; it has {listed or 'none'}")


def import_openai() -> Any:
    try:
        import openai
    except ImportError:
        raise MissingExtra("hosted models need the package openai: pip install 'carryon[llm]'") from None
    return openai


def _refuse_pages(response: Any) -> None:
    """What is no JSON, such as a page in HTML, the client would take for a job, a file or a list of them.

    Completions are read by us, whatever they are called.
    """
    media_type = str(response.headers.get("content-type", "")).partition(";")[0].strip()[:80]
    if response.is_success and "json" not in media_type and not response.url.path.endswith("completions"):
        raise Fault(f"no JSON but {media_type or 'something without a type'}", "half")


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _wait_of(error: Any) -> float | None:
    """Seconds that the server asks to wait."""
    headers = error.response.headers
    for name, unit in (("retry-after-ms", 1_000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
