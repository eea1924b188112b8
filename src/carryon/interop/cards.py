"""The model card of an exported run: what it is, how to ask it, and what is known about it."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..config import DataConfig, EvaluationConfig, ModelConfig, RunConfig, TextConfig, load
from ..evaluation import describe, percent, wilson
from ..operations import OPERATIONS
from .architectures import Architecture

NO_END_TOKEN = "none is left to end a text with, which lm-evaluation-harness wants of a model"


class Shown(NamedTuple):
    """One problem, asked of the exported model."""

    question: str
    answer: str
    prompt: str
    completion: str
    read: str | None


class Compared(NamedTuple):
    """What was found when the exported model was opened and set beside ours."""

    tokens: int
    difference: float
    """The largest between two logits."""


def model_card(
    title: str,
    config: RunConfig,
    evidence: Mapping[str, Any],
    architecture: Architecture,
    stops: list[str],
    padding: str | None,
    shown: Shown | None,
    compared: Compared,
) -> str:
    """README.md, its header as the Hub reads it."""
    result = evidence["result"]
    sections = [
        _header(title, config, architecture.name, evidence["evaluations"]),
        f"# {title}\n",
        f"A {architecture.name} model of {result['parameters']:,} parameters, {_trained(evidence['origin'])} "
        f"{' and '.join(map(_data, config.parts))}.\n",
        _text_mixed_in(config.text),
        _use(shown, _LENS, "In carryon: `carryon import THIS_FOLDER`, then `carryon evaluate` and `carryon ask`."),
        _evidence(config, evidence),
        _evaluations(config, evidence["evaluations"]),
        _limits(config, stops, padding, compared),
    ]
    return "\n".join(filter(None, sections))


def tuned_card(
    title: str,
    config: RunConfig,
    evidence: Mapping[str, Any],
    base: Mapping[str, Any],
    stops: list[str],
    ends: list[str],
    shown: Shown | None,
    compared: Compared,
) -> str:
    """README.md of a pretrained model that was trained on; `base` is the pretrained one's own card.

    `stops` are the tokens at which generation stops; where there are none, `ends` are the texts that end an answer.
    """
    in_carryon = (
        "In carryon: `carryon pretrained add NAME THIS_FOLDER`, then `carryon train finetune --set "
        "model.pretrained=NAME` trains it on, and with `--set train.steps=0` only asks it. carryon.json is a record "
        "of the run's config, origin, results and metrics: `carryon import` makes no run of a pretrained model."
    )
    sections = [
        _header(title, config, config.model.label, evidence["evaluations"]),
        f"# {title}\n",
        f"{config.model.label}, {_trained(evidence['origin'])} {' and '.join(map(_data, config.parts))}.\n"
        if evidence["result"]["steps"] or config.parent is not None
        else f"{config.model.label}, as it was: this run only asked it.\n",
        _text_mixed_in(config.text),
        f"It began as: {base.get('what')} (licence: {base.get('licence')}).\n",
        _use(shown, "", in_carryon, [] if stops else ends),
        _evidence(config, evidence),
        _evaluations(config, evidence["evaluations"]),
        _tuned_limits(config, stops, ends, compared),
    ]
    return "\n".join(filter(None, sections))


def _text_mixed_in(text: TextConfig | None) -> str:
    """What a run was trained on beside its examples."""
    if text is None:
        return ""
    corpus = f"the text `{text.corpus}`"
    if text.mixing == "none":
        return f"It was not trained on text: the characters of {corpus} only joined its vocabulary.\n"
    how = {
        "dialogue": "a random number of examples stood between any two passages of it",
        "blocks": "some passages of it and some of each kind of example took turns",
    }[text.mixing]
    return f"It was trained on {corpus} as well: {how}. The last {text.held_out:.0%} of the text was held out.\n"


def _asked(
    config: RunConfig, evaluations: Mapping[str, Mapping[str, Any]], *, planned: bool = False
) -> list[tuple[str, Mapping[str, Any]]]:
    """Questions in words and what came of them: those the run was made with, as it lists them, then all others."""
    own = [question.hash for question in config.evaluations]
    labels = {key: _label(load(EvaluationConfig, result["config"])) for key, result in evaluations.items()}
    often = Counter(labels.values())
    found = {
        key: (label if often[label] == 1 else f"{label} ({key})", evaluations[key]) for key, label in labels.items()
    }
    first = [found[key] for key in dict.fromkeys(own) if key in found]
    others = sorted((found[key] for key in found if key not in own), key=lambda asked: asked[0])
    return first if planned else first + others


def _label(question: EvaluationConfig) -> str:
    """A question in words, with what else tells it from others like it."""
    more = []
    if question.limit is not None:
        more.append(f"first {question.limit:,} problem{'s' * (question.limit != 1)}")
    if question.part:
        more.append(f"part {question.part}")
    if question.data is not None:
        more.append(f"format {question.data.format.name}" + ", seen ones too" * question.seen)
        if question.prefix:  # which the words for another data set leave out
            more.append(f"after {question.prefix[:40]!r}")
    if question.example_set:
        more.append(f"example set {question.example_set}")
    if question.examples_part is not None:
        more.append(f"examples of part {question.examples_part}")
    if question.digit_apart is not None:
        more.append(f"{question.digit_apart} apart")
    if question.top_k is not None:
        more.append(f"of the best {question.top_k}")
    if question.seed:
        more.append(f"seed {question.seed}")
    return ", ".join([describe(question), *more])


def _header(title: str, config: RunConfig, kind: str, evaluations: Mapping[str, Mapping[str, Any]]) -> str:
    """YAML, of which JSON is a part: text is quoted as JSON does."""
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        f"tags: {json.dumps(['carryon', 'arithmetic', kind, config.data.operation])}",
    ]
    asked = _asked(config, evaluations, planned=True)
    scored = [(label, result) for label, result in asked if result.get("count") and "accuracy" in result]
    if scored:
        lines += ["model-index:", f"- name: {json.dumps(title)}", "  results:"]
    for label, result in scored:
        question = load(EvaluationConfig, result["config"])
        data = question.data or config.parts[question.part]
        lines += [
            "  - task: {type: text-generation}",
            f"    dataset: {{name: {json.dumps(label)}, type: {json.dumps(_slug(data))}}}",
            f"    metrics: [{{type: exact_match, value: {result['right'] / result['count']!r}}}]",
        ]
    return "\n".join([*lines, "---", ""])


def _trained(origin: Mapping[str, Any]) -> str:
    """A run that does not know where it comes from was imported, with what somebody said of it."""
    if not origin:
        return "trained elsewhere and imported into carryon, by what was said there on"
    return f"trained with carryon {origin.get('versions', {}).get('carryon', '')} on".replace("  ", " ")


def _slug(data: DataConfig) -> str:
    return f"carryon-{data.operation}-{data.format.name}"


def _data(data: DataConfig) -> str:
    size = f" of numbers of up to {data.longest} digits" if data.is_integer else ""
    if data.operands > 2:
        size = f" of up to {data.operands}{size.removeprefix(' of')}"
    base = f" in base {data.base}" if data.base != 10 else ""
    return (
        f"{data.num_examples:,} examples of `{data.operation}`{size}{base}, written in the format "
        f"`{data.format.name}` and drawn by the sampler `{data.sampler_name}`"
    )


_LENS = """In TransformerLens, every activation by its name:

