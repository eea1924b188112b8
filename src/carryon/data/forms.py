"""The kinds of file a data set can be kept in.

    txt             the examples one after the other, as a model is trained on them
    jsonl           {"operation", "operands", "prompt", "completion", "answer"} a line
    parquet         the same columns                                             (the extra carryon[parquet])
    hf              a folder that Hugging Face's load_dataset opens              (the extra carryon[parquet])
    openai          {"messages": [{user}, {assistant}]} a line, for chat fine-tuning
    openai_prompt   {"prompt", "completion"} a line

Every form reads back what it wrote, so that a data set on disk can be checked example by example.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ..config import FormName
from ..errors import BadDataset, MissingExtra
from ..files import sync
from ..formats import Example, Format
from ..operations import Problem

Row = tuple[Problem, Example]
_ROWS_AT_ONCE = 16_384
_LONGEST_LINE = 4_000_000
"""Characters; a detailed scratchpad of the longest operands has about as many."""


class Form(ABC):
    name: FormName
    suffix: str

    def file(self, split: str) -> str:
        """Path of a split's file inside the data set's folder."""
        return f"{split}.{self.suffix}"

    @abstractmethod
    def write(self, path: Path, rows: Iterable[Row]) -> None: ...

    @abstractmethod
    def read(self, path: Path, format: Format) -> Iterator[dict[str, Any]]:
        """What the file says of each example: "prompt" and "completion" as text, and all else it holds.

        BadDataset where it cannot be read.
        """

    def finish(self, folder: Path, files: dict[str, str], title: str) -> None:
        """Whatever the folder needs beside its files."""
        return


class Lines(Form):
    """One JSON object a line."""

    suffix = "jsonl"

    @abstractmethod
    def pack(self, problem: Problem, example: Example) -> dict[str, Any]: ...

    @abstractmethod
    def unpack(self, row: Any) -> dict[str, Any]: ...

    def write(self, path: Path, rows: Iterable[Row]) -> None:
        encode = json.JSONEncoder(ensure_ascii=False).encode
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            for problem, example in rows:
                file.write(encode(self.pack(problem, example)) + "\n")
            sync(file)

    def read(self, path: Path, format: Format) -> Iterator[dict[str, Any]]:
        number = 0
        with open(path, encoding="utf-8", newline="\n") as file:
            try:
                while line := file.readline(_LONGEST_LINE):
                    number += 1
                    yield _with_texts(self.unpack(json.loads(line)))
            except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
                raise BadDataset(f"{path} line {max(number, 1)} is broken: {error!r}") from None


class Jsonl(Lines):
    name = "jsonl"

    def pack(self, problem: Problem, example: Example) -> dict[str, Any]:
        return {
            "operation": problem.operation.name,
            "operands": problem.operands,
            "prompt": example.prompt,
            "completion": example.completion,
            "answer": example.answer,
        }

    def unpack(self, row: Any) -> dict[str, Any]:
        return dict(row)


class OpenAI(Lines):
    name = "openai"

    def pack(self, problem: Problem, example: Example) -> dict[str, Any]:
        return {
            "messages": [
                {"role": "user", "content": example.prompt},
                {"role": "assistant", "content": example.completion},
            ]
        }

    def unpack(self, row: Any) -> dict[str, Any]:
        user, assistant = row["messages"]
        if (user["role"], assistant["role"]) != ("user", "assistant"):
            raise ValueError("the messages are not those of a user and an assistant")
        return {"prompt": user["content"], "completion": assistant["content"]}


class OpenAIPrompt(Lines):
    name = "openai_prompt"

    def pack(self, problem: Problem, example: Example) -> dict[str, Any]:
        return {"prompt": example.prompt, "completion": example.completion}

    def unpack(self, row: Any) -> dict[str, Any]:
        if set(row) != {"prompt", "completion"}:
            raise ValueError(f"has the keys {sorted(row)}, not prompt and completion alone")
        return dict(row)


class Text(Form):
    name = "txt"
    suffix = "txt"

    def write(self, path: Path, rows: Iterable[Row]) -> None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(example.text for _, example in rows)
            sync(file)

    def read(self, path: Path, format: Format) -> Iterator[dict[str, Any]]:
        try:
            with open(path, encoding="utf-8", newline="\n") as file:
                text = file.read()
        except UnicodeDecodeError as error:
            raise BadDataset(f"{path} is not UTF-8: {error.reason} at byte {error.start:,}") from None
        for prompt, completion in format.split(text):
            yield {"prompt": prompt, "completion": completion}


class Columns(Form):
    """Parquet."""

    suffix = "parquet"

    def write(self, path: Path, rows: Iterable[Row]) -> None:
        pa, pq = _pyarrow()
        texts = ("operation", "prompt", "completion", "answer")
        schema = pa.schema([("operands", pa.list_(pa.string()))] + [(name, pa.string()) for name in texts])
        rows = iter(rows)
        with open(path, "wb") as file:
            with pq.ParquetWriter(file, schema) as writer:
                while chunk := list(islice(rows, _ROWS_AT_ONCE)):
                    columns = {
                        "operands": [list(problem.operands) for problem, _ in chunk],
                        "operation": [problem.operation.name for problem, _ in chunk],
                        **{name: [getattr(example, name) for _, example in chunk] for name in texts[1:]},
                    }
                    writer.write_table(pa.table(columns, schema=schema))
            sync(file)

    def read(self, path: Path, format: Format) -> Iterator[dict[str, Any]]:
        pa, pq = _pyarrow()
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS_AT_ONCE):
                    yield from map(_with_texts, batch.to_pylist())
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
            raise BadDataset(f"{path} is broken: {error}") from None


class Parquet(Columns):
    name = "parquet"


class HuggingFace(Columns):
    name = "hf"

    def file(self, split: str) -> str:
        return f"data/{split}.parquet"

    def finish(self, folder: Path, files: dict[str, str], title: str) -> None:
        listed = "".join(f"  - split: {split}\n    path: {path}\n" for split, path in files.items())
        card = (
            f"---\nlicense: mit\npretty_name: {title}\nconfigs:\n- config_name: default\n  data_files:\n{listed}---\n\n"
            f"# {title}\n\nMade by carryon; manifest.json holds its config, counts and hashes.\n"
        )
        with open(folder / "README.md", "w", encoding="utf-8") as file:
            file.write(card)
            sync(file)


FORMS: dict[str, Form] = {
    form.name: form for form in (Text(), Jsonl(), Parquet(), HuggingFace(), OpenAI(), OpenAIPrompt())
}


def _with_texts(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("prompt", "completion"):
        if not isinstance(row[name], str):
            raise TypeError(f"{name} must be text, not {row[name]!r}")
    return row


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("parquet and hf files need pyarrow: pip install 'carryon[parquet]'") from None
    return pyarrow, pyarrow.parquet
