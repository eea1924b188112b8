"""What a server says of files and fine-tuning jobs: with an id and, of jobs, a status, or it is no answer."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...errors import RunMismatch
from .answers import count_of
from .endpoint import Endpoint
from .faults import Fault
from .patience import insist
from .settings import LimitsConfig

_LISTED = 1_000
"""Most files, jobs or new events that are looked through."""


def find_job(endpoint: Endpoint, name: str, limits: LimitsConfig, model: str | None = None) -> dict[str, Any]:
    """The job of this name at the server; ServerRefused if it has none, RunMismatch if it starts from another model."""

    def retrieve(client: Any) -> Any:
        return client.fine_tuning.jobs.with_raw_response.retrieve(name)

    job = insist(lambda: job_of(endpoint, retrieve, f"the job {name!r}"), f"looking at the job {name!r}", limits)
    if model is not None and not starts_from(job, model):
        raise RunMismatch(f"job {name} starts from {job['model']}, not from {model}: --model names another")
    return job


def starts_from(job: dict[str, Any], model: str) -> bool:
    """As far as the server tells, which may name the day that a model is of, too."""
    return job.get("model") is None or str(job["model"]).startswith(model)


def job_of(endpoint: Endpoint, request: Callable[[Any], Any], what: str, model: str | None = None) -> dict[str, Any]:
    """The job that the server answers with."""
    job = with_id(endpoint.call(request, "id", model=model, what=what))
    if not isinstance(job.get("status"), str):
        raise Fault("a job without a status", "half")
    return job


def list_jobs(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    def page(client: Any, **after: str) -> Any:
        return client.fine_tuning.jobs.with_raw_response.list(limit=100, **after)

    return map(with_id, listed(endpoint, page))


def listed(endpoint: Endpoint, page: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """What a server lists, page by page, and not without end."""
    after: dict[str, str] = {}
    seen = 0
    while seen < _LISTED:
        answer = endpoint.call(partial(page, **after), "data", what="such a list")
        rows = answer["data"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise Fault("a list of something else", "half")
        yield from rows
        seen += len(rows)
        if not (answer.get("has_more") and rows and isinstance(rows[-1].get("id"), str)):
            return
        after = {"after": rows[-1]["id"]}


def with_id(thing: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(thing.get("id"), str) or not thing["id"]:
        raise Fault("something without an id", "half")
    return thing


def status_of(job: dict[str, Any]) -> str:
    return {"canceled": "cancelled"}.get(job["status"], str(job["status"]))


def ending_of(job: dict[str, Any]) -> dict[str, Any]:
    """What is to be remembered of a job that has come to an end."""
    error, model = job.get("error"), job.get("fine_tuned_model")
    error = error if isinstance(error, dict) else {"message": error}
    words, code = str(error.get("message") or ""), error.get("code")
    ending = {
        "model": model if isinstance(model, str) and model else None,
        "trained_tokens": count_of(job.get("trained_tokens")),
        "reason": (f"{words} ({code})" if code else words) or None,
    }
    return {name: value for name, value in ending.items() if value is not None}


def event_of(row: dict[str, Any]) -> dict[str, Any]:
    """As it is kept. Not every server numbers them."""
    at, message = row.get("created_at"), str(row.get("message"))
    return {"id": str(row.get("id") or f"{at} {message}"), "at": at, "message": message}
