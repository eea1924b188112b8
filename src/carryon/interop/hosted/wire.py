"""Every answer whole, in time and of a bounded size, whatever its status.

The client's own timeout starts anew with every byte, so that a server that drips would never time out; and it reads as
much as a server sends.
"""

import threading
import time
from typing import TYPE_CHECKING, Any

from .faults import Fault

if TYPE_CHECKING:
    import httpx2

_LONGEST_REPLY = 32 * 2**20
"""Bytes; the longest scratchpads have a few million."""
_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")


class _Allowance(threading.local):
    """What the answer that this thread waits for may still take. Requests are made where they are waited for."""

    seconds = deadline = float("inf")
    taken = 0

    def start(self, seconds: float) -> None:
        self.seconds, self.taken = seconds, 0
        self.restart()

    def restart(self) -> None:
        """The answer's time begins when the last of the question is sent: large files take theirs."""
        self.deadline = time.monotonic() + self.seconds

    def time_left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Fault(f"no whole answer within {self.seconds:g} s", "timeout")
        return left

    def take(self, size: int) -> None:
        self.taken += size
        _check_size(self.taken)


def _check_size(size: int) -> None:
    if size > _LONGEST_REPLY:
        raise Fault(f"an answer of more than {_LONGEST_REPLY:,} bytes", "half")


def make_client(default_client: type["httpx2.Client"]) -> "httpx2.Client":
    """An HTTP client, of OpenAI's kind, that bounds every answer."""
    import httpcore2
    import httpx2

    allowance = _Allowance()

    class Stream(httpcore2.NetworkStream):
        """A connection: headers, bodies and redirects all come through here."""

        def __init__(self, inner: httpcore2.NetworkStream) -> None:
            self._inner = inner

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            left = allowance.time_left()
            data = self._inner.read(max_bytes, left if timeout is None else min(timeout, left))
            allowance.take(len(data))
            return data

        def write(self, buffer: bytes, timeout: float | None = None) -> None:
            self._inner.write(buffer, timeout)
            allowance.restart()

        def close(self) -> None:
            self._inner.close()

        def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> Any:
            return Stream(self._inner.start_tls(ssl_context, server_hostname, timeout))

        def get_extra_info(self, info: str) -> Any:
            return self._inner.get_extra_info(info)

    class Backend(httpcore2.SyncBackend):
        def connect_tcp(self, *args: Any, **options: Any) -> Any:
            return Stream(super().connect_tcp(*args, **options))

    class Client(default_client):  # type: ignore[misc,valid-type]
        def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
            """The answer with all of its body, which is read here."""
            allowance.start(request.extensions["timeout"]["read"])
            response = super().send(request, stream=True, **options)
            try:
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk  # unpacked: what came may have been a small archive of a large nothing
                    allowance.time_left()
                    _check_size(len(content))
            finally:
                response.close()
            headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_BODY]
            return httpx2.Response(response.status_code, headers=headers, content=bytes(content), request=request)

    client = Client()
    # There is no public door for this where proxies come from the environment. Without it a body still has its bounds,
    # as it is read above; headers would have the client's timeout, byte by byte.
    for transport in (client._transport, *client._mounts.values()):
        if (pool := getattr(transport, "_pool", None)) is not None:
            pool._network_backend = Backend()
    return client
