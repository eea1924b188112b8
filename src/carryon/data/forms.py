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


class Form(ABC):
    name: FormName
    suffix: str

    def file(self, split: str) -> str:
        """Path of a split's file inside the data set's folder."""
        return f"{split}.{self.suffix}"

    @abstractmethod
    def write(self, path: Path, rows: Iterable[Row]) -> None: ...

    @abstractmethod
    def read(self, path: Path, format: Format) -> Iterator[tuple[str, str]]:
        """Prompts and completions."""

    def finish(self, folder: Path, files: dict[str, str], title: str) -> None:
        """Whatever the folder needs beside its files."""
        return


class Lines(Form):
    """One JSON object a line."""

    suffix = "jsonl"

    @abstractmethod
    def pack(self, problem: Problem, example: Example) -> dict[str, Any]: ...

    @abstractmethod
    def unpack(self, row: Any) -> tuple[str, str]: ...

    def write(self, path: Path, rows: Iterable[Row]) -> None:
        encode = json.JSONEncoder(ensure_ascii=False).encode
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            for problem, example in rows:
                file.write(encode(self.pack(problem, example)) + "\n")
            sync(file)

    def read(self, path: Path, format: Format) -> Iterator[tuple[str, str]]:
        with open(path, encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                try:
                    prompt, completion = self.unpack(json.loads(line))
                    if not (isinstance(prompt, str) and isinstance(completion, str)):
                        raise TypeError("prompt and completion must be text")
                except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
                    raise BadDataset(f"{path} line {number} is broken: {error!r}") from None
                yield prompt, completion


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

    def unpack(self, row: Any) -> tuple[str, str]:
        return row["prompt"], row["completion"]


class OpenAI(Lines):
    name = "openai"

    def pack(self, problem: Problem, example: Example) -> dict[str, Any]:
        return {
            "messages": [
                {"role": "user", "content": example.prompt},
                {"role": "assistant", "content": example.completion},
            ]
        }

    def unpack(self, row: Any) -> tuple[str, str]:
        user, assistant = row["messages"]
        return user["content"], assistant["content"]


class OpenAIPrompt(Lines):
    name = "openai_prompt"

    def pack(self, problem: Problem, example: Example) -> dict[str, Any]:
        return {"prompt": example.prompt, "completion": example.completion}

    def unpack(self, row: Any) -> tuple[str, str]:
        return row["prompt"], row["completion"]


class Text(Form):
    name = "txt"
    suffix = "txt"

    def write(self, path: Path, rows: Iterable[Row]) -> None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(example.text for _, example in rows)
            sync(file)

    def read(self, path: Path, format: Format) -> Iterator[tuple[str, str]]:
        with open(path, encoding="utf-8", newline="\n") as file:
            return format.split(file.read())


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

    def read(self, path: Path, format: Format) -> Iterator[tuple[str, str]]:
        pa, pq = _pyarrow()
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["prompt", "completion"]):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
        except (pa.ArrowException, OSError) as error:
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


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("parquet and hf files need pyarrow: pip install 'carryon[parquet]'") from None
    return pyarrow, pyarrow.parquet
