"""Files at a server, each found again by its name and size instead of sent twice."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import ServerRefused
from .endpoint import Endpoint
from .jobs import listed, with_id
from .patience import insist
from .settings import LimitsConfig

_LOOK_EVERY, _LOOKED_THROUGH = 1.0, 60.0
"""Seconds between looks at a file that the server is looking through, and how long it may."""


def upload_file(
    endpoint: Endpoint, limits: LimitsConfig, path: Path, name: str, tell: Callable[[str], None]
) -> dict[str, Any]:
    """The file of this name, sent if the server does not have it, and ready to be trained on."""

    def page(client: Any, **after: str) -> Any:
        return client.files.with_raw_response.list(purpose="fine-tune", **after)

    def upload(client: Any) -> Any:
        with open(path, "rb") as content:
            return client.files.with_raw_response.create(file=(name, content), purpose="fine-tune")

    def find_or_upload() -> dict[str, Any]:
        with suppress(ServerRefused):  # not every server lists its files
            for file in listed(endpoint, page):
                if file.get("filename") == name and file.get("bytes") == path.stat().st_size:
                    tell(f"{name} is at the server already, as {with_id(file)['id']}")
                    return file
        file = with_id(endpoint.call(upload, "id", what="uploads (POST /files)"))
        tell(f"{name} is uploaded, as {file['id']}")
        return file

    file = insist(find_or_upload, f"uploading {name}", limits)
    _wait_for(file, name, endpoint, limits)
    return file


def find_file(endpoint: Endpoint, limits: LimitsConfig, name: str) -> dict[str, Any]:
    def retrieve() -> dict[str, Any]:
        found = endpoint.call(
            lambda client: client.files.with_raw_response.retrieve(name), "id", what=f"the file {name!r}"
        )
        return with_id(found)

    return insist(retrieve, f"looking at {name}", limits)


def _wait_for(file: dict[str, Any], name: str, endpoint: Endpoint, limits: LimitsConfig) -> None:
    """Some servers look through a file before a job may name it."""
    deadline = time.monotonic() + _LOOKED_THROUGH
    while file.get("status") in ("uploaded", "pending", "running") and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY)
        try:
            file = find_file(endpoint, limits, file["id"])
        except ServerRefused:
            return  # not every server shows them
    if file.get("status") == "error":
        reason = file.get("status_details") or "no reason is given"
        raise ServerRefused(f"{endpoint.config.base_url} cannot use the file {name}: {reason}")
