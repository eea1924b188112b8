"""Fine-tuning at a server that offers it, in a folder that remembers how far it has come.

JOB/  job.json       what was asked for
      data/          the data set that is uploaded, unless one was given
      state.json     what the server has: files by their hash, the job, how it ended
      events.jsonl   what the server said on the way

The same command goes on where it stopped. A file that was uploaded is found again by its name, which holds its hash; a
job that was perhaps created, before a kill or behind a cut connection, is looked for, and waited for, before another is
created.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...data import make_dataset, read_manifest, write_dataset
from ...errors import BadDataset, BadRun, JobFailed, RunMismatch, ServerFailing, ServerRefused
from ...files import file_hash, hold, read_json, write_whole
from .endpoint import Endpoint
from .faults import Fault
from .jobs import ending_of, event_of, find_job, job_of, list_jobs, listed, starts_from, status_of
from .patience import insist
from .settings import LimitsConfig, TuningConfig
from .uploads import find_file, upload_file

_ENDED = ("succeeded", "failed", "cancelled")
_FIRST_POLL = 1.0
_MODEL_WAIT = 60.0
"""Seconds that a server may take to name a model that it has finished."""
_SETTLED = 120.0
"""Seconds after which a server would list a job that it was asked to create, and did not say it has."""


class TuningJob:
    """One job folder."""

    def __init__(self, folder: Path, config: TuningConfig) -> None:
        self.folder, self.config = folder, config
        self._state: dict[str, Any] = _read_json(folder / "state.json") or {}

    @classmethod
    def open(cls, folder: Path) -> "TuningJob":
        """A job that was started before."""
        values = _read_json(folder / "job.json")
        if values is None:
            raise BadRun(f"{folder} is not a fine-tuning job: it has no job.json; 'carryon hosted finetune' makes one")
        try:
            return cls(folder, TuningConfig.model_validate(values))
        except ValidationError as error:
            raise BadRun(f"{folder / 'job.json'} is broken: {error.errors()[0]['msg']}") from None

    @classmethod
    def start(cls, folder: Path, config: TuningConfig) -> "TuningJob":
        """The job of this folder, made if it is not there; refused if it is another one."""
        if (folder / "job.json").exists():
            job = cls.open(folder)
            there, asked = job.config.model_dump(mode="json"), config.model_dump(mode="json")
            if differing := [name for name in there if there[name] != asked[name]]:
                words = ", ".join(f"{name} is {there[name]!r}, not {asked[name]!r}" for name in differing[:3])
                raise RunMismatch(f"{folder} holds another job: {words}; choose another folder")
            return job
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "job.json", config.model_dump_json(indent=2) + "\n")
        return cls(folder, config)

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def id(self) -> str | None:
        return self._state.get("job")

    @property
    def has_ended(self) -> bool:
        """With a model, where it went well: some servers take a while to name it."""
        status = self._state.get("status")
        return status in _ENDED and (status != "succeeded" or bool(self._state.get("model")))

    @property
    def tuned_model(self) -> str:
        """The name of the finished model."""
        if self.has_ended and self._state["status"] == "succeeded":
            return str(self._state["model"])
        raise BadRun(
            f"{self.folder} has no finished model yet: 'carryon hosted finetune {self.folder}' goes on with it"
        )

    @property
    def data(self) -> Path:
        return Path(self.config.data_folder) if self.config.data_folder else self.folder / "data"

    def summary(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "endpoint": self.config.base_url, "from": self.config.model, **self._state}

    def _file(self, split: str) -> Path:
        return self.data / read_manifest(self.data).splits[split].file

    # --- the server -------------------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time may work on a job."""

        def busy(holder: str) -> RunMismatch:
            return RunMismatch(f"{self.folder} is being worked on by process {holder}")

        with hold(self.folder / "lock", busy):
            self._state = _read_json(self.folder / "state.json") or {}
            yield

    def submit(self, endpoint: Endpoint, limits: LimitsConfig, tell: Callable[[str], None]) -> bool:
        """Upload what is not there and create the job, unless that was done before; whether it was created now."""
        if self.id is not None:
            return False
        self._make_data()
        files = {split: self._upload(split, endpoint, limits, tell) for split in self.config.splits}
        job = insist(lambda: self._find_or_create(endpoint, files, tell), "creating the job", limits)
        self._state = {name: self._state[name] for name in self._state if name not in ("there_before", "tried_at")}
        self._remember(job=job["id"], status=status_of(job))
        tell(f"job {job['id']} is created")
        return True

    def adopt(self, job: dict[str, Any], endpoint: Endpoint, limits: LimitsConfig, tell: Callable[[str], None]) -> None:
        """Go on with a job that the server has, as `find_job` found it, however it came there."""
        if self.id not in (None, job["id"]):
            raise RunMismatch(f"{self.folder} already has the job {self.id}: choose another folder for {job['id']}")
        self._make_data()
        ours, theirs = self._name("train"), str(job.get("training_file") or "no file")
        with suppress(ServerRefused):  # not every server shows its files
            theirs = str(find_file(endpoint, limits, theirs).get("filename") or theirs)
        if theirs != ours:
            words = f"job {job['id']} learns from {theirs}, and this folder's training set would be {ours}"
            tell(f"{words}: unless they are the same, the test set may hold what the model has seen")
        self._remember(job=job["id"])

    def _make_data(self) -> None:
        if self.config.data_folder is None and not (self.data / "manifest.json").exists():
            write_dataset(make_dataset(self.config.data, self.config.seed), self.data, self.config.form)

    def cancel(self, endpoint: Endpoint, limits: LimitsConfig) -> None:
        if (name := self.id) is None:
            raise BadRun(f"{self.folder} has no job at the server yet: there is nothing to cancel")
        if self._state.get("status") not in _ENDED:

            def cancel(client: Any) -> Any:
                return client.fine_tuning.jobs.with_raw_response.cancel(name)

            there = insist(lambda: job_of(endpoint, cancel, f"the job {name!r}"), "cancelling the job", limits)
            self._remember(status=status_of(there), **ending_of(there))
            if status_of(there) not in ("succeeded", "failed"):
                return
        raise BadRun(f"job {name} has ended already ({self._state['status']}): there is nothing to cancel")

    def follow(
        self,
        endpoint: Endpoint,
        limits: LimitsConfig,
        tell: Callable[[str], None],
        longest_poll: float = 20.0,
        *,
        wait: bool = True,
    ) -> dict[str, Any]:
        """Wait for the end, telling what the server tells; JobFailed in its words if that is not a good one.

        Without `wait`: look once.
        """
        pause = first = min(_FIRST_POLL, longest_poll)
        unnamed_since: float | None = None
        while not self.has_ended:
            job, news = self._look(endpoint, limits)
            for event in news:
                tell(event)
            if status_of(job) != self._state.get("status"):
                tell(f"job {job['id']} is {status_of(job)}")
                pause = first
            self._remember(status=status_of(job), **ending_of(job))
            if self.has_ended:
                break
            if not wait:
                return self.summary()
            if status_of(job) == "succeeded":
                unnamed_since = unnamed_since or time.monotonic()
                if time.monotonic() - unnamed_since > _MODEL_WAIT:
                    raise ServerFailing(
                        f"job {self.id} has succeeded, but {endpoint.config.base_url} does not name its model: "
                        "the same command looks again"
                    )
            time.sleep(pause)
            pause = first if news else min(pause * 1.5, longest_poll)
        if self._state["status"] != "succeeded":
            reason = self._state.get("reason") or "the server gives no reason"
            raise JobFailed(
                f"job {self.id} {'failed' if self._state['status'] == 'failed' else 'was cancelled'}: {reason}; "
                "another try needs another folder"
            )
        return self.summary()

    def _look(self, endpoint: Endpoint, limits: LimitsConfig) -> tuple[dict[str, Any], list[str]]:
        """The job, and what the server has said since the last look."""
        name, path = str(self.id), self.folder / "events.jsonl"
        rows = list(_read_lines(path))
        seen = {row["id"] for row in rows}

        def events() -> list[dict[str, Any]]:
            def page(client: Any, **after: str) -> Any:
                return client.fine_tuning.jobs.with_raw_response.list_events(name, limit=100, **after)

            try:
                newest_first = map(event_of, listed(endpoint, page))
                return list(takewhile(lambda event: event["id"] not in seen, newest_first))[::-1]
            except ServerRefused:
                return []  # not every server has them
            except Fault as fault:
                if fault.kind != "half":
                    raise
                return []  # nor in this form

        try:
            job, news = find_job(endpoint, name, limits), insist(events, "reading its events", limits)
        except ServerFailing as error:
            raise ServerFailing(
                f"{error}; job {name} goes on at the server, and the same command follows it again"
            ) from None
        if news:
            write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in (*rows, *news)))
        return job, [event["message"] for event in news]

    def _name(self, split: str) -> str:
        """What the split's file is called at the server."""
        return f"carryon-{split}-{read_manifest(self.data).splits[split].sha256[:16]}.jsonl"

    def _upload(self, split: str, endpoint: Endpoint, limits: LimitsConfig, tell: Callable[[str], None]) -> str:
        """The id of the split's file at the server."""
        path, digest = self._file(split), read_manifest(self.data).splits[split].sha256
        if file_hash(path) != digest:
            raise BadDataset(f"{path} is not what its manifest says: make the data set again")
        known = self._state.get("files", {}).get(split)
        if known is not None and known["sha256"] == digest:
            return str(known["id"])
        name = self._name(split)
        file = upload_file(endpoint, limits, path, name, tell)
        files = {**self._state.get("files", {}), split: {"id": file["id"], "sha256": digest, "name": name}}
        self._remember(files=files)
        return str(file["id"])

    def _find_or_create(self, endpoint: Endpoint, files: dict[str, str], tell: Callable[[str], None]) -> dict[str, Any]:
        """The job, created only where no earlier try can have reached the server, or none has come of it in time."""
        if self._state.get("creating") is None:
            try:
                there: list[str] | None = [job["id"] for job in list_jobs(endpoint)]
            except ServerRefused:
                there = None  # not every server lists its jobs
            self._remember(creating=secrets.token_hex(8), there_before=there, tried_at=None)
        tag, tried_at = self._state["creating"], self._state.get("tried_at", 0.0)
        wait = endpoint.config.timeout + _SETTLED
        if tried_at is not None:
            # The answer did not reach us, whether in this session or in one that was killed.
            if (found := self._find(endpoint, tag, files)) is not None:
                return found
            left = wait - abs(time.time() - tried_at)  # a clock that was set back is not waited for
            if left > 0:
                words = f"the server may have created the job and does not list it yet; after {left:.0f} s another is"
                raise Fault(f"{words} created, and not before", "timeout")

        body = self._body(tag, files)

        def create(client: Any) -> Any:
            return client.fine_tuning.jobs.with_raw_response.create(**body, extra_headers={"Idempotency-Key": tag})

        self._remember(tried_at=time.time())
        try:
            what = f"the model {self.config.model!r}, or no fine-tuning"
            return job_of(endpoint, create, what, self.config.model)
        except Fault as fault:
            if fault.may_have_arrived:
                tell(f"{fault.words}: looking for {wait:.0f} s whether the job was created all the same")
            else:
                self._remember(tried_at=None)
            raise
        except ServerRefused:
            self._remember(tried_at=None)
            raise

    def _body(self, tag: str, files: dict[str, str]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.config.model, "training_file": files["train"]}
        body |= {"validation_file": files["validation"]} if "validation" in files else {}
        body |= {"hyperparameters": self._hyperparameters} if self._hyperparameters else {}
        body |= {"suffix": self.config.suffix} if self.config.suffix else {}
        return body | {"metadata": {"carryon": tag}}

    @property
    def _hyperparameters(self) -> dict[str, Any]:
        config = self.config
        values = {
            "n_epochs": config.epochs,
            "batch_size": config.batch_size,
            "learning_rate_multiplier": config.learning_rate_multiplier,
        }
        return {name: value for name, value in values.items() if value is not None}

    def _find(self, endpoint: Endpoint, tag: str, files: dict[str, str]) -> dict[str, Any] | None:
        """The job that this folder created: by its tag, or by what else a server tells of it that drops tags."""
        try:
            jobs = list(list_jobs(endpoint))
        except ServerRefused as refusal:
            raise ServerRefused(
                f"{self.folder} may have created a job before it was interrupted, and the server does not list its "
                f"jobs ({refusal}): look there, and name it with --adopt"
            ) from None
        for job in jobs:
            if isinstance(job.get("metadata"), dict) and job["metadata"].get("carryon") == tag:
                return job
        before = self._state.get("there_before")
        alike = [job for job in jobs if job["id"] not in (before or ()) and self._may_be_ours(job, files)]
        if len(alike) > 1 or (alike and before is None):
            ids = ", ".join(job["id"] for job in alike[:5])
            raise ServerRefused(
                f"{self.folder} may have created one of these jobs, or another folder has: {ids}; "
                "look at the server, and name the right one with --adopt"
            )
        return alike[0] if alike else None

    def _may_be_ours(self, job: dict[str, Any], files: dict[str, str]) -> bool:
        """Nothing that the server tells of it speaks against that."""
        told, suffix = job.get("hyperparameters"), job.get("suffix") or job.get("user_provided_suffix")
        told = told if isinstance(told, dict) else {}
        return (
            not job.get("metadata")
            and job.get("training_file") == files["train"]
            and job.get("validation_file") == files.get("validation")
            and starts_from(job, self.config.model)
            and (suffix is None or suffix == self.config.suffix)
            # Where none was asked for, the server tells what it chose.
            and all(told.get(name) in (None, "auto", value) for name, value in self._hyperparameters.items())
        )

    def _remember(self, **facts: Any) -> None:
        self._state |= facts
        write_whole(self.folder / "state.json", json.dumps(self._state, indent=2) + "\n")


def _read_json(path: Path) -> dict[str, Any] | None:
    return read_json(path, lambda _: BadRun(f"{path} is broken: a folder of another name starts anew"))


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Rows that can be read: the last may have been cut off by a kill."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    for line in text.split("\n"):  # servers say U+2028, which splitlines takes for the end of one
        try:
            yield json.loads(line)
        except ValueError:
            continue
