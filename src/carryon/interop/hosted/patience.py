"""When to send: not faster than is allowed, and after a fault not at once."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ...errors import ServerFailing
from ...rng import Stream
from .faults import HALF_RETRIES, Fault
from .settings import LimitsConfig

T = TypeVar("T")

_LONGEST_PAUSE = 30.0
LONGEST_WAIT = 300.0
"""Seconds. A server that asks for a longer wait is not worth waiting for."""


def pause_after(fault: Fault, attempt: int, label: str, first: float) -> float:
    """Seconds to wait after the so-manieth failure: doubled each time, shortened by up to half so that requests that
    failed together do not come back together, and never less than the server asks for."""
    if fault.retry_after is not None and fault.retry_after > LONGEST_WAIT:
        raise ServerFailing(f"the server asks to wait {fault.retry_after:,.0f} s ({fault.words}): try again then")
    jitter = 1 - 0.5 * float(Stream("backoff", label, attempt).unit(1)[0])
    return max(min(first * 2.0**attempt, _LONGEST_PAUSE) * jitter, fault.retry_after or 0.0)


def insist(call: Callable[[], T], label: str, limits: LimitsConfig) -> T:
    """Call until it goes well, or has failed too often."""
    attempt = halves = 0
    while True:
        try:
            return call()
        except Fault as fault:
            halves += fault.kind == "half"
            if halves > HALF_RETRIES:
                raise ServerFailing(f"{label} failed: the server {fault.foreign}") from None
            if attempt >= limits.retries:
                often = f"{attempt + 1} times, the last time" if attempt else "once"
                raise ServerFailing(f"{label} failed {often}, with: {fault.words}") from None
            time.sleep(pause_after(fault, attempt, label, limits.backoff))
        attempt += 1


class Pace:
    """Spreads requests over time, so that a minute never holds more of them, or of tokens, than is allowed.

    Spread evenly: servers count a limit per minute over shorter spans, too.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self._rates = (limits.requests_per_minute, limits.tokens_per_minute)
        self._free = [0.0, 0.0]
        self._closed_until = 0.0
        self._lock = threading.Lock()

    def reserve(self, tokens: int, now: float) -> float:
        """Take the next place in time; how many seconds it is away."""
        with self._lock:
            start = max(now, self._closed_until, *self._free)
            for index, (rate, amount) in enumerate(zip(self._rates, (1, tokens), strict=True)):
                if rate is not None:
                    self._free[index] = start + 60 * amount / rate
            return start - now

    def close(self, until: float) -> None:
        """Nobody sends before this: a server that says so means all of us."""
        with self._lock:
            self._closed_until = max(self._closed_until, until)

    def seconds_closed(self, now: float) -> float:
        with self._lock:
            return max(0.0, self._closed_until - now)
