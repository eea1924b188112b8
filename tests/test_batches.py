import re
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from carryon.config import DataConfig, RunConfig, load
from carryon.data import (
    Fresh,
    FreshWindows,
    Mixture,
    Passages,
    Repeated,
    RowBatches,
    Windows,
    draw_held_out,
    make_dataset,
    make_rows,
    pack,
)
from carryon.data.splits import Endless
from carryon.errors import BadConfig, Unsupported
from carryon.formats import Example
from carryon.tokenizers import Characters, make_tokenizer

CONFIG = load(DataConfig, {"num_examples": 500})
GROWING = load(DataConfig, {"digits": 12, "num_examples": 500, "sampler": "balanced_lengths"})
DATA = make_dataset(CONFIG)
EXAMPLES = list(DATA.examples("train"))
TEXT = "".join(example.text for example in EXAMPLES)
TOKENIZER = Characters.of([TEXT])


# --- sources ------------------------------------------------------------------------------------------------------


def test_a_repeated_set_shows_everything_once_a_pass_in_a_new_order():
    source = Repeated(EXAMPLES, seed=1)
    first, second = source.take(500), source.take(500, start=500)
    assert Counter(first) == Counter(second) == Counter(EXAMPLES)
    assert first != second
    assert first != Repeated(EXAMPLES, seed=2).take(500)


SOURCES = {
    "repeated": lambda: Repeated(EXAMPLES[:30], seed=1),
    "fresh": lambda: Fresh(CONFIG, seed=1),
    "growing": lambda: Fresh(GROWING, seed=1, grow=3_000),
    "passages": lambda: Passages("one\n\ntwo\n\nthree", seed=1),
    "mixture": lambda: Mixture([(Repeated(EXAMPLES[:30]), 1), (Fresh(CONFIG), 2), (Passages("a\n\nb"), 0.5)], seed=1),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("start", [1, 29, 30, 499, 500, 1_234, 5_000])
def test_a_source_can_be_entered_anywhere(make, start):
    assert make().take(20, start) == list(islice(make().examples(), start, start + 20))


def test_a_block_of_fresh_problems_is_drawn_once_for_all_its_batches(monkeypatch):
    drawn = []
    block = Endless.block
    monkeypatch.setattr(Endless, "block", lambda self, number, *how: drawn.append(number) or block(self, number, *how))
    source = Fresh(load(DataConfig, {"digits": 30, "num_examples": 3_000}), seed=1)
    batches = [source.take(256, start=start) for start in range(0, 6_000, 256)]
    assert drawn == [0, 1, 2]  # the last batch reaches into the third
    one_by_one = Fresh(load(DataConfig, {"digits": 30, "num_examples": 3_000}), seed=1)
    assert [e for batch in batches for e in batch] == one_by_one.take(24 * 256)


def test_numbers_grow_until_they_have_all_digits():
    source = Fresh(GROWING, seed=1, grow=3_000)
    blocks = [source.take(500, start=start) for start in range(0, 4_000, 500)]
    lengths = [[max(map(len, re.findall("[0-9]+", example.prompt))) for example in block] for block in blocks]
    # Twelve digits in blocks of 250: each has a digit more. 250 problems that training may see need two.
    assert [max(block) for block in lengths] == [2, 3, 5, 7, 9, 11, 12, 12]
    assert all(min(block) == 1 for block in lengths)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"train": {"grow": 100}}, "set train.endless and packing rows"),
        ({"train": {"grow": 100, "endless": True}}, "set train.endless and packing rows"),
        ({"train": {"grow": 100, "endless": True, "packing": "rows"}}, "equal_lengths or equal_operands, not balanced"),
        (
            {"train": {"grow": 100, "endless": True, "packing": "rows"}, "data": {"operation": "sine"}},
            "equal_operands, not uniform",
        ),
    ],
)
def test_growing_that_cannot_be_is_refused(values, says):
    with pytest.raises(BadConfig, match=says):
        load(RunConfig, values)


