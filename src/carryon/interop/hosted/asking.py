"""A hosted model as a function from prompts to completions: many requests at once, none of them lost or made twice."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from ...errors import CapReached, ServerFailing, ServerRefused
from .answers import Answers
from .costs import dollars
from .endpoint import Endpoint
from .faults import HALF_RETRIES, Fault, Reply, Unusable
from .patience import Pace, pause_after
from .request import Request
from .settings import LimitsConfig

_OUTAGE = 3
"""So many requests given up in a row, none answered in between: the server is down, not some prompts cursed."""
_GRACE = 3.0
"""Seconds that requests on their way are given on Ctrl-C. They are paid for: otherwise they have all of their time."""
_NOTHING = Reply("", None, None, None, None)


class Asker:
    """`complete` for an evaluation. What is in the answers' file is not asked again."""

    def __init__(
        self,
        endpoint: Endpoint,
        request: Request,
        limits: LimitsConfig,
        answers: Answers,
        *,
        unanswered_are_wrong: bool = False,
        tick: Callable[[int], None] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """`tick` is told how many are answered, `tell` of faults, each kind of them once."""
        self._endpoint, self._request, self._limits, self.answers = endpoint, request, limits, answers
        self._unanswered_are_wrong, self._tick, self._tell = unanswered_are_wrong, tick, tell
        self.requests = 0
        """Sent, in this session."""

    def key(self, prompt: str) -> str:
        return self._request.key(self._endpoint.config.base_url, prompt)

    def __call__(self, prompts: Sequence[str], /) -> list[str]:
        keys = [self.key(prompt) for prompt in prompts]
        if any(key not in self.answers.known for key in keys):
            _ = self._endpoint.client  # a missing key or package is found before anything is written
        with self.answers.opened():
            rest = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self.answers.known}
            if rest:
                session = _Session(self._endpoint, self._request, self._limits, self.answers, keys)
                session.tell = self._tell
                if self._unanswered_are_wrong:
                    session.outage = max(_OUTAGE, len(keys) // 20)
                try:
                    session.run(rest, self._tick)
                finally:
                    self.requests += session.requests
                missing = sum(key not in self.answers.known for key in keys)
                if missing and not self._unanswered_are_wrong:
                    raise ServerFailing(
                        f"{missing:,} of {len(keys):,} problems got no answer, the last of them because of "
                        f"{session.last_fault}; {session.kept}; --unanswered-are-wrong does without them"
                    )
            return [self._request.completion(self.answers.known.get(key)) for key in keys]


class _Session:
    """Requests on their way."""

    def __init__(
        self, endpoint: Endpoint, request: Request, limits: LimitsConfig, answers: Answers, keys: Sequence[str]
    ) -> None:
        self._endpoint, self._request, self._limits, self._answers = endpoint, request, limits, answers
        self._keys = keys
        self.outage = _OUTAGE
        self.tell: Callable[[str], None] | None = None
        self._pace = Pace(limits)
        self._queue: deque[tuple[str, str]] = deque()
        self._stop = threading.Event()
        self._changed = threading.Condition()
        # All below is read and written under `_changed`.
        self._error: BaseException | None = None
        self._answered = self._given_up_in_a_row = self._on_their_way = self.requests = 0
        self._made_before, *spent = answers.spent(keys)
        self._spent, self._reserved = (spent[0], spent[1]), (0, 0)
        """Tokens, of prompts and answers: taken, and set aside for requests on their way."""
        self.last_fault = "nothing"
        self._told: set[str] = set()
        self._flying: dict[str, tuple[int, int]] = {}
        """Keys that were sent and not answered yet, and what each may take."""

    @property
    def _num_done(self) -> int:
        return sum(key in self._answers.known for key in self._keys)

    @property
    def kept(self) -> str:
        done, wanted = self._num_done, len(self._keys)
        return f"{done:,} of {wanted:,} answers are kept in {self._answers.path}: the same command goes on"

    def run(self, rest: dict[str, str], tick: Callable[[int], None] | None) -> None:
        self._queue.extend(rest.items())
        before = len(self._keys) - len(rest)
        threads: list[threading.Thread] = []
        grace = _GRACE
        try:
            # The first goes alone: what is wrong with all of them is found by one.
            self._one(*self._queue.popleft())
            while self._queue and not self._num_done and self._error is None:
                self._one(*self._queue.popleft())
            for number in range(min(self._limits.concurrency, len(self._queue)) if self._error is None else 0):
                thread = threading.Thread(target=self._work, daemon=True, name=f"asking-{number}")
                thread.start()
                threads.append(thread)
            while any(thread.is_alive() for thread in threads):
                with self._changed:
                    self._changed.wait(0.1)
                    answered = self._answered
                    if self._error is not None:
                        break
                if tick:
                    tick(before + answered)
            grace = self._endpoint.config.timeout + _GRACE
        finally:
            self._stop.set()
            self._bring_home(threads, grace)
        if isinstance(self._error, ServerRefused | ServerFailing) and self._num_done:
            raise type(self._error)(f"{self._error}; {self.kept}")
        if self._error is not None:
            raise self._error
        if tick:
            tick(before + self._answered)

    def _bring_home(self, threads: Sequence[threading.Thread], grace: float) -> None:
        """Wait for requests on their way; those that do not come are counted as what they may have cost."""
        started = time.monotonic()
        try:
            for seconds in (min(1.0, grace), grace):
                for thread in threads:
                    thread.join(max(0.0, started + seconds - time.monotonic()))
                if seconds < grace and self._flying and self.tell is not None:
                    self.tell(f"waiting for {len(self._flying)} on their way, which are paid for: Ctrl-C leaves them")
        finally:
            with self._changed:
                left, self._flying = self._flying, {}
            for key, most in left.items():
                self._write(key, {"fault": "left on its way when everything stopped"}, _NOTHING, most)

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                if not self._queue:
                    break
                key, prompt = self._queue.popleft()
            self._one(key, prompt)
        with self._changed:
            self._changed.notify_all()

    def _one(self, key: str, prompt: str) -> None:
        try:
            self._ask(key, prompt)
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
                self._stop.set()
                self._changed.notify_all()

    def _ask(self, key: str, prompt: str) -> None:
        """One question, until it is answered, given up or no longer wanted."""
        retries, halves = self._limits.retries, 0
        most = self._request.most_input_tokens(prompt), self._request.bound
        for attempt in count():
            if not self._enter(most):
                return
            try:
                is_last = halves >= HALF_RETRIES or attempt == retries
                fault = self._send(key, prompt, most, is_last)
            finally:
                self._leave(most)
            if fault is None:
                return
            halves += fault.kind in ("half", "empty")
            if fault.kind == "unreachable" and not self._answered:
                raise ServerFailing(f"{fault.words}: is the server running, and --base-url right?")
            if attempt == retries or halves > HALF_RETRIES or fault.kind == "unusable":
                self._give_up(fault, attempt)
                return
            pause = pause_after(fault, attempt, key, self._limits.backoff)
            self._tell_once(fault)
            if fault.kind == "busy":
                self._pace.close(time.monotonic() + pause)
            if self._stop.wait(pause):
                return

    def _send(self, key: str, prompt: str, most: tuple[int, int], is_last: bool) -> Fault | None:
        """Once; what came is on disk when this returns."""
        config, started = self._request.config, time.monotonic()
        with self._changed:
            self._flying[key] = most
        try:
            reply = self._endpoint.ask(config.kind, self._request.body(prompt), config.body)
        except Fault as fault:
            reply = fault.reply or _NOTHING
            if not (fault.kind == "empty" and is_last):
                if fault.may_have_cost:
                    self._write(key, {"fault": fault.words}, reply, most)
                self._land(key)
                return fault
        except Unusable as refusal:
            self._land(key)
            if not self._num_done and (self._given_up_in_a_row or not self._queue):
                raise  # the second in a row, and none answered: it is not what the prompt says
            return Fault(refusal.said, "unusable")
        except Exception:
            self._land(key)
            raise
        row = {"prompt": prompt, "text": reply.text, "finish": reply.finish, "model": reply.model}
        self._write(key, {**row, "seconds": round(time.monotonic() - started, 3)}, reply, most)
        self._land(key)
        with self._changed:
            self._answered += 1
            self._given_up_in_a_row = 0
            self._changed.notify_all()
        return None

    def _land(self, key: str) -> None:
        with self._changed:
            self._flying.pop(key, None)

    def _write(self, key: str, row: dict[str, Any], reply: Reply, most: tuple[int, int]) -> None:
        """Where the server does not say how many tokens it took, it took as many as it could."""
        given = reply.input_tokens, reply.output_tokens
        taken = tuple(bound if number is None else number for number, bound in zip(given, most, strict=True))
        row = {**row, "input": taken[0], "output": taken[1]} | ({"at_most": True} if None in given else {})
        self._answers.write(key, row)
        with self._changed:
            self._spent = (self._spent[0] + taken[0], self._spent[1] + taken[1])

    def _tell_once(self, fault: Fault) -> None:
        with self._changed:
            is_new = fault.words not in self._told and len(self._told) < 20
            self._told.add(fault.words)
        if is_new and self.tell is not None:
            self.tell(f"{fault.words}: trying again")

    def _give_up(self, fault: Fault, retries: int) -> None:
        with self._changed:
            self.last_fault = fault.words
            self._given_up_in_a_row += 1
            nothing_came = not self._num_done and fault.kind != "unusable"
            is_down = nothing_came or self._given_up_in_a_row >= self.outage
        if is_down:
            where = self._endpoint.config.base_url
            if fault.kind == "half" and nothing_came:
                raise ServerFailing(f"{where} {fault.foreign}")
            after = f", after {retries} {'retry' if retries == 1 else 'retries'}" if retries else ""
            raise ServerFailing(f"{where} {'keeps failing' if retries else 'fails'}{after} with: {fault.words}")

    # --- leave to send ----------------------------------------------------------------------------------------------

    def _enter(self, most: tuple[int, int]) -> bool:
        """Wait until a request may be sent; False if everything has stopped."""
        with self._changed:
            while not self._stop.is_set() and (reason := self._over_the_cap(most)):
                if not self._on_their_way:
                    raise CapReached(f"{reason}; {self._rest_in_words(most)}; {self.kept} with a higher cap")
                self._changed.wait(0.1)  # those on their way may take less than was set aside for them
            self._on_their_way += 1
            self._reserved = (self._reserved[0] + most[0], self._reserved[1] + most[1])
            self.requests += 1
        while (wait := self._pace.reserve(sum(most), time.monotonic())) > 0 and not self._stop.wait(wait):
            if not self._pace.seconds_closed(time.monotonic()):
                break  # else closed in the meantime: the place in time is void
        if self._stop.is_set():
            self._leave(most, sent=False)
            return False
        return True

    def _leave(self, most: tuple[int, int], sent: bool = True) -> None:
        with self._changed:
            self._on_their_way -= 1
            self._reserved = (self._reserved[0] - most[0], self._reserved[1] - most[1])
            self.requests -= not sent
            self._changed.notify_all()

    def _over_the_cap(self, most: tuple[int, int]) -> str | None:
        """Why one more request is too many."""
        limits = self._limits
        made = self._made_before + self.requests
        if limits.max_requests is not None and made >= limits.max_requests:
            return f"the cap of {limits.max_requests:,} requests is reached"
        if limits.max_cost is None:
            return None
        spent, next_one = limits.cost(*self._spent) or 0.0, limits.cost(*most) or 0.0
        if spent + (limits.cost(*self._reserved) or 0.0) + next_one <= limits.max_cost:
            return None
        return (
            f"the cap of ${dollars(limits.max_cost)} is reached: ${dollars(spent)} are spent, "
            f"and the next request could take ${dollars(next_one)}"
        )

    def _rest_in_words(self, most: tuple[int, int]) -> str:
        done = self._num_done
        rest = len(self._keys) - done
        spent = self._limits.cost(*self._spent)
        if spent is None:
            return f"{rest:,} requests or more would do the rest"
        if done:
            return f"the other {rest:,} would take about ${dollars(spent / done * rest)}"
        return f"all {rest:,} would take at most ${dollars((self._limits.cost(*most) or 0.0) * rest)}"
