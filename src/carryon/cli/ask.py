"""carryon ask: one problem to one model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .train import RUNS

if TYPE_CHECKING:
    from ..config import DataConfig
    from ..operations import Problem
    from ..runs import Run


def ask(
    run: Annotated[str, typer.Argument(help="A run's folder, name or hash.")],
    question: Annotated[str, typer.Argument(help="Such as 128+367 or 'sin(0.5)'.")],
    tokens: Annotated[bool, typer.Option("--tokens", help="Every token with its probability.")] = False,
    runs: Annotated[Path, typer.Option(help="Where run folders are kept.")] = RUNS,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a model one problem.

    Example: carryon ask quickstart 128+367 --tokens
    """
    from ..errors import BadInput
    from ..operations import parse_question
    from ..runs import find_run
    from .output import print_json

    found = find_run(run, runs)
    data = found.config.data
    problem = parse_question(question.replace(" ", "").rstrip("="), data.base)
    if problem is None:
        raise BadInput(f"{question!r} is not a problem such as 128+367 or sin(0.5)")
    written, read = answer(found, problem, device)
    right = read == problem.answer
    rows = _probabilities(found, problem, written, device) if tokens or as_json else []
    if as_json:
        print_json(
            {"question": problem.question, "written": written, "read": read, "answer": problem.answer, "tokens": rows}
        )
        return
    shown = "no answer" if read is None else read
    print(f"{problem.question} = {shown}  ({'right' if right else f'wrong: it is {problem.answer}'})")
    print(f"it was given {_prompt(found, problem)!r} and wrote {written!r}")
    for row in rows if tokens else []:
        others = "  ".join(f"{token!r} {chance:.1%}" for token, chance in row["likeliest"] if token != row["token"])
        print(f"  {row['token']!r:>6} {row['probability']:7.2%}    {others}")


def answer(run: "Run", problem: "Problem", device: str) -> tuple[str, str | None]:
    """What a model writes, and the number that is read from it."""
    from ..formats import make_format
    from ..generation import Completer
    from ..training import load_model

    format = make_format(_data_of(run, problem).format, run.config.seed)
    example = format.write(problem)
    model, tokenizer = load_model(run, device)
    longest = len(example.completion)
    (written,) = Completer(model, tokenizer, format.finished, longest + longest // 4 + 8)([example.prompt])
    return written, format.read(written)


def _prompt(run: "Run", problem: "Problem") -> str:
    from ..formats import make_format

    return make_format(_data_of(run, problem).format, run.config.seed).write(problem).prompt


def _data_of(run: "Run", problem: "Problem") -> "DataConfig":
    """The data set of several that has problems of this kind."""
    config = run.config
    return next((data for data in config.parts if data.operation == problem.operation.name), config.data)


def _probabilities(run: "Run", problem: "Problem", written: str, device: str) -> list[dict[str, Any]]:
    from ..generation import token_probabilities
    from ..training import load_model

    model, tokenizer = load_model(run, device)
    return token_probabilities(model, tokenizer, _prompt(run, problem), written)
