"""Fine-tuning at a server that offers it, in a folder that remembers how far it has come.

JOB/  job.json       what was asked for
      data/          the data set that is uploaded, unless one was given
      state.json     what the server has: files by their hash, the job, how it ended
      events.jsonl   what the server said on the way

The same command goes on where it stopped. A file that was uploaded is found again by its name, which holds its hash; a
job that was perhaps created, before a kill or behind a cut connection, is looked for before one is created.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from ...config import Config, DataConfig
from ...data import FORMS, make_dataset, read_manifest, write_dataset
from ...errors import BadDataset, BadRun, JobFailed, RunMismatch, ServerFailing, ServerRefused, Unsupported
from ...files import file_hash, hold, read_json, write_whole
from ...formats import make_format
from .costs import TokenCount
from .endpoint import Endpoint, Fault
from .patience import insist
from .settings import LimitsConfig

_ENDED = ("succeeded", "failed", "cancelled")
_LISTED = 1_000
"""Most files, jobs or new events that are looked through."""
_FIRST_POLL = 1.0
_FILE_WAIT = 60.0


class TuningConfig(Config):
    """What a job is."""

    base_url: str
    model: str = Field(min_length=1, max_length=1_000)
    """The model to start from."""
    data: DataConfig
    seed: int = 0
    form: Literal["openai", "openai_prompt"] = "openai"
    """openai: for chat models; openai_prompt: for those that complete."""
    data_folder: str | None = None
    """A data set that is there already; None: it is made in the job's folder."""
    validation: bool = True
    """Upload the validation set, too."""
    suffix: str | None = Field(default=None, max_length=64)
    """Part of the tuned model's name."""
    epochs: int | None = Field(default=None, ge=1, le=50)
    """None, here and below: the server decides."""
    batch_size: int | None = Field(default=None, ge=1)
    learning_rate_multiplier: float | None = Field(default=None, gt=0)

    @property
    def splits(self) -> tuple[str, ...]:
        return ("train", "validation") if self.validation else ("train",)


