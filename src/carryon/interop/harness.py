"""Test sets as tasks for lm-evaluation-harness.

FOLDER/  README.md            the one command
         TASK/  task.yaml     what the harness reads
                test.jsonl    the problems
                train.jsonl   examples to put in front, for --num_fewshot
                scoring.py    reads an answer as the format does, which is what evaluation here does

A completion is cut by the harness at a stop text, which is gone then. Where a format closes with more than its end
mark, `$` and a newline, the stop is what follows the mark; else it is the mark, and scoring puts it back.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..config import DataConfig
from ..data import Dataset, files_in, whole_folder
from ..errors import Unsupported
from ..files import write_whole
from ..formats import Example, Format
from ..tokenizers import Characters, Tokenizer

_SHOTS = 1_000
"""Training examples that come along."""
_MARK = "Made by carryon for lm-evaluation-harness."
_TASK_FILES = ("task.yaml", "test.jsonl", "train.jsonl", "scoring.py")


class Ending(NamedTuple):
    """How the harness knows that a completion is done."""

    until: list[str]
    puts_back: bool
    """Whether the stop is the end mark itself."""


def export_lm_eval(
    parts: Sequence[Dataset],
    folder: Path,
    *,
    tokenizer: Tokenizer | None = None,
    context: int | None = None,
    force: bool = False,
) -> list[str]:
    """The test sets as a folder of tasks, whose names are returned.

    `tokenizer` and `context` are those of the model to be asked: answers get the room they get here.
    """
    names = _names([part.splits.config for part in parts])
    with whole_folder(folder, force, "tasks for lm-eval", _holds_tasks) as partial:
        for name, part in zip(names, parts, strict=True):
            if not part.size("test"):
                raise Unsupported(f"{name} has no test problems: set data.num_test")
            _write_task(partial / name, name, part, tokenizer, context)
        write_whole(partial / "README.md", _readme(names, parts))
    return names


def _write_task(folder: Path, name: str, part: Dataset, tokenizer: Tokenizer | None, context: int | None) -> None:
    tests = list(part.examples("test"))
    shots = [part.format.write(problem) for problem in part.problems("train")[:_SHOTS]]
    ending = _ending(part.format, tests + shots)
    room = _room(tests, tokenizer, context)
    # Shorter than this, a text without its mark was cut there; what is as long ran out of room.
    limit = room
    if tokenizer is not None and not isinstance(tokenizer, Characters):
        limit = max(room, 1 + max(len(example.completion) for example in tests))
    folder.mkdir()
    write_whole(folder / "task.yaml", _yaml(name, ending.until, room, bool(shots)))
    write_whole(folder / "test.jsonl", _lines(tests))
    write_whole(folder / "train.jsonl", _lines(shots))
    write_whole(folder / "scoring.py", _scoring(part.format, ending, limit))


def _ending(format: Format, examples: list[Example]) -> Ending:
    bodies = [example.completion.removesuffix(format.closing) for example in examples]
    behind = format.closing.removeprefix(format.end)
    if behind and not any(behind in body for body in bodies):
        return Ending([behind], puts_back=False)
    if not any(format.end in body for body in bodies):
        return Ending([format.end], puts_back=True)
    # The mark occurs on the way. What comes after the answer is the next question.
    return Ending([format.before] if format.before else [], puts_back=False)


def _room(examples: list[Example], tokenizer: Tokenizer | None, context: int | None) -> int:
    """Tokens for an answer: as many as evaluation here gives it, and no more than the model has places for.

    The harness would cut a prompt that leaves less than this.
    """
    size = len if tokenizer is None else lambda text: len(tokenizer.encode(text))
    longest = max(size(example.completion) for example in examples)
    room = longest + longest // 4 + 8
    if context is None:
        return room
    prompt = max(size(example.prompt) for example in examples)
    if prompt >= context:
        raise Unsupported(f"a prompt of {prompt} tokens does not fit the model's context of {context}")
    return min(room, context - prompt)


def _names(configs: list[DataConfig]) -> list[str]:
    """carryon_add_reverse_3, and a number behind it where that is not one task alone."""
    names = []
    for config in configs:
        digits = f"_{config.longest}" if config.is_integer else ""
        base = f"_base{config.base}" if config.base != 10 else ""
        names.append(f"carryon_{config.operation}_{config.format.name}{digits}{base}")
    return [name if names.count(name) == 1 else f"{name}_part{number}" for number, name in enumerate(names)]


def _lines(examples: list[Example]) -> str:
    return "".join(json.dumps(example._asdict(), ensure_ascii=False) + "\n" for example in examples)


def _yaml(name: str, until: list[str], room: int, has_shots: bool) -> str:
    return f"""# {_MARK}
task: {name}
tag: carryon
custom_dataset: !function scoring.load
test_split: test
{"fewshot_split: train" if has_shots else "# no training examples, so no --num_fewshot"}
output_type: generate_until
doc_to_text: prompt
doc_to_target: completion
target_delimiter: ""
fewshot_delimiter: ""
generation_kwargs:
  until: {json.dumps(until)}
  do_sample: false
  max_gen_toks: {room}
process_results: !function scoring.score
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1
"""


def _scoring(format: Format, ending: Ending, limit: int) -> str:
    put_back = (
        f"    if len(written) < {limit}:  # cut at its end mark, not out of room\n        written += FORMAT.end\n"
    )
    options = {"name": format.name} | format.config.model_dump(mode="json", exclude_defaults=True)
    return f'''"""Reads answers as the format {format.name} does. {_MARK}"""

import json
from pathlib import Path

import datasets

from carryon.config import FormatConfig
from carryon.formats import make_format

FORMAT = make_format(FormatConfig(**{options!r}))


def load(**settings):
    """The problems, and examples to put in front of them."""
    folder = Path(__file__).parent
    return {{split: datasets.Dataset.from_list(_rows(folder / f"{{split}}.jsonl")) for split in ("test", "train")}}


def _rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def score(doc, results):
    written = results[0]
{put_back if ending.puts_back else ""}    return {{"exact_match": float(FORMAT.read(written) == doc["answer"])}}
'''


def _readme(names: list[str], parts: Sequence[Dataset]) -> str:
    rows = "".join(
        f"| `{name}` | {part.size('test'):,} | `{part.splits.config.operation}` | `{part.format.name}` |\n"
        for name, part in zip(names, parts, strict=True)
    )
    return f"""# Tasks for lm-evaluation-harness

{_MARK}

| task | problems | operation | format |
|---|--:|---|---|
{rows}
```bash
lm_eval run --model hf --model_args pretrained=MODEL --batch_size 64 \\
  --include_path THIS_FOLDER --tasks {",".join(names)}
```

MODEL is a folder that `carryon export RUN --to hf` wrote, or any other model. carryon has to be installed beside the
harness: `scoring.py` reads an answer with the very code that reads it there, so both count the same answers as right.
`--num_fewshot 3` puts training examples in front, one after the other, as a training stream does; mind the context.
"""


def _holds_tasks(path: Path) -> bool:
    readme = path / "README.md"
    tasks = {entry.name for entry in path.iterdir() if entry.is_dir() and not entry.is_symlink()}
    ours = {"README.md"} | {f"{task}/{file}" for task in tasks for file in _TASK_FILES}
    return readme.is_file() and _MARK in readme.read_text(encoding="utf-8", errors="replace") and files_in(path) <= ours