```python
from transformer_lens.model_bridge.sources import build_bridge_from_module

bridge = build_bridge_from_module(model, model.config.architectures[0], hf_config=model.config)
logits, cache = bridge.run_with_cache(prompt.input_ids)
```

"""
_LONGEST_SHOWN = 200


def _use(shown: Shown | None, more: str, in_carryon: str, ends: list[str] | None = None) -> str:
    """`ends`: texts at which generation has to be told to stop, as no token of their own says so."""
    if shown is None:
        return f"## Use\n\n{in_carryon}\n"
    stops = f", stop_strings={json.dumps(ends, ensure_ascii=False)}, tokenizer=tokenizer" if ends else ""
    written = _text(shown.completion)
    if len(shown.completion) > _LONGEST_SHOWN and shown.read != shown.answer:
        written = (
            f"{_text(shown.completion[:_LONGEST_SHOWN])} and {len(shown.completion) - _LONGEST_SHOWN} characters more"
        )
    read = f"which reads as {shown.read}" if shown.read is not None else "which is not an answer"
    verdict = "right" if shown.read == shown.answer else f"wrong, it is {shown.answer}"
    return f"""## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("THIS_FOLDER")
model = AutoModelForCausalLM.from_pretrained("THIS_FOLDER")
prompt = tokenizer({_text(shown.prompt)}, return_tensors="pt")
tokens = model.generate(**prompt{stops})[0, prompt.input_ids.shape[1] :]
print(repr(tokenizer.decode(tokens)))
```

Asked {shown.question} this way it writes {written}, {read}: {verdict}.

{more}{in_carryon}
"""


def _evidence(config: RunConfig, evidence: Mapping[str, Any]) -> str:
    origin, result = evidence["origin"], evidence["result"]
    versions = ", ".join(f"{name} {version}" for name, version in origin.get("versions", {}).items())
    model = config.model
    told = f"{model.label}, context {model.context}, tokenizer {config.tokenizer}"
    if isinstance(model, ModelConfig):
        told = (
            f"{_counted(model.layers, 'layer')}, {_counted(model.heads, 'head')}, width {model.width}, "
            f"context {model.context}, {model.position} positions, tokenizer {config.tokenizer}"
        )
    kinds = {"stream": ", and new ones for ever", "rows": ", drawn anew for ever"}
    rows = {
        "run": f"`{config.hash}` (its whole config is in carryon.json)",
        "seed": config.seed,
        "code": f"commit {origin.get('commit') or 'unknown'}; {versions or 'versions unknown'}",
        "device": result["device"],
        "model": told,
        "steps": f"{result['steps']:,} in {result['training_seconds']:,.1f} s ({result['stopped']})",
        "trained on": f"{result['trained_on']:,} examples{kinds[config.train.packing] * config.train.endless}",
    }
    if config.parent is not None:
        rows["started from"] = f"`{config.parent}`"
    return "\n".join(
        ["## Evidence\n", "| | |", "|---|---|", *(f"| {key} | {text} |" for key, text in rows.items()), ""]
    )


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"


def _evaluations(config: RunConfig, evaluations: Mapping[str, Mapping[str, Any]]) -> str:
    if not evaluations:
        return "Nothing was asked of it yet: `carryon evaluate` does.\n"
    lines = ["| asked | right | of | exact match | 95 % interval |", "|---|--:|--:|--:|---|"]
    for label, result in _asked(config, evaluations):
        question = label.replace("\n", "\\n").replace("|", "\\|")
        if "perplexity" in result:
            lines.append(f"| {question} | | {result['tokens']:,} tokens | | perplexity {result['perplexity']:.3f} |")
            continue
        if "accuracy" not in result:
            exact, relaxed = result["exact"], result["relaxed"]
            lines.append(f"| {question} | | {result['count']:,} | {exact:.2%} | within one: {relaxed:.2%} |")
            continue
        lines.append(_row(question, result["right"], result["count"]))
        for part, (right, count) in result["by"].get("slice", {}).items():
            lines.append(_row(f"– {part}", right, count))
    return "\n".join([*lines, ""])


def _row(label: str, right: int, count: int) -> str:
    low, high = wilson(right, count) or (0.0, 1.0)
    return f"| {label} | {right:,} | {count:,} | {percent(right, count)} | {low:.3%} to {high:.3%} |"


def _tuned_limits(config: RunConfig, stops: list[str], ends: list[str], compared: Compared) -> str:
    points = [
        "What it knew before it may have forgotten: nothing but the above was asked of it.",
        f"It was trained with at most {config.window} tokens, prompt and completion together; `generate` stops at "
        f"{config.model.context}.",
        "Its tokenizer reads as it was trained: nothing is put in front of a text, neither a mark such as `<s>` nor a "
        "space, whatever the base model's own does.",
        f"Opened by transformers, in float32, it gave {compared.tokens:,} tokens the logits that carryon gives them: "
        f"the largest difference is {compared.difference:.1e}.",
    ]
    if stops:
        points.append(f"`generate` stops at {' or '.join(map(_text, stops))}.")
    else:
        points.append(
            f"An answer ends with {' or '.join(map(_text, ends))}, which is no token of its own: `generate` goes on to "
            "the end of the context unless `stop_strings` says so."
        )
    points.append("Whoever publishes this folder is bound by the licence of the model it began as.")
    return "\n".join(["## Limits\n", *(f"- {point}" for point in points), ""])


def _limits(config: RunConfig, stops: list[str], padding: str | None, compared: Compared) -> str:
    operations = " and ".join(sorted({OPERATIONS[data.operation].name for data in config.parts}))
    known = f"It knows {operations} as written above"
    if config.text is not None and config.text.mixing != "none":
        known += (
            f" and whatever it has learnt of the text {config.text.corpus}: what else is asked of it gives nonsense."
        )
    else:
        known += " and nothing else: a prompt in any other form gives nonsense."
    points = [
        known,
        f"It reads and writes at most {config.model.context} tokens, prompt and completion together"
        + (f", and was trained on {config.window} at a time." if config.train.window else "."),
        f"Opened by transformers, in float32, it gave {compared.tokens:,} tokens the logits that carryon gives them: "
        f"the largest difference is {compared.difference:.1e}.",
    ]
    if stops:
        points.append(f"`generate` stops at {' or '.join(map(_text, stops))}.")
    else:
        points.append("No single token ends its answers: `generate` goes on to the end of the context.")
    if padding is not None:
        points.append(
            f"The tokenizer pads, on the left, with {_text(padding)} and calls it special: "
            "`skip_special_tokens=True` drops it from texts, and a data collator that leaves padding out of a loss "
            "leaves it out too."
        )
    else:
        points.append(f"Every character of its vocabulary is in use: {NO_END_TOKEN}.")
    if config.tokenizer != "gpt2":
        points.append("A character outside its vocabulary is an error, not an unknown token.")
    match config.model.position if isinstance(config.model, ModelConfig) else None:
        case "sinusoidal":
            points.append("Its positions are sines and cosines, written into the position table: freeze that table.")
        case "none":
            points.append("It has no positions: its position table is all zeros, to be kept frozen.")
        case "learned":
            points.append("Positions are absolute: it was asked with the prompt at the very beginning.")
    points.append("No licence is given here: whoever publishes this folder chooses one.")
    return "\n".join(["## Limits\n", *(f"- {point}" for point in points), ""])


def _text(text: str) -> str:
    """Text as Python writes it, in double quotes."""
    return json.dumps(text, ensure_ascii=False)
