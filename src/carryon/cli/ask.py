"""carryon ask: one problem to one model."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import RUNS, RunsFolder, check_part, number

if TYPE_CHECKING:
    from ..config import DataConfig, RunConfig
    from ..operations import Problem
    from ..runs import Run


def ask(
    run: Annotated[str, typer.Argument(help="A run's folder, name or hash.")],
    question: Annotated[str, typer.Argument(help="Such as 128+367 or 'sin(0.5)'.")],
    part: Annotated[int | None, number("In the format of this data set, of a run that learnt from several.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Every token with its probability.")] = False,
    runs: RunsFolder = RUNS,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a model one problem.

    Example: carryon ask quickstart 128+367 --tokens
    """
    from ..errors import BadInput
    from ..formats import make_format
    from ..operations import parse_question
    from ..runs import find_run
    from .output import print_json

    found = find_run(run, runs)
    config = found.config
    problem = parse_question(question.replace(" ", "").rstrip("="), config.data.base)
    if problem is None:
        raise BadInput(f"{question!r} is not a problem such as 128+367 or sin(0.5)")
    check_part(found, "--part", part or 0)
    data = config.parts[part] if part is not None else _data_for(config, problem)
    prompt = make_format(data.format, config.seed).write(problem).prompt
    written, read = answer(found, problem, data, device)
    right = read == problem.answer
    rows = _probabilities(found, prompt, written, device) if tokens or as_json else []
    if as_json:
        print_json(
            {"question": problem.question, "written": written, "read": read, "answer": problem.answer, "tokens": rows}
        )
        return
    shown = "no answer" if read is None else read
    print(f"{problem.question} = {shown}  ({'right' if right else f'wrong: it is {problem.answer}'})")
    print(f"it was given {prompt!r} and wrote {written!r}")
    for row in rows if tokens else []:
        others = "  ".join(f"{token!r} {chance:.1%}" for token, chance in row["likeliest"] if token != row["token"])
        print(f"  {row['token']!r:>6} {row['probability']:7.2%}    {others}")


def answer(run: "Run", problem: "Problem", data: "DataConfig", device: str) -> tuple[str, str | None]:
    """What a model writes in the format of a data set, and the number that is read from it."""
    from ..formats import make_format
    from ..generation import Completer
    from ..training import load_model

    format = make_format(data.format, run.config.seed)
    example = format.write(problem)
    model, tokenizer = load_model(run, device)
    longest = len(example.completion)
    (written,) = Completer(model, tokenizer, format.finished, longest + longest // 4 + 8)([example.prompt])
    return written, format.read(written)


def _data_for(config: "RunConfig", problem: "Problem") -> "DataConfig":
    """The data set of several that has problems of this kind."""
    return next((data for data in config.parts if data.operation == problem.operation.name), config.data)


def _probabilities(run: "Run", prompt: str, written: str, device: str) -> list[dict[str, Any]]:
    from ..generation import token_probabilities
    from ..training import load_model

    model, tokenizer = load_model(run, device)
    return token_probabilities(model, tokenizer, prompt, written)
