"""carryon hosted: models behind a server that speaks OpenAI's protocol."""

import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .endpoint import (
    AsJson,
    Base,
    BaseUrl,
    Digits,
    Format,
    KeyVariable,
    NumTest,
    Operation,
    Spaces,
    SplitSeed,
    Stop,
    Timeout,
    data_config,
    endpoint_config,
    refuse_beside,
    tell,
)
from .finetune import finetune
from .options import amount, check_failures, number

if TYPE_CHECKING:
    from ..evaluation import Report
    from ..interop.hosted import HostedExam

app = typer.Typer(
    help="Ask and fine-tune models behind OpenAI's protocol: OpenAI, vLLM, llama.cpp, Ollama, transformers serve, …",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
HOSTED = Path("hosted")


@app.command()
def evaluate(
    model: Annotated[str | None, typer.Option(help="The model's name at the server.")] = None,
    base_url: BaseUrl = None,
    key_variable: KeyVariable = None,
    job: Annotated[
        Path | None, typer.Option(help="Ask the model of this fine-tuning job, on the test set of its data.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="chat (if left out) or completion.")] = None,
    operation: Operation = None,
    digits: Digits = None,
    base: Base = None,
    format: Format = None,
    spaces: Spaces = False,
    stop: Stop = None,
    split: Annotated[str, typer.Option(help="test or validation.")] = "test",
    num_test: NumTest = None,
    split_seed: SplitSeed = None,
    problems: Annotated[
        Path | None, typer.Option(help="Problems from a file: JSONL as for render, or lines such as 128+367=495.")
    ] = None,
    limit: Annotated[int | None, number("At most this many problems.", 1)] = None,
    instruction: Annotated[
        str, typer.Option(help="The system's message, or text in front of completions; \\n is a newline.")
    ] = "",
    examples: Annotated[int, number("Worked examples in front of every problem.", 0)] = 0,
    wrong_examples: Annotated[bool, typer.Option("--wrong-examples", help="Give those wrong answers.")] = False,
    example_set: Annotated[int, number("Which examples.")] = 0,
    temperature: Annotated[float, amount("0 is greedy.", 0)] = 0.0,
    server_temperature: Annotated[
        bool, typer.Option("--server-temperature", help="Send no temperature: some models take only their own.")
    ] = False,
    top_p: Annotated[float | None, amount("Sample from the likeliest tokens of this much together.")] = None,
    seed: Annotated[int | None, number("Of the sampled tokens, for servers that know one.")] = None,
    max_tokens: Annotated[
        int | None, number("Most tokens of an answer; if left out, what right answers need and a quarter more.")
    ] = None,
    no_stop: Annotated[bool, typer.Option("--no-stop", help="Send no stop sequence.")] = False,
    answer_after: Annotated[
        str | None, typer.Option(help="Read only what follows the last of these, such as '</think>'.")
    ] = None,
    body: Annotated[
        list[str] | None, typer.Option(metavar="A.B=C", help="Another field of the request, such as top_k=1.")
    ] = None,
    concurrency: Annotated[int, number("Requests at the same time.")] = 8,
    retries: Annotated[int, number("Times a request is sent again when the server fails.")] = 6,
    timeout: Timeout = 60.0,
    requests_per_minute: Annotated[float | None, amount("Not more than these.")] = None,
    tokens_per_minute: Annotated[float | None, amount("Not more than these, answers included.")] = None,
    price_input: Annotated[float | None, amount("Dollars for a million tokens of prompts.", 0)] = None,
    price_output: Annotated[float | None, amount("Dollars for a million tokens of answers.", 0)] = None,
    max_cost: Annotated[float | None, amount("Stop before more dollars than this are spent.", 0)] = None,
    max_requests: Annotated[int | None, number("Stop after so many requests, earlier tries' counted in.")] = None,
    answers: Annotated[
        Path | None, typer.Option(help="The file of all answers; hosted/MODEL.jsonl if left out.")
    ] = None,
    unanswered_are_wrong: Annotated[
        bool, typer.Option("--unanswered-are-wrong", help="Count what the server failed to answer as wrong.")
    ] = False,
    failures: Annotated[Path | None, typer.Option(help="Write what went wrong to this JSONL file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of failures.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Score a hosted model on test problems. Interrupted, the same command goes on where it stopped.

    The key comes from the environment. Every answer is kept in a file and never asked for twice.

    Example: carryon hosted evaluate --model my-model --base-url http://127.0.0.1:8000/v1 --format plain --num-test 1000
    """
    from ..config import EvaluationConfig, load, override
    from ..errors import BadConfig, UnknownName
    from ..files import write_whole
    from ..interop.hosted import Endpoint, HostedExam, LimitsConfig, RequestConfig, TuningJob
    from .output import print_json

    check_failures(failures, force)
    if split not in ("test", "validation"):
        raise UnknownName("split", split, ("test", "validation"))
    given = {"operation": operation, "base": base, "digits": digits, "format": format, "spaces": spaces, "stop": stop}
    given |= {"num_test": num_test, "split_seed": split_seed}
    tuned = None if job is None else TuningJob.open(job)
    if tuned is not None:
        refuse_beside(f"the data of --job {job} says which problems", given)
        model, base_url = model or tuned.tuned_model, base_url or tuned.config.base_url
        kind = kind or ("chat" if tuned.config.form == "openai" else "completion")
        data = tuned.config.data
    else:
        data = data_config(given)
    if model is None:
        raise BadConfig("which model? Name it with --model, or a fine-tuning job with --job")
    request = load(
        RequestConfig,
        {
            "model": model,
            "kind": kind or "chat",
            "instruction": instruction.replace("\\n", "\n"),
            "temperature": None if server_temperature else temperature,
            "top_p": top_p,
            "seed": seed,
            "max_tokens": max_tokens,
            "send_stop": not no_stop,
            "answer_after": answer_after,
            "body": override({}, body or ()),
        },
        as_options=True,
    )
    limits = load(
        LimitsConfig,
        {
            "concurrency": concurrency,
            "retries": retries,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "price_input": price_input,
            "price_output": price_output,
            "max_cost": max_cost,
            "max_requests": max_requests,
        },
        as_options=True,
    )
    question = load(
        EvaluationConfig,
        {
            "problems": split,
            "limit": limit,
            "data": data,
            "prefix": request.instruction,
            "examples": examples,
            "wrong_examples": wrong_examples,
            "example_set": example_set,
            "temperature": request.temperature or 0.0,
            "seed": seed or 0,
        },
    )
    asked, written_in, shots = _prepare(question, data, tuned.config.seed if tuned else 0, problems)
    with Endpoint(endpoint_config(base_url, key_variable, timeout)) as endpoint:
        exam = HostedExam(
            endpoint,
            request,
            asked,
            written_in,
            answers or HOSTED / f"{_slug(model)}.jsonl",
            limits=limits,
            shots=shots,
            unanswered_are_wrong=unanswered_are_wrong,
        )
        estimate = exam.estimate()
        if dry_run:
            print_json(estimate.as_dict()) if as_json else print(estimate.in_words())
            return
        print(estimate.in_words(), file=sys.stderr)
        if max_cost is not None and estimate.most_cost is not None and estimate.most_cost > max_cost:
            print(f"that may be more than the cap of ${max_cost:g}, where it will stop", file=sys.stderr)
        if exam.torn:
            lines = "1 line" if exam.torn == 1 else f"{exam.torn:,} lines"
            tell(f"{lines} of the answers' file cannot be read, as a kill leaves them: those are asked again")
        result, report = _ask(exam, model)
    result |= {"config": question.model_dump(mode="json"), "request": request.model_dump(mode="json")}
    if problems is not None:
        result["file"] = str(problems)
    if as_json:
        print_json(result)
    else:
        _print_result(result, question, endpoint.config.host)
    if failures is not None:
        write_whole(failures, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in report.failures))


app.command()(finetune)


def _prepare(question: Any, data: Any, seed: int, file: Path | None) -> tuple[Any, Any, list[tuple[str, str]]]:
    """The problems, the format they are written in, and the examples in front of them."""
    from ..data import domain_of, draw_held_out, make_dataset
    from ..evaluation import exemplar_pairs, read_problems
    from ..formats import make_format
    from ..operations import Problems

    format = make_format(data.format, seed)
    format.check(data.operation, data.operands)
    problems: Any
    if file is not None:
        with open(file, encoding="utf-8") as lines:
            problems = read_problems(lines, str(file), data.base)
    else:
        problems = Problems(*domain_of(data), getattr(draw_held_out(data), question.problems))
    shots = []
    if question.examples:
        dataset = make_dataset(data, seed)
        shots = exemplar_pairs(dataset, question.examples, question.example_set, question.wrong_examples)
    return problems[: question.limit], format, shots


def _ask(exam: "HostedExam", label: str) -> tuple[dict[str, Any], "Report"]:
    from .progress import progress

    started = time.monotonic()
    try:
        with progress(len(exam), "problems answered") as advance:
            result, report = exam.ask(lambda done: advance(done, label), tell)
    except KeyboardInterrupt:
        tell("what was answered is kept: the same command goes on from there")
        raise
    return result | {"seconds": round(time.monotonic() - started, 3)}, report


def _slug(model: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-.")[-80:] or "model"


def _bounds(uncounted: int) -> str:
    if not uncounted:
        return ""
    requests = "1 request" if uncounted == 1 else f"{uncounted:,} requests"
    return f" at most (the server did not say how many {requests} took)"


def _print_result(result: dict[str, Any], question: Any, host: str) -> None:
    from ..evaluation import describe
    from ..interop.hosted.costs import dollars
    from .scores import print_scores

    what = result.get("file") or describe(question)
    if result["request"]["temperature"] is None:
        what = what.removesuffix(", greedy") + ", at the server's temperature"
    # Problems without an answer are told of below: here they would be counted twice.
    read = result | {"unreadable": max(0, result["unreadable"] - result["unanswered"])}
    print_scores(read, f"{result['model']} at {host}: {what}, {question.data.format.name}")
    more = f"cut at {result['max_tokens']:,} tokens: --max-tokens gives more"
    for count, one, many in (
        (result["cut_short"], f"answer was {more}", f"answers were {more}"),
        (
            result["filtered"],
            "answer was withheld by the server's filter",
            "answers were withheld by the server's filter",
        ),
        (
            result["unanswered"],
            "problem got no answer and counts as wrong",
            "problems got no answer and count as wrong",
        ),
    ):
        if count:
            print(f"{count:,} {one if count == 1 else many}")
    cost = f", ${dollars(result['cost'])}" if result["cost"] is not None else ""
    print(
        f"{result['asked_now']:,} requests now; {result['requests']:,} in all that were answered or may be charged"
        f"{cost}, {result['input_tokens']:,} tokens of prompts and {result['output_tokens']:,} of answers"
        f"{_bounds(result['uncounted'])}; every answer is in {result['answers']}"
    )
