"""carryon evaluate: questions to a finished model."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import RUNS, RunsFolder, check_failures, check_part, number


def evaluate(
    run: Annotated[str, typer.Argument(help="A run's folder, name or hash.")],
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Every problem of the domain.")] = False,
    split: Annotated[str, typer.Option(help="test, validation or train; text: the text held out.")] = "test",
    problems: Annotated[
        Path | None, typer.Option(help="Problems from a file: JSONL as for render, or lines such as 128+367=495.")
    ] = None,
    part: Annotated[int, number("Which data set of a run that learnt from several, from 0 on.")] = 0,
    lengths: Annotated[
        str | None, typer.Option(help="Problems of just these numbers of digits: 5,100,200x3; --limit of each.")
    ] = None,
    grid: Annotated[bool, typer.Option("--grid", help="Every pair of --lengths.")] = False,
    limit: Annotated[int | None, number("At most this many problems.")] = None,
    prefix: Annotated[str, typer.Option(help="Text in front of every prompt; \\n is a newline.")] = "",
    examples: Annotated[int, number("Training examples in front of every prompt.")] = 0,
    wrong_examples: Annotated[bool, typer.Option("--wrong-examples", help="Give those wrong answers.")] = False,
    example_set: Annotated[int, number("Which examples.")] = 0,
    examples_part: Annotated[int | None, number("Which data set they come from; else that of --part.")] = None,
    text_prompt: Annotated[
        str | None,
        typer.Option(
            help="Text in front: short outside, long outside, numbers outside, short inside or long inside (of tiny "
            "Shakespeare); --example-set says which."
        ),
    ] = None,
    corrupt: Annotated[str, typer.Option(help="random or precise: two wrong digits first, the third scored.")] = "none",
    temperature: Annotated[float, typer.Option(help="0 is greedy; the paper says 0.8.")] = 0.0,
    top_k: Annotated[int | None, number("Sample from the likeliest k tokens.")] = None,
    seed: Annotated[int, number("Of the sampled tokens.")] = 0,
    failures: Annotated[Path | None, typer.Option(help="Write what went wrong to this JSONL file.")] = None,
    precision: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    runs: RunsFolder = RUNS,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Ask again what was asked before.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score a model on its test set, on every problem there is, or on problems of your own.

    Example: carryon evaluate quickstart --exhaustive --failures failures.jsonl
    """
    from ..config import EvaluationConfig, load
    from ..errors import BadInput
    from ..evaluation import describe
    from ..evaluation import text_prompt as read_text_prompt
    from ..runs import find_run
    from .output import print_json
    from .scores import print_scores

    if exhaustive and split != "test":
        raise BadInput(f"--exhaustive asks every problem there is, --split {split} some: leave one out")
    if lengths is not None and (exhaustive or problems is not None or split not in ("test", "validation")):
        raise BadInput("--lengths draws problems of its own: leave out --exhaustive and --problems, and --split train")
    if failures is not None and split == "text":
        raise BadInput("--failures goes with problems: there are none in --split text")
    if example_set and not examples and text_prompt is None:
        raise BadInput(f"--example-set {example_set} goes with --examples or --text-prompt: add one, or leave it out")
    if grid and lengths is None:
        raise BadInput("--grid asks every pair of lengths: say which with --lengths")
    pairs = [length.strip() for length in lengths.split(",")] if lengths is not None else []
    if grid:
        pairs = [f"{first}x{second}" for first in pairs for second in pairs]
    found = find_run(run, runs)
    check_part(found, "--part", part)
    check_part(found, "--examples-part", examples_part or 0)
    if text_prompt is not None:
        prefix = read_text_prompt(text_prompt, example_set) + prefix
    question = load(
        EvaluationConfig,
        {
            "problems": "exhaustive" if exhaustive else split,
            "part": part,
            **({"lengths": pairs, "each": 100 if limit is None else limit} if pairs else {"limit": limit}),
            "prefix": prefix.replace("\\n", "\n"),
            "examples": examples,
            "wrong_examples": wrong_examples,
            "example_set": example_set if examples else 0,
            "examples_part": examples_part,
            "corrupt": corrupt,
            "temperature": temperature,
            "top_k": top_k,
            "seed": seed,
        },
    )
    check_failures(failures, force)
    known = None if problems or failures or force else found.read_evaluation(question.hash)
    result = known or _ask(found, question, problems, failures, device, precision)
    if as_json:
        print_json(result)
    else:
        title = f"{found.path.name}: {result.get('file') or describe(load(EvaluationConfig, result['config']))}"
        print_scores(result, title)


def _ask(found: Any, question: Any, file: Path | None, failures: Path | None, device: str, precision: str) -> Any:
    from ..data import make_dataset
    from ..devices import pick_precision
    from ..evaluation import read_problems
    from ..files import write_whole
    from ..training import Exam, Reading, load_model, make_exam
    from .progress import progress

    model, tokenizer = load_model(found, device)
    where = next(model.parameters()).device
    parts = [make_dataset(data, found.config.seed) for data in found.config.parts]
    asked = question, parts, model, tokenizer, pick_precision(precision, where)
    if file is not None:
        with open(file, encoding="utf-8") as lines:
            listed = read_problems(lines, str(file), found.config.parts[question.part].base)[: question.limit]
        exam: Exam | Reading = Exam(*asked, problems=listed, run=found.config)
    else:
        exam = make_exam(*asked, run=found.config)
    started = time.monotonic()
    with progress(len(exam.problems), "problems asked") as advance:
        result, report = exam.ask(tick=lambda done: advance(done, found.path.name))
    result |= {"config": question.model_dump(mode="json"), "seconds": round(time.monotonic() - started, 3)}
    if file is not None:
        result["file"] = str(file)
    else:
        found.write_evaluation(question.hash, result)
    if failures is not None and report is not None:
        write_whole(failures, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in report.failures))
    return result