@dataclass(frozen=True)
class TuningEstimate:
    examples: int
    tokens: int
    """Of the training file, once."""
    counted: str
    epochs: int | None
    cost: float | None
    """Dollars, for all epochs, or for one where the server decides how many."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class TuningJob:
    """One job folder."""

    def __init__(self, folder: Path, config: TuningConfig) -> None:
        self.folder, self.config = folder, config
        self._state: dict[str, Any] = _read_json(folder / "state.json") or {}
        self._may_come_late = False

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
    def tuned_model(self) -> str:
        """The name of the finished model."""
        if self._state.get("status") == "succeeded" and self._state.get("model"):
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

    def submit(self, endpoint: Endpoint, limits: LimitsConfig, tell: Callable[[str], None]) -> None:
        """Upload what is not there and create the job, unless that was done before."""
        if self.id is not None:
            return
        if self.config.data_folder is None and not (self.data / "manifest.json").exists():
            write_dataset(make_dataset(self.config.data, self.config.seed), self.data, self.config.form)
        files = {split: self._upload(split, endpoint, limits, tell) for split in self.config.splits}
        job = insist(lambda: self._find_or_create(endpoint, files), "creating the job", limits)
        self._remember(job=job.id, status=str(job.status))
        tell(f"job {job.id} is created")

    def adopt(self, job: Any) -> None:
        """Go on with a job that the server has, as `find_job` found it, however it came there."""
        if self.id not in (None, job.id):
            raise RunMismatch(f"{self.folder} already has the job {self.id}: choose another folder for {job.id}")
        self._remember(job=job.id)

    def cancel(self, endpoint: Endpoint, limits: LimitsConfig) -> None:
        if (job := self.id) is None:
            raise BadRun(f"{self.folder} has no job at the server yet: there is nothing to cancel")
        if self._state.get("status") not in _ENDED:
            with_server = endpoint.client.fine_tuning.jobs

            def call() -> Any:
                with endpoint.translated(what=f"the job {job!r}"):
                    return with_server.cancel(job)

            there = insist(call, "cancelling the job", limits)
            self._remember(status=str(there.status), **self._ending(there, endpoint))
            if str(there.status) not in ("succeeded", "failed"):
                return
        raise BadRun(f"job {job} has ended already ({self._state['status']}): there is nothing to cancel")

    def follow(
        self, endpoint: Endpoint, limits: LimitsConfig, tell: Callable[[str], None], longest_poll: float = 20.0
    ) -> dict[str, Any]:
        """Wait for the end, telling what the server tells; JobFailed in its words if that is not a good one."""
        pause = first = min(_FIRST_POLL, longest_poll)
        while self._state.get("status") not in _ENDED:
            job, news = self._look(endpoint, limits)
            for event in news:
                tell(event)
            if str(job.status) != self._state.get("status"):
                tell(f"job {job.id} is {job.status}")
                pause = first
            self._remember(status=str(job.status), **self._ending(job, endpoint))
            if str(job.status) not in _ENDED:
                time.sleep(pause)
                pause = first if news else min(pause * 1.5, longest_poll)
        if self._state["status"] != "succeeded":
            reason = self._state.get("reason") or "the server gives no reason"
            raise JobFailed(
                f"job {self.id} {'failed' if self._state['status'] == 'failed' else 'was cancelled'}: {reason}; "
                "another try needs another folder"
            )
        return self.summary()

    def _look(self, endpoint: Endpoint, limits: LimitsConfig) -> tuple[Any, list[str]]:
        """The job, and what the server has said since the last look."""
        jobs, name = endpoint.client.fine_tuning.jobs, str(self.id)
        rows = list(_read_lines(self.folder / "events.jsonl"))
        seen = {row["id"] for row in rows}

        def retrieve() -> Any:
            with endpoint.translated(what=f"the job {name!r}"):
                return jobs.retrieve(name)

        def events() -> list[Any]:
            try:
                with endpoint.translated():
                    newest_first = islice(jobs.list_events(name, limit=100), _LISTED)
                    return list(takewhile(lambda event: event.id not in seen, newest_first))[::-1]
            except ServerRefused:
                return []  # not every server has them

        try:
            job, news = insist(retrieve, "looking at the job", limits), insist(events, "reading its events", limits)
        except ServerFailing as error:
            raise ServerFailing(
                f"{error}; job {name} goes on at the server, and the same command follows it again"
            ) from None
        said = [endpoint.scrub(str(event.message)) for event in news]
        rows += [{"id": e.id, "at": e.created_at, "message": words} for e, words in zip(news, said, strict=True)]
        if news:
            write_whole(
                self.folder / "events.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            )
        return job, said

    def _ending(self, job: Any, endpoint: Endpoint) -> dict[str, Any]:
        error = getattr(job, "error", None)
        words = getattr(error, "message", None) or ""
        code = getattr(error, "code", None)
        ending = {
            "model": getattr(job, "fine_tuned_model", None),
            "trained_tokens": getattr(job, "trained_tokens", None),
            "reason": endpoint.scrub(f"{words} ({code})" if code else words) or None,
        }
        return {name: value for name, value in ending.items() if value is not None}

    def _upload(self, split: str, endpoint: Endpoint, limits: LimitsConfig, tell: Callable[[str], None]) -> str:
        """The id of the split's file at the server."""
        path, digest = self._file(split), read_manifest(self.data).splits[split].sha256
        if file_hash(path) != digest:
            raise BadDataset(f"{path} is not what its manifest says: make the data set again")
        known = self._state.get("files", {}).get(split)
        if known is not None and known["sha256"] == digest:
            return str(known["id"])
        name = f"carryon-{split}-{digest[:16]}.jsonl"

        def find_or_upload() -> Any:
            with endpoint.translated():
                for file in islice(endpoint.client.files.list(purpose="fine-tune"), _LISTED):
                    if file.filename == name and file.bytes == path.stat().st_size:
                        tell(f"{name} is at the server already, as {file.id}")
                        return file
                with open(path, "rb") as content:
                    file = endpoint.client.files.create(file=(name, content), purpose="fine-tune")
                tell(f"{name} is uploaded, as {file.id}")
                return file

        file = insist(find_or_upload, f"uploading {name}", limits)
        self._wait_for_file(file, endpoint, limits)
        files = {**self._state.get("files", {}), split: {"id": file.id, "sha256": digest, "name": name}}
        self._remember(files=files)
        return str(file.id)

    def _wait_for_file(self, file: Any, endpoint: Endpoint, limits: LimitsConfig) -> None:
        """Some servers look through a file before a job may name it."""

        def retrieve() -> Any:
            with endpoint.translated():
                return endpoint.client.files.retrieve(file.id)

        deadline = time.monotonic() + _FILE_WAIT
        while file.status in ("uploaded", "pending", "running") and time.monotonic() < deadline:
            time.sleep(_FIRST_POLL)
            file = insist(retrieve, f"looking at {file.id}", limits)
        if file.status == "error":
            reason = endpoint.scrub(str(getattr(file, "status_details", None) or "no reason is given"))
            raise ServerRefused(f"{endpoint.config.base_url} cannot use the file {file.filename}: {reason}")

    def _find_or_create(self, endpoint: Endpoint, files: dict[str, str]) -> Any:
        jobs, config = endpoint.client.fine_tuning.jobs, self.config
        if (tag := self._state.get("creating")) is not None:
            # An earlier try may have reached the server: its answer did not reach us.
            found = self._find_job(endpoint, tag, files)
            if found is not None:
                return found
            if self._may_come_late:
                raise Fault("the server has not said that it created the job, nor does it list it yet", "timeout")
        else:
            tag = secrets.token_hex(8)
            self._remember(creating=tag)
        hyperparameters = {
            "n_epochs": config.epochs,
            "batch_size": config.batch_size,
            "learning_rate_multiplier": config.learning_rate_multiplier,
        }
        hyperparameters = {name: value for name, value in hyperparameters.items() if value is not None}
        body: dict[str, Any] = {"model": config.model, "training_file": files["train"], "metadata": {"carryon": tag}}
        body |= {"validation_file": files["validation"]} if "validation" in files else {}
        body |= {"hyperparameters": hyperparameters} if hyperparameters else {}
        body |= {"suffix": config.suffix} if config.suffix else {}
        try:
            with endpoint.translated(config.model):
                return jobs.create(**body, extra_headers={"Idempotency-Key": tag})
        except Fault as fault:
            # The server may be at it still: from here on this session only looks.
            self._may_come_late |= fault.kind == "timeout"
            raise

    def _find_job(self, endpoint: Endpoint, tag: str, files: dict[str, str]) -> Any:
        """The job that this folder created; by its tag, or by its files where a server drops tags."""
        try:
            with endpoint.translated():
                listed = list(islice(endpoint.client.fine_tuning.jobs.list(limit=100), _LISTED))
        except ServerRefused as refusal:
            raise ServerRefused(
                f"{self.folder} may have created a job before it was interrupted, and the server does not list its "
                f"jobs ({refusal}): look there, and name it with --adopt"
            ) from None
        for job in listed:
            if (getattr(job, "metadata", None) or {}).get("carryon") == tag:
                return job
        for job in listed:
            same = job.training_file == files["train"] and job.validation_file == files.get("validation")
            if same and not getattr(job, "metadata", None) and str(job.model).startswith(self.config.model):
                return job
        return None

    def _remember(self, **facts: Any) -> None:
        self._state |= facts
        write_whole(self.folder / "state.json", json.dumps(self._state, indent=2) + "\n")


