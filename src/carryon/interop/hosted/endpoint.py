"""A server that speaks OpenAI's protocol: the key, the client, and what its refusals and faults mean.

Everything a server says is cleaned where it enters, so that the key is in no file, no line and no exception.
"""

import json
import math
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from ...errors import BadConfig, MissingExtra, ServerRefused, did_you_mean
from .answers import count_of, has_ended
from .faults import Fault, FaultKind, Reply, Unusable
from .settings import KEY_VARIABLE, OPENAI, EndpointConfig
from .wire import make_client

if TYPE_CHECKING:
    from openai import OpenAI

_OUT_OF_MONEY = ("insufficient_quota", "billing", "credit_balance", "spend_limit", "usage_limit")
_FILTERED = ("content_filter", "content_policy_violation")


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
            http_client=make_client(openai.DefaultHttpxClient),
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
        """One request. Fault: it may be sent again; Unusable: not with this prompt; ServerRefused: there is no use."""
        if self._new_name_for_bound and "max_tokens" in body:
            body = dict(body)
            body["max_completion_tokens"] = body.pop("max_tokens")

        def create(client: "OpenAI") -> Any:
            resource: Any = client.chat.completions if kind == "chat" else client.completions
            return resource.with_raw_response.create(**body, extra_body=extra or None)

        try:
            return _read(kind, self.call(create, "choices", model=str(body["model"])))
        except ServerRefused as refusal:
            # What newer models call the bound on their answers; older servers know max_tokens alone.
            if "max_tokens" not in body or kind != "chat" or "max_completion_tokens" not in str(refusal):
                raise
            self._new_name_for_bound = True
            return self.ask(kind, body, extra)
        except Fault as fault:
            if fault.reply is not None and fault.reply.finish == "content_filter":
                return fault.reply  # final: asking again would be filtered again
            raise

    def call(
        self, request: "Callable[[OpenAI], Any]", has: str, *, model: str | None = None, what: str | None = None
    ) -> dict[str, Any]:
        """The JSON object that the server answers, which has the field `has`, by a raw request of the client's.

        What goes wrong is a Fault or a ServerRefused, in words of ours and the server's; `model` and `what` say what it
        is that a 404 does not know. Neither the key nor a broken character is in anything that comes from here.
        """
        openai = import_openai()
        try:
            response = request(self.client).http_response
        except openai.APIStatusError as error:
            raise self._meaning(error.response.status_code, error.response, model, what) from None
        except openai.APITimeoutError:
            raise Fault(f"no answer within {self.config.timeout:g} s", "timeout") from None
        except openai.APIConnectionError as error:
            raise self._lost(error.__cause__) from None
        try:
            answer = self._clean(json.loads(response.content))
        except (ValueError, RecursionError):
            media_type = self.scrub(str(response.headers.get("content-type", "")).partition(";")[0].strip()[:80])
            came = "broken JSON" if "json" in media_type else f"no JSON but {media_type or 'something without a type'}"
            raise Fault(came, "half") from None
        if isinstance(answer, dict) and answer.get("error") and not answer.get(has):  # some say so with status 200
            raise self._meaning(_status_in(answer["error"]), response, model, what)
        if not isinstance(answer, dict) or answer.get(has) is None:
            raise Fault(f"JSON without {has} in it", "half")
        return answer

    def _clean(self, value: Any) -> Any:
        """What was parsed, without the key, and without halves of characters, which no file can hold."""
        if isinstance(value, str):
            return self.scrub(value.encode("utf-8", "replace").decode())
        if isinstance(value, list):
            return [self._clean(item) for item in value]
        if isinstance(value, dict):
            return {self._clean(name): self._clean(item) for name, item in value.items()}
        return value

    def _lost(self, cause: BaseException | None) -> Fault:
        """What it means that no answer came, or not all of it."""
        import httpx2

        match cause:
            case Fault():
                return cause
            case httpx2.ConnectError() | httpx2.UnsupportedProtocol():
                return Fault(self.scrub(f"{self.config.base_url} cannot be reached ({cause})"), "unreachable")
            case httpx2.TooManyRedirects():
                return Fault("it sends requests round in circles, from one address to the next", "half")
            case httpx2.DecodingError():
                return Fault("an answer that cannot be unpacked", "half")
        return Fault("the connection was cut", "cut")

    def _meaning(self, status: int, response: Any, model: str | None, what: str | None) -> Exception:
        """Of an error that the server tells; status 0: it gives none that we know."""
        words, code = self._words(response)
        said, where = ": ".join(filter(None, (str(status or ""), words))), self.config.base_url
        if status in (401, 403):
            # The server's own words are left out: some repeat the key, or part of it.
            given = f"the key in {self.key_variable}" if self._key else f"a request without a key ({self.key_variable})"
            return ServerRefused(f"{where} refuses {given} ({status}): check it, and that it belongs to this server")
        if status == 402 or (status in (0, 429) and any(mark in code for mark in _OUT_OF_MONEY)):
            return ServerRefused(f"{where} says that the money is spent ({said}): waiting would not help")
        if status == 404:
            return ServerRefused(
                f"{where} does not know {what or f'the model {model!r}'} ({said})"
                f"{self._models(model)}; --base-url usually ends in /v1"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            kind: FaultKind = "busy" if status in (429, 503) else "timeout" if status == 504 else "failing"
            return Fault(said, kind, status=status, retry_after=_wait_of(response.headers))
        if any(mark in code for mark in _FILTERED):
            return Fault(said, "half", reply=Reply("", "content_filter", None, None, None))
        if status == 0:
            return Fault(said, "half")
        message = f"{where} cannot use the request ({said})"
        return Unusable(message, said) if status in (400, 413, 422) else ServerRefused(message)

    def _words(self, response: Any) -> tuple[str, str]:
        """What the server says of an error, in one short line, and what it calls it."""
        try:
            body = self._clean(json.loads(response.content))
        except (ValueError, RecursionError):
            body = self.scrub(response.content.decode("utf-8", "replace"))
        code = ""
        for name in ("error", "message", "detail"):
            if isinstance(body, dict):
                code = code or " ".join(str(body[field]) for field in ("code", "type") if body.get(field))
                body = body.get(name, body)
        if not isinstance(body, str):
            body = json.dumps(body) if body else ""
        with suppress(ValueError):
            body = body or HTTPStatus(response.status_code).phrase
        return " ".join(body.split())[:300], code

    def _models(self, wanted: str | None) -> str:
        """Which models there are, if the server tells."""
        if wanted is None:
            return ""
        try:
            listed = self.call(lambda client: client.with_options(timeout=10).models.with_raw_response.list(), "data")
            names = sorted(str(model["id"]) for model in listed["data"])
        except Exception:  # this only makes an error clearer: no second one in its place
            return ""
        some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        return f"{did_you_mean(wanted, names)}; it has {some or 'none'}"


def import_openai() -> Any:
    try:
        import openai
    except ImportError:
        raise MissingExtra("hosted models need the package openai: pip install 'carryon[llm]'") from None
    return openai


def _read(kind: str, answer: dict[str, Any]) -> Reply:
    try:
        choice = answer["choices"][0]
        # Where a filter took the text, some servers leave the field out.
        text = choice["message"].get("content") if kind == "chat" else choice.get("text")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Fault(f"JSON without a {'message' if kind == 'chat' else 'choice'} in it", "half") from None
    usage: Any = answer["usage"] if isinstance(answer.get("usage"), dict) else {}
    finish, model = choice.get("finish_reason"), answer.get("model")
    reply = Reply(
        text if isinstance(text, str) else "",
        finish if isinstance(finish, str) else None,
        count_of(usage.get("prompt_tokens")),
        count_of(usage.get("completion_tokens")),
        model if isinstance(model, str) else None,
    )
    if text is not None and not isinstance(text, str):
        raise Fault("an answer without text in it", "half", reply=reply)
    if reply.finish in (None, "error"):
        raise Fault("a half answer: it does not say that it ended", "half", reply=reply)
    if not text and has_ended(reply.finish):
        raise Fault("an empty answer", "empty", reply=reply)
    return reply


def _status_in(error: Any) -> int:
    """The status that an error names which came with status 200; 0 if it names none."""
    codes = [error.get(name) for name in ("code", "status")] if isinstance(error, dict) else []
    return next((int(str(code)) for code in codes if re.fullmatch(r"[45][0-9]{2}", str(code))), 0)


def _wait_of(headers: Any) -> float | None:
    """Seconds that the server asks to wait."""
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