def test_fresh_examples_are_right_and_never_held_out():
    config = load(DataConfig, {"num_examples": 1_000, "operation": "multiply", "digits": 2})
    domain = make_dataset(config).splits.domain
    held_out = set(draw_held_out(config).both.tolist())
    examples = Fresh(config).take(6_000)
    for example in examples:
        a, b = example.prompt.strip("$=").split("*")
        assert int(example.answer) == int(a) * int(b)
        assert domain.code((a, b)) not in held_out
    assert len(set(examples)) > 2_500


def test_fresh_noise_differs_from_one_meeting_to_the_next():
    noisy = {"format": {"name": "simplified_scratchpad", "noise": "both"}, "digits": 1, "num_examples": 100}
    examples = Fresh(load(DataConfig, noisy)).take(2_000)
    by_prompt: dict[str, set[str]] = {}
    for example in examples:
        by_prompt.setdefault(example.prompt, set()).add(example.completion)
    assert len(by_prompt) == 100
    assert min(len(completions) for completions in by_prompt.values()) > 3


def test_a_source_refuses_a_format_its_operation_lacks():
    with pytest.raises(Unsupported):
        Fresh(load(DataConfig, {"operation": "sine", "format": "reverse"}))


def test_a_mixture_keeps_its_weights_and_interleaves():
    sums, text = Repeated(EXAMPLES), Passages("To be\n\nor not\n\nto be")
    mixed = Mixture([(sums, 3), (text, 1)], seed=4).take(8_000)
    is_text = [example.prompt == "" for example in mixed]
    assert abs(np.mean(is_text) - 0.25) < 0.02
    # Example by example, not block by block: some text in nearly every forty.
    assert np.mean([any(is_text[i : i + 40]) for i in range(0, 8_000, 40)]) > 0.99


def test_passages_are_the_whole_text():
    pieces = Passages("a\nb\n\n\n\nc\n\n").take(2)
    assert sorted(piece.text for piece in pieces) == ["a\nb\n\n", "c\n\n"]


@pytest.mark.parametrize("weights", [[1, 0], [1, -2]])
def test_weights_must_be_positive(weights):
    with pytest.raises(BadConfig, match="positive"):
        Mixture([(Repeated(EXAMPLES), weight) for weight in weights])
    with pytest.raises(BadConfig, match="at least one"):
        Passages("\n\n")


# --- windows ------------------------------------------------------------------------------------------------------


def test_windows_are_pieces_of_the_stream_one_token_apart():
    tokens = pack(EXAMPLES, TOKENIZER)
    assert TOKENIZER.decode(tokens) == TEXT
    batch = Windows(tokens, context=40, batch_size=16, seed=1).batch(3)
    assert batch.inputs_BT.shape == batch.targets_BT.shape == (16, 40)
    assert batch.mask_BT is None
    for inputs, targets in zip(batch.inputs_BT, batch.targets_BT, strict=True):
        assert TOKENIZER.decode(inputs) in TEXT
        assert inputs[1:].tolist() == targets[:-1].tolist()
        assert TOKENIZER.decode(inputs) + TOKENIZER.decode(targets[-1:]) in TEXT


def test_a_batch_depends_on_seed_and_step_and_nothing_else():
    tokens = pack(EXAMPLES, TOKENIZER)
    windows = Windows(tokens, 40, 16, seed=1)
    third = windows.batch(3)
    windows.batch(0)
    assert (windows.batch(3).inputs_BT == third.inputs_BT).all()
    assert (Windows(tokens, 40, 16, seed=2).batch(3).inputs_BT != third.inputs_BT).any()
    assert (windows.batch(4).inputs_BT != third.inputs_BT).any()


def test_windows_reach_the_first_and_the_last_token():
    tokens = np.arange(12, dtype=np.uint8)
    windows = Windows(tokens, context=4, batch_size=64)
    starts = {int(row[0]) for step in range(20) for row in windows.batch(step).inputs_BT}
    assert starts == set(range(8))
    assert max(int(windows.batch(step).targets_BT.max()) for step in range(20)) == 11