def find_job(endpoint: Endpoint, name: str, limits: LimitsConfig) -> Any:
    """The job of this name at the server; ServerRefused if it has none."""

    def retrieve() -> Any:
        with endpoint.translated(what=f"the job {name!r}"):
            return endpoint.client.fine_tuning.jobs.retrieve(name)

    return insist(retrieve, f"looking at the job {name!r}", limits)


def estimate_tuning(config: TuningConfig, price: float | None = None) -> TuningEstimate:
    """What training takes, by the contents of its file. `price`: dollars for a million tokens."""
    count, examples, tokens = TokenCount(), 0, 0
    for text in _texts(config):
        examples, tokens = examples + 1, tokens + count(text)
    cost = None if price is None else tokens * (config.epochs or 1) * price / 1_000_000
    return TuningEstimate(examples, tokens, count.how, config.epochs, cost)


def _texts(config: TuningConfig) -> Iterator[str]:
    if config.data_folder is None:
        yield from (example.text for example in make_dataset(config.data, config.seed).examples("train"))
        return
    folder = Path(config.data_folder)
    form, format = FORMS[config.form], make_format(config.data.format, config.seed)
    yield from (row["prompt"] + row["completion"] for row in form.read(folder / form.file("train"), format))


def config_of_dataset(folder: Path) -> tuple[DataConfig, int, str]:
    """What a data set for fine-tuning is: its config, its seed and its form."""
    manifest = read_manifest(folder)
    if manifest.form not in ("openai", "openai_prompt"):
        raise Unsupported(
            f"{folder} is kept as {manifest.form}, and fine-tuning wants openai or openai_prompt: "
            "make it with 'carryon data make --as openai'"
        )
    return manifest.config, manifest.seed, manifest.form


def _read_json(path: Path) -> dict[str, Any] | None:
    return read_json(path, lambda _: BadRun(f"{path} is broken: a folder of another name starts anew"))


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Rows that can be read: the last may have been cut off by a kill."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
