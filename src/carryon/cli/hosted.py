"""carryon hosted: models behind a server that speaks OpenAI's protocol."""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import amount, number

if TYPE_CHECKING:
    from ..interop.hosted import EndpointConfig, HostedExam, TuningJob

app = typer.Typer(
    help="Ask and fine-tune models behind OpenAI's protocol: OpenAI, vLLM, llama.cpp, Ollama, transformers serve, …",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
HOSTED = Path("hosted")

BaseUrl = Annotated[
    str | None, typer.Option(help="The server, such as http://127.0.0.1:8000/v1; OPENAI_BASE_URL if left out.")
]
KeyVariable = Annotated[
    str | None, typer.Option(help="The environment variable with the key, or none; OPENAI_API_KEY if left out.")
]
Timeout = Annotated[float, amount("Seconds for one whole answer.", 0.001)]
Operation = Annotated[str, typer.Option(help="add, subtract, multiply, sine or sqrt.")]
Digits = Annotated[int, number("Longest operand of the integer operations.")]
Base = Annotated[int, number("2 to 10, for the integer operations.")]
Format = Annotated[str, typer.Option(help="How problems are written; 'carryon gallery' shows all.")]
Spaces = Annotated[bool, typer.Option("--spaces", help="A space between neighbouring digits.")]
Stop = Annotated[str | None, typer.Option(help="Text that ends a completion, in place of its newline.")]
SplitSeed = Annotated[int, number("Which test and validation sets.")]
NumTest = Annotated[int | None, number("Test problems; 10,000 or what a small domain allows.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def evaluate(
    model: Annotated[str | None, typer.Option(help="The model's name at the server.")] = None,
    base_url: BaseUrl = None,
    key_variable: KeyVariable = None,
    job: Annotated[
        Path | None, typer.Option(help="Ask the model of this fine-tuning job, on the test set of its data.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="chat (if left out) or completion.")] = None,
    operation: Operation = "add",
    digits: Digits = 3,
    base: Base = 10,
    format: Format = "hosted_plain",
    spaces: Spaces = False,
    stop: Stop = None,
    split: Annotated[str, typer.Option(help="test or validation.")] = "test",
    num_test: NumTest = None,
    split_seed: SplitSeed = 0,
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
    max_requests: Annotated[int | None, number("Stop after so many requests.")] = None,
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
    from ..config import DataConfig, EvaluationConfig, load, override
    from ..errors import BadConfig, PathExists, UnknownName
    from ..interop.hosted import Endpoint, HostedExam, LimitsConfig, RequestConfig, TuningJob
    from .output import print_json

    if failures is not None and failures.exists() and not force:
        raise PathExists(f"{failures} is already there: choose another path, or pass --force to replace it")
    if split not in ("test", "validation"):
        raise UnknownName("split", split, ("test", "validation"))
    tuned = None if job is None else TuningJob.open(job)
    if tuned is not None:
        model, base_url = model or tuned.tuned_model, base_url or tuned.config.base_url
        kind = kind or ("chat" if tuned.config.form == "openai" else "completion")
        data = tuned.config.data
    else:
        values = {"operation": operation, "base": base, "digits": digits, "num_test": num_test}
        data = load(DataConfig, {**values, "split_seed": split_seed, "format": _format(format, spaces, stop, digits)})
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
    with Endpoint(_endpoint(base_url, key_variable, timeout)) as endpoint:
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
        result = _ask(exam, model, failures)
    result |= {"config": question.model_dump(mode="json"), "request": request.model_dump(mode="json")}
    if problems is not None:
        result["file"] = str(problems)
    if as_json:
        print_json(result)
    else:
        _print_result(result, question, endpoint.config.host)


def _prepare(question: Any, data: Any, seed: int, file: Path | None) -> tuple[Any, Any, list[tuple[str, str]]]:
    """The problems, the format they are written in, and the examples in front of them."""
    from ..data import domain_of, draw_held_out, make_dataset
    from ..evaluation import exemplar_pairs, read_problems
    from ..formats import make_format
    from ..operations import Problems

    format = make_format(data.format, seed)
    format.check(data.operation)
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


def _ask(exam: "HostedExam", label: str, failures: Path | None) -> dict[str, Any]:
    from ..files import write_whole
    from .progress import progress

    started = time.monotonic()
    try:
        with progress(len(exam), "problems answered") as advance:
            result, report = exam.ask(lambda done: advance(done, label), _tell)
    except KeyboardInterrupt:
        _tell("what was answered is kept: the same command goes on from there")
        raise
    if failures is not None:
        write_whole(failures, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in report.failures))
    return result | {"seconds": round(time.monotonic() - started, 3)}


@app.command()
def finetune(
    folder: Annotated[Path, typer.Argument(help="The job's folder; with a job in it, goes on with that.")],
    model: Annotated[str | None, typer.Option(help="The model to start from.")] = None,
    base_url: BaseUrl = None,
    key_variable: KeyVariable = None,
    data: Annotated[
        Path | None, typer.Option(help="A data set made with 'carryon data make --as openai'; else one is made.")
    ] = None,
    operation: Operation = "add",
    digits: Digits = 3,
    base: Base = 10,
    format: Format = "hosted_plain",
    spaces: Spaces = False,
    stop: Stop = None,
    size: Annotated[int, number("Training examples.")] = 1_000,
    sampler: Annotated[str | None, typer.Option(help="As for 'carryon data make'.")] = None,
    seed: Annotated[int, number("Which training sample.")] = 0,
    split_seed: SplitSeed = 0,
    num_test: NumTest = None,
    form: Annotated[str, typer.Option("--as", help="openai for chat models, openai_prompt for completion.")] = "openai",
    no_validation: Annotated[bool, typer.Option("--no-validation", help="Upload no validation set.")] = False,
    suffix: Annotated[str | None, typer.Option(help="Part of the tuned model's name.")] = None,
    epochs: Annotated[int | None, number("Passes over the data; the server decides if left out.")] = None,
    batch_size: Annotated[int | None, number("Examples a step; the server decides if left out.")] = None,
    learning_rate_multiplier: Annotated[float | None, amount("The server decides if left out.")] = None,
    price: Annotated[float | None, amount("Dollars for a million tokens of training.", 0)] = None,
    retries: Annotated[int, number("Times a request is sent again when the server fails.")] = 20,
    timeout: Timeout = 60.0,
    poll: Annotated[float, amount("Most seconds between two looks at the job.", 0.05)] = 20.0,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Create the job and leave.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the folder's job.")] = False,
    adopt: Annotated[str | None, typer.Option(help="Follow this job of the server's in the folder.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upload a training set, create a fine-tuning job and follow it to its end.

    Safe to interrupt: the job goes on at the server, and the same command finds it again and never creates a second.

    Example: carryon hosted finetune jobs/add --model gpt-4.1-nano-2025-04-14 --operation add --format hosted_plain
    """
    from ..config import DataConfig, load
    from ..errors import BadConfig, BadRun
    from ..interop.hosted import (
        Endpoint,
        LimitsConfig,
        TuningConfig,
        TuningJob,
        config_of_dataset,
        estimate_tuning,
        find_job,
    )
    from .output import print_json

    is_there = (folder / "job.json").exists()
    if cancel and not is_there and adopt is None:
        raise BadRun(f"{folder} holds no job: there is nothing to cancel")
    if is_there and model is None:
        config = TuningJob.open(folder).config
    elif model is None:
        raise BadConfig(f"{folder} holds no job yet: name the model to start from with --model")
    else:
        if data is not None:
            of_data, seed, form = config_of_dataset(data)
        else:
            values = {"operation": operation, "base": base, "digits": digits, "num_examples": size, "sampler": sampler}
            values |= {"num_test": num_test, "split_seed": split_seed, "format": _format(format, spaces, stop, digits)}
            of_data = load(DataConfig, values)
        config = load(
            TuningConfig,
            {
                "base_url": _endpoint(base_url, key_variable, timeout).base_url,
                "model": model,
                "data": of_data,
                "seed": seed,
                "form": form,
                "data_folder": None if data is None else str(data.resolve()),
                "validation": not no_validation,
                "suffix": suffix,
                "epochs": epochs,
                "batch_size": batch_size,
                "learning_rate_multiplier": learning_rate_multiplier,
            },
            as_options=True,
        )
    if dry_run:
        estimate = estimate_tuning(config, price)
        print_json(estimate.as_dict()) if as_json else print(_in_words(estimate))
        return
    limits = load(LimitsConfig, {"retries": retries}, as_options=True)

    with Endpoint(_endpoint(config.base_url, key_variable, timeout)) as endpoint:
        _ = endpoint.client  # a missing key or package is found before anything is written
        adopted = None if adopt is None else find_job(endpoint, adopt, limits)
        job = TuningJob.start(folder, config)
        with job.locked():
            if not is_there:
                _tell(_in_words(estimate_tuning(config, price)))
            if adopted is not None:
                job.adopt(adopted)
            if cancel:
                job.cancel(endpoint, limits)
            else:
                job.submit(endpoint, limits, _tell)
            result = job.summary() if no_wait else _follow(job, endpoint, limits, poll)
    if as_json:
        print_json(result)
    elif no_wait and cancel:
        print(f"job {job.id} is {result['status']}")
    elif no_wait:
        print(f"job {job.id} goes on at the server: 'carryon hosted finetune {folder}' follows it")
    else:
        print(f"{result.get('model')} is ready: 'carryon hosted evaluate --job {folder}' asks it the test set")


def _follow(job: "TuningJob", endpoint: Any, limits: Any, poll: float) -> dict[str, Any]:
    try:
        return job.follow(endpoint, limits, _tell, poll)
    except KeyboardInterrupt:
        _tell(f"job {job.id} goes on at the server: 'carryon hosted finetune {job.folder}' follows it again")
        raise


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _format(name: str, spaces: bool, stop: str | None, digits: int) -> dict[str, Any]:
    options: dict[str, Any] = {"name": name, "spaces": spaces, "stop": stop}
    return options | ({"width": digits} if name.endswith("_padded") else {})


def _endpoint(base_url: str | None, key_variable: str | None, timeout: float) -> "EndpointConfig":
    from ..config import load
    from ..interop.hosted import OPENAI, EndpointConfig

    url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    values = {"base_url": url, "key_variable": key_variable, "timeout": timeout}
    return load(EndpointConfig, values, as_options=True)


def _slug(model: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-.")[-80:] or "model"


def _in_words(estimate: Any) -> str:
    passes = f"{estimate.epochs} epochs" if estimate.epochs else "an epoch (the server decides how many)"
    words = f"{estimate.examples:,} examples, about {estimate.tokens:,} tokens, counted with {estimate.counted}"
    if estimate.cost is None:
        return f"{words}; --price (dollars for a million tokens of training) makes a cost of that"
    from ..interop.hosted.costs import dollars

    return f"{words}; ${dollars(estimate.cost)} for {passes}"


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