def test_a_stream_shorter_than_a_window_is_repeated():
    tokens = TOKENIZER.encode("$1+1=2$\n")
    batch = Windows(tokens, context=50, batch_size=4).batch(0)
    assert batch.inputs_BT.shape == (4, 50)
    assert TOKENIZER.decode(batch.inputs_BT[0]) in "$1+1=2$\n" * 10
    with pytest.raises(BadConfig, match="no tokens"):
        Windows(tokens[:0], 50, 4)


def test_fresh_windows_are_renewed_and_can_be_entered_anywhere():
    def make():
        return FreshWindows(Fresh(CONFIG), TOKENIZER, context=64, batch_size=8, block_examples=200)

    windows = make()
    assert windows.steps_per_block == len(pack(Fresh(CONFIG).take(200), TOKENIZER)) // (64 * 8)
    later = 3 * windows.steps_per_block + 1
    in_order = [windows.batch(step) for step in range(later + 1)]
    assert (make().batch(later).inputs_BT == in_order[later].inputs_BT).all()
    block = "".join(example.text for example in Fresh(CONFIG).take(200, start=600))
    assert TOKENIZER.decode(in_order[later].inputs_BT[0]) in block


# --- rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tokenizer", [TOKENIZER, make_tokenizer("ascii"), make_tokenizer("gpt2")], ids=["data", "ascii", "gpt2"]
)
@pytest.mark.parametrize("loss", ["all", "answer"])
def test_rows_hold_one_example_each_and_the_mask_says_what_counts(tokenizer, loss):
    rows = make_rows(EXAMPLES[:50], tokenizer, loss=loss)
    for tokens, mask, example in zip(rows.tokens_BT, rows.mask_BT, EXAMPLES, strict=False):
        prompt, completion = tokenizer.encode(example.prompt), tokenizer.encode(example.completion)
        length = len(prompt) + len(completion)
        assert tokens[:length].tolist() == [*prompt.tolist(), *completion.tolist()]
        assert not tokens[length:].any()
        counted = len(completion) if loss == "answer" else length
        assert mask.sum() == counted
        assert mask[length - counted : length].all()
    batch = rows.batch()
    assert (batch.targets_BT == rows.tokens_BT[:, 1:]).all()
    assert tokenizer.decode(batch.targets_BT[0][batch.mask_BT[0]]) == (
        EXAMPLES[0].completion
        if loss == "answer"
        else EXAMPLES[0].text[1:]
        if tokenizer.name != "gpt2"
        else tokenizer.decode(rows.tokens_BT[0][1:][batch.mask_BT[0]])
    )


def test_rows_of_a_given_width():
    assert make_rows(EXAMPLES, TOKENIZER, width=40).tokens_BT.shape == (500, 40)
    assert make_rows([], TOKENIZER, width=40).tokens_BT.shape == (0, 40)
    with pytest.raises(BadConfig, match=r"does not fit rows of 8: '\$"):
        make_rows(EXAMPLES, TOKENIZER, width=8)


def test_row_batches_follow_their_source():
    source = Repeated(EXAMPLES, seed=2)
    batches = RowBatches(source, TOKENIZER, width=20, batch_size=32)
    batch = batches.batch(5)
    expected = make_rows(source.take(32, start=160), TOKENIZER, 20).batch()
    assert (batch.inputs_BT == expected.inputs_BT).all()
    assert (batch.mask_BT == expected.mask_BT).all()


def test_text_and_sums_share_a_vocabulary_where_they_are_mixed():
    text = Passages("First Citizen:\nSpeak.\n\nAll:\nSpeak, speak.")
    source = Mixture([(Repeated(EXAMPLES), 1), (text, 1)])
    tokenizer = Characters.of(example.text for example in source.take(2_000))
    tokens = pack(source.take(2_000), tokenizer)
    assert tokenizer.vocab_size > 14
    assert tokenizer.decode(tokens).count("Speak") > 100


def test_an_example_is_its_prompt_and_its_completion():
    assert Example("1+1=", "2\n", "2").text == "1+1=2\n"
