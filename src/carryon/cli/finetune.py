"""carryon hosted finetune: a training set uploaded, a job created and followed to its end."""

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
from .options import amount, number

if TYPE_CHECKING:
    from ..interop.hosted import TuningJob


def finetune(
    folder: Annotated[Path, typer.Argument(help="The job's folder; with a job in it, goes on with that.")],
    model: Annotated[str | None, typer.Option(help="The model to start from.")] = None,
    base_url: BaseUrl = None,
    key_variable: KeyVariable = None,
    data: Annotated[
        Path | None, typer.Option(help="A data set made with 'carryon data make --as openai'; else one is made.")
    ] = None,
    operation: Operation = None,
    digits: Digits = None,
    base: Base = None,
    format: Format = None,
    spaces: Spaces = False,
    stop: Stop = None,
    size: Annotated[int | None, number("Training examples; 1,000 if left out.")] = None,
    sampler: Annotated[str | None, typer.Option(help="As for 'carryon data make'.")] = None,
    seed: Annotated[int | None, number("Which training sample; 0 if left out.")] = None,
    split_seed: SplitSeed = None,
    num_test: NumTest = None,
    form: Annotated[
        str | None, typer.Option("--as", help="openai (if left out) for chat models, openai_prompt for completion.")
    ] = None,
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

    Safe to interrupt: the job goes on at the server, and the same command looks for it before it creates another.

    Example: carryon hosted finetune jobs/add --model gpt-4.1-nano-2025-04-14 --operation add --format hosted_plain
    """
    from ..config import load
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
    given = {"operation": operation, "base": base, "digits": digits, "format": format, "spaces": spaces}
    given |= {"stop": stop, "sampler": sampler, "num_test": num_test, "split_seed": split_seed}
    drawn = {"size": size, "seed": seed, "as": form}
    trained: dict[str, Any] = {"suffix": suffix, "epochs": epochs, "batch_size": batch_size}
    trained["learning_rate_multiplier"] = learning_rate_multiplier
    if is_there and model is None:
        others = {"data": data, "no_validation": no_validation, "base_url": base_url}
        refuse_beside(f"the job in {folder} has its settings", given | drawn | trained | others)
        config = TuningJob.open(folder).config
    elif model is None:
        raise BadConfig(f"{folder} holds no job yet: name the model to start from with --model")
    else:
        if data is not None:
            refuse_beside("--data says which problems", given | drawn)
            of_data, seed, form = config_of_dataset(data)
        else:
            of_data = data_config(given | {"num_examples": 1_000 if size is None else size})
        config = load(
            TuningConfig,
            {
                "base_url": endpoint_config(base_url, key_variable, timeout).base_url,
                "model": model,
                "data": of_data,
                "seed": seed or 0,
                "form": form or "openai",
                "data_folder": None if data is None else str(data.resolve()),
                "validation": not no_validation,
                **trained,
            },
            as_options=True,
        )
    if dry_run:
        estimate = estimate_tuning(config, price)
        print_json(estimate.as_dict()) if as_json else print(_in_words(estimate))
        return
    limits = load(LimitsConfig, {"retries": retries}, as_options=True)

    with Endpoint(endpoint_config(config.base_url, key_variable, timeout)) as endpoint:
        _ = endpoint.client  # a missing key or package is found before anything is written
        adopted = None if adopt is None else find_job(endpoint, adopt, limits, config.model)
        job = TuningJob.start(folder, config)
        with job.locked():
            if not is_there:
                tell(_in_words(estimate_tuning(config, price)))
            if adopted is not None:
                job.adopt(adopted, endpoint, limits, tell)
            if cancel:
                job.cancel(endpoint, limits)
            is_new = not cancel and job.submit(endpoint, limits, tell)
            leave = no_wait and (is_new or cancel)
            result = job.summary() if leave else _follow(job, endpoint, limits, poll, wait=not no_wait)
    if as_json:
        print_json(result)
    elif no_wait and cancel:
        print(f"job {job.id} is {result['status']}")
    elif job.has_ended:
        print(f"{result['model']} is ready: 'carryon hosted evaluate --job {folder}' asks it the test set")
    else:
        print(f"job {job.id} goes on at the server: 'carryon hosted finetune {folder}' follows it")


def _follow(job: "TuningJob", endpoint: Any, limits: Any, poll: float, wait: bool) -> dict[str, Any]:
    try:
        return job.follow(endpoint, limits, tell, poll, wait=wait)
    except KeyboardInterrupt:
        tell(f"job {job.id} goes on at the server: 'carryon hosted finetune {job.folder}' follows it again")
        raise


def _in_words(estimate: Any) -> str:
    passes = f"{estimate.epochs} epochs" if estimate.epochs else "an epoch (the server decides how many)"
    words = f"{estimate.examples:,} examples, about {estimate.tokens:,} tokens, counted with {estimate.counted}"
    if estimate.cost is None:
        return f"{words}; --price (dollars for a million tokens of training) makes a cost of that"
    from ..interop.hosted.costs import dollars

    return f"{words}; ${dollars(estimate.cost)} for {passes}"
