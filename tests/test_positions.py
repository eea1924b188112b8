"""Which id a token has, and what is made of it. Worked examples come from the papers that the methods are from."""

import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from carryon.config import DataConfig, IdsName, ModelConfig, RunConfig, choices, load
from carryon.data import make_dataset
from carryon.errors import BadConfig, Unsupported
from carryon.generation import Completer
from carryon.model import Cache, Decoder
from carryon.positions import IDS, POSITIONS, Fire
from carryon.tokenizers import Characters

torch.set_num_threads(1)

READER, LEVELS = Characters("0123456789+=\n"), Characters("0123456789*+=>\n")
SIZES = {"layers": 2, "heads": 2, "width": 16, "context": 24, "dropout": 0.0}
ROOM = {"places": None, "shifted": 40, "scattered": 60, "abacus": 30, "coupling": 30}
ROOM |= {"coupling_sums": 30, "coupling_products": 30}
STREAMS = {"coupling_sums": 2, "coupling_products": 3}


def make(ids="coupling", position="learned", **values):
    torch.manual_seed(0)
    config = ModelConfig(**{**SIZES, "ids": ids, "places": ROOM[ids], "position": position, **values})
    reader = LEVELS if ids in STREAMS else READER
    return Decoder(config, reader.vocab_size, reader.tokens).eval()


def tokens(*texts, reader=READER):
    return torch.tensor([reader.encode(text).tolist() for text in texts])


SUMS = tokens("491+600=1901\n", "017+005=2200\n", "999+999=8991\n")
ROWS = dict.fromkeys(ROOM, (SUMS, 8)) | {
    "coupling_sums": (
        tokens(
            "012+007+035=000>210>910>450\n",
            "099+001+012=000>990>001>211\n",
            "050+099+099=000>050>941>842\n",
            reader=LEVELS,
        ),
        12,
    ),
    "coupling_products": (
        tokens("12*36=270+630=2700>2340\n", "99*98=297+198=2970>2079\n", "10*50=000+050=0000>0050\n", reader=LEVELS),
        6,
    ),
}
"""Rows that each kind of ids is for, and how long their prompts are."""


def test_ids_are_those_of_the_config():
    assert set(choices(IdsName)) == set(IDS) == set(ROOM)


@pytest.mark.parametrize(
    ("ids", "text", "expected"),
    [
        ("places", "491+600=1901\n", [*range(13)]),
        ("coupling", "491+600=1901\n", [4, 3, 2, 1, 4, 3, 2, 1, 2, 3, 4, 5, 0]),
        ("coupling", "7+5=21\n", [2, 1, 2, 1, 2, 3, 0]),
        ("coupling", "0491+0600=", [5, 4, 3, 2, 1, 5, 4, 3, 2, 1]),
        ("abacus", "321+45=771\n", [1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 0]),
        ("abacus", "\n7+12", [0, 1, 0, 1, 2]),
    ],
)
def test_worked_examples(ids, text, expected):
    assert make(ids).position.ids(tokens(text)).tolist() == [expected]


@pytest.mark.parametrize("ids", IDS)
def test_ids_of_what_was_asked_do_not_depend_on_what_is_answered(ids):
    rows, prompt = ROWS[ids]
    numbers = make(ids).position.ids
    whole = numbers(rows)
    assert whole.shape[2:] == ((STREAMS[ids],) if ids in STREAMS else ())
    for length in range(prompt, rows.shape[1] + 1):
        assert torch.equal(numbers(rows[:, :length]), whole[:, :length])
    other = rows.clone()
    for first in range(prompt, rows.shape[1]):
        other[:, first:] = other[:, first:].flip(1)
        assert torch.equal(numbers(other)[:, :first], numbers(other[:, :first]))
    assert torch.equal(numbers(other)[:, :prompt], whole[:, :prompt])


def test_training_meets_every_id_and_nothing_else():
    """And what has to be the same stays so."""
    torch.manual_seed(1)
    for ids in ("shifted", "abacus", "coupling", "scattered"):
        numbers = make(ids).position.ids
        asked = numbers(SUMS)
        drawn = torch.stack([numbers.train()(SUMS) for _ in range(600)])
        met = set(drawn.unique().tolist())
        if ids == "scattered":
            assert met >= set(range(55))
            assert max(met) < 60
            assert (drawn.diff(dim=2) > 0).all()
            assert (drawn != drawn[:, :1]).any()
            continue
        assert met == set(range(ROOM[ids]))
        moved = drawn - asked
        if ids != "shifted":
            assert not drawn[:, asked == 0].any()
            moved = moved.masked_fill(asked == 0, -1)
        for batch in moved[:20]:
            by_row = [set(row.tolist()) - {-1} for row in batch]
            assert all(len(row) == 1 for row in by_row)
            if ids == "abacus":
                assert len(set.union(*by_row)) == 1
        starts = {tuple(max(row.tolist()) for row in batch) for batch in moved}
        assert len(starts) > 20


def test_one_seed_draws_the_same_ids():
    numbers = make().position.ids.train()
    torch.manual_seed(5)
    first = numbers(SUMS)
    assert not torch.equal(numbers(SUMS), first)
    torch.manual_seed(5)
    assert torch.equal(numbers(SUMS), first)


def test_a_loop_goes_through_the_same_layers_again():
    """As a model of twice the layers, the second half of which has the first half's weights."""
    once = make("places", loops=2)
    twice = Decoder(once.config.model_copy(update={"layers": 4, "loops": 1}), READER.vocab_size, READER.tokens).eval()
    weights = once.state_dict()
    again = {name.replace(f"blocks.{n}.", f"blocks.{n + 2}."): w for name, w in weights.items() for n in (0, 1)}
    twice.load_state_dict(again | weights)
    torch.testing.assert_close(once(SUMS), twice(SUMS))
    assert once.num_parameters < twice.num_parameters
    injected = make("places", loops=2, inject=True)
    _, trace = injected.trace(SUMS)
    x = trace["block1.out"] + trace["embedding"]
    out = injected.blocks[0](x, injected.position.ids(SUMS), None)
    torch.testing.assert_close(trace["block2.out"], out)
    with pytest.raises(ValidationError, match=r"model\.inject adds the embedding from the second loop on"):
        ModelConfig(inject=True)


@pytest.mark.parametrize("inject", [False, True])
def test_a_loop_leaves_out_what_does_not_count_and_changes_nothing(inject):
    model = make("coupling", loops=3, inject=inject, reach=1)
    inputs, targets = SUMS[:, :-1], SUMS[:, 1:]
    mask = torch.zeros_like(targets, dtype=torch.bool)
    mask[:, 7:] = True
    log_probabilities = model(inputs).log_softmax(-1).gather(2, targets[..., None])[..., 0]
    torch.testing.assert_close(model.loss(inputs, targets, mask), -log_probabilities[mask].sum())


COMBINED = [
    (ids, position, reach)
    for ids in IDS
    for position in POSITIONS
    for reach in (None, 1)
    if ids not in STREAMS or position in ("learned", "none")
]


@pytest.mark.parametrize(("ids", "position", "reach"), COMBINED)
def test_any_ids_go_with_any_method_and_a_cache_changes_nothing(ids, position, reach):
    loops = {"loops": 3, "inject": True} if position in ("learned", "t5") else {}
    rows, prompt = ROWS[ids]
    model = make(ids, position, reach=reach, context=30, **loops)
    full, length = model(rows), rows.shape[1]
    later = rows.clone()
    later[:, prompt + 2 :] = (later[:, prompt + 2 :] + 1) % 10
    torch.testing.assert_close(model(later)[:, : prompt + 2], full[:, : prompt + 2])
    cache = Cache(model.config, 3, length, rows.device, torch.float32)
    with torch.no_grad():
        begun = model.scores(model.begin(rows[:, :prompt], cache))
        torch.testing.assert_close(begun, full[:, :prompt])
        for at in range(prompt, length):
            scores = model.scores(model.go_on(rows[:, : at + 1], torch.full((3,), at), cache))
            torch.testing.assert_close(scores, full[:, at])


@pytest.mark.parametrize(("ids", "position", "reach"), COMBINED)
def test_what_rows_have_in_common_is_read_once_and_changes_nothing(ids, position, reach):
    """The ids of the zeros in front depend on the digits behind them."""
    model = make(ids, position, reach=reach)
    rows = tokens("0000007+1000009=", "0000007+2000005=", "0000009+3001005=")
    lengths = torch.full((3,), 16)
    cache, alone = Cache(model.config, 3, 20, rows.device, torch.float32), model(rows)[:, -1]
    with torch.no_grad():
        torch.testing.assert_close(model.first_scores(rows, lengths, cache), alone)
        torch.testing.assert_close(model.scores_from(6, rows, alike=6)[:, -1], alone)


@pytest.mark.parametrize("position", POSITIONS)
def test_what_is_out_of_reach_changes_nothing(position):
    """One layer; the answer's third digit, whose id is 4, sees digits of ids 3 to 5."""
    model = make(position=position, layers=1, reach=1)
    ids = [4, 3, 2, 1, 4, 3, 2, 1, 2, 3]
    for place in (0, 1, 2, 4, 5, 6, 8, 9):
        other = SUMS.clone()
        other[:, place] = 2 + (other[:, place] - 1) % 10  # the next digit
        same = torch.allclose(model(other)[:, 10], model(SUMS)[:, 10], atol=1e-6)
        assert same == (ids[place] < 3), place


def test_a_row_that_sees_little_sees_itself_and_what_has_no_id():
    """And what has none sees all."""
    model = make(position="none", layers=1, reach=0)
    weights = model.trace(tokens("\n7+5=2\n"))[1]["block0.attention.weights"][0, 0]
    assert (weights[-1] > 0).all()
    assert (weights[1:, 0] > 0).all()
    assert weights[3].tolist()[2] == 0  # the sign is one place away
    assert weights[3, 1] > 0  # the other operand's digit has the same id


# --- several ids a token ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "text", "expected"),
    [
        (
            "coupling_sums",
            "012+007+035=000>210>910>450\n",
            [
                [4, 3, 2, 1, 4, 3, 2, 1, 4, 3, 2, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 0],
                [1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 0],
            ],
        ),
        (
            "coupling_sums",
            "07+05=00>70>21\n",
            [[3, 2, 1, 3, 2, *[1, 2, 3] * 3, 0], [1, 1, *[2] * 3, *[1] * 3, 2, 2, 2, 3, 3, 3, 0]],
        ),
        (
            "coupling_products",
            "12*36=270+630=2700>2340\n",
            [
                [3, 2, 0, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0],
                [0, 0, 6, 0, 0, 1, 2, 3, 4, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0],
            ],
        ),
        (
            "coupling_products",
            "305*7=5312=5312\n",
            [
                [4, 3, 2, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0],
                [0, 0, 0, 6, 0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0],
            ],
        ),
    ],
)
def test_worked_examples_of_several_ids(ids, text, expected):
    assert make(ids).position.ids(tokens(text, reader=LEVELS))[0].T.tolist() == expected


@pytest.mark.parametrize("ids", STREAMS)
def test_each_stream_of_each_row_begins_anywhere_in_training_alone(ids):
    torch.manual_seed(1)
    rows, _ = ROWS[ids]
    numbers = make(ids).position.ids
    asked = numbers(rows)
    assert torch.equal(numbers(rows), asked)
    drawn = torch.stack([numbers.train()(rows) for _ in range(400)])
    assert not drawn[:, asked == 0].any()
    moved = (drawn - asked).masked_fill(asked == 0, -1)
    starts = moved.amax(dim=2)  # draw by row by stream
    assert ((moved == starts[:, :, None]) | (asked == 0)).all()
    for stream in range(STREAMS[ids]):
        last = int(asked[..., stream].max())
        assert set(drawn[..., stream].unique().tolist()) == set(range(30))
        assert set(starts[..., stream].unique().tolist()) == set(range(30 - last))
        for other in range(stream):
            assert (starts[..., stream] != starts[..., other]).any()
        assert (starts[:, 0, stream] != starts[:, 1, stream]).any()
    assert torch.equal(numbers.eval()(rows), asked)


@pytest.mark.parametrize("ids", STREAMS)
def test_with_several_ids_none_may_be_out_of_reach(ids):
    """As the rule says it, pair by pair."""
    rows, _ = ROWS[ids]
    model = make(ids, "none", layers=1, reach=1, context=30)
    weights = model.trace(rows)[1]["block0.attention.weights"]
    numbers = model.position.ids(rows).tolist()
    for row, of_tokens in enumerate(numbers):
        for at, query in enumerate(of_tokens):
            for back, key in enumerate(of_tokens[: at + 1]):
                near = all(abs(q - k) <= 1 for q, k in zip(query, key, strict=True) if q > 0 and k > 0)
                assert (weights[row, 0, at, back] > 0) == near, (at, back)


@pytest.mark.parametrize("ids", STREAMS)
def test_each_stream_has_vectors_of_its_own(ids):
    model = make(ids)
    count = STREAMS[ids]
    assert model.position.table.weight.shape == (count * 30, 16)
    vectors = model.position.table.weight.view(count, 30, 16)
    rows, _ = ROWS[ids]
    numbers = model.position.ids(rows)
    expected = sum(vectors[stream][numbers[..., stream]] for stream in range(count))
    torch.testing.assert_close(model.position.embed(numbers), expected)


@pytest.mark.parametrize("reach", [None, 1])
@pytest.mark.parametrize("ids", STREAMS)
def test_prompts_of_other_lengths_beside_it_change_nothing(ids, reach):
    """What is padded stands behind a prompt, and its ids are nobody's."""
    long, short = ("0099+0001+0012=", "7+5=") if ids == "coupling_sums" else ("123*456=", "7*5=")
    model = make(ids, reach=reach, context=40)
    padded = torch.stack(
        [F.pad(tokens(text, reader=LEVELS)[0], (0, 15 - len(text)), value=1) for text in (long, short)]
    )
    lengths = torch.tensor([len(long), len(short)])
    cache = Cache(model.config, 2, 15, padded.device, torch.float32)
    with torch.no_grad():
        together = model.first_scores(padded, lengths, cache)
        for row, text in enumerate((long, short)):
            torch.testing.assert_close(together[row], model(tokens(text, reader=LEVELS))[0, -1])


@pytest.mark.parametrize("reach", [None, 1])
@pytest.mark.parametrize("ids", STREAMS)
def test_what_is_written_with_a_cache_is_what_whole_rows_would_say(ids, reach):
    """Token by token, whatever signs an untrained model writes."""
    prompts = {
        "coupling_sums": ["007+058=", "12+34+56=", "1+2+3+4=", "0123+0456=", "9+9=", "05+60+07="],
        "coupling_products": ["12*36=", "305*7=", "7*305=", "99*98=", "1*1=", "12345*678="],
    }[ids]
    model, all_written = make(ids, reach=reach, context=60), ""
    for seed in range(4):
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(std=1.0)
        expected = []
        for prompt in prompts:
            row = tokens(prompt, reader=LEVELS)
            while row.shape[1] < len(prompt) + 20 and "\n" not in LEVELS.decode(row[0].numpy()):
                row = torch.cat([row, model(row)[:, -1:].argmax(dim=-1)], dim=1)
            expected.append(LEVELS.decode(row[0].numpy())[len(prompt) :])
        assert Completer(model, LEVELS, lambda text: "\n" in text, 20)(prompts) == expected
        all_written += "".join(expected)
    assert len(set(all_written) & set("*+=>")) > 1


@pytest.mark.parametrize(
    ("ids", "fits", "too_long", "needed"),
    [
        # 28 digits of padding and the `=`; 29 sums; 28 digits of a product and its sign; 28 of a sum, and what ends it.
        ("coupling_sums", "0" + "9" * 27 + "+" + "0" * 28 + "=", "0" * 29 + "+" + "0" * 29 + "=", 31),
        ("coupling_sums", "+".join(["00"] * 28) + "=", "+".join(["00"] * 29) + "=", 31),
        ("coupling_products", "9" * 26 + "*1=", "9" * 28 + "*=", 31),
        ("coupling_products", "9" * 14 + "*" + "1" * 13 + "=", "9" * 14 + "*" + "1" * 14 + "=", 31),
    ],
)
def test_several_ids_that_do_not_suffice_are_refused(ids, fits, too_long, needed):
    model = make(ids, context=100)
    model.check(tokens(fits, reader=LEVELS), more=1)
    with pytest.raises(BadConfig, match=rf"need {needed} ids, and the model has 30: .* model.places={needed}"):
        model.check(tokens(too_long, reader=LEVELS), more=1)
    # Whatever a model goes on to write.
    astray = tokens(fits + "1" * 40 + "+" * 20 + ">" * 40, reader=LEVELS)
    assert make(ids, context=200).position.ids(astray).max() == 29


def numbered(model, prompt, completion):
    """The ids and the text of all that is asked, and of all that is written behind it."""
    numbers = model.position.ids(tokens(prompt + completion, reader=LEVELS))[0]
    room = model.position.ids(tokens(prompt, reader=LEVELS))[0].amax(dim=0) + torch.tensor(model.position.ids.grows)
    assert (numbers.amax(dim=0) <= room).all(), "the prompt leaves room for what is written"
    assert (numbers[:-1].amax(dim=1) > 0).all()
    both = [(tuple(ids), text) for ids, text in zip(numbers.tolist(), prompt + completion, strict=True)]
    return both[: len(prompt)], both[len(prompt) :]


def values(pairs):
    """Numbers, put together from (number, weight) and digit."""
    found = Counter()
    for (number, weight), digit in pairs:
        found[number] += int(digit) * 10 ** (weight - 2)  # units have 2
    return found


def test_sums_find_their_operands_by_their_ids():
    model = make("coupling_sums", context=400, places=60)
    data = DataConfig(operands=5, digits=6, format="running_sums", num_examples=200, num_test=9)
    for prompt, completion, answer in make_dataset(data).examples("train"):
        asked, written = (
            values(((number, weight), text) for (weight, number), text in part if text.isdigit())
            for part in numbered(model, prompt, completion)
        )
        assert written[1] == 0
        assert [*written] == [*range(1, len(asked) + 2)]
        assert all(written[number + 1] == written[number] + asked[number] for number in asked)
        assert written[len(asked) + 1] == int(answer)


def test_products_find_their_digits_by_their_ids():
    model = make("coupling_products", context=400, places=60)
    data = DataConfig(operation="multiply", digits=5, format="partial_products", num_examples=200, num_test=9)
    for prompt, completion, answer in make_dataset(data).examples("train"):
        asked, written = numbered(model, prompt, completion)
        asked, written = ([(ids, text) for ids, text in part if text.isdigit()] for part in (asked, written))
        first = values(((0, of_first), text) for (of_first, _, _), text in asked if of_first)[0]
        second = {of_second: int(text) for (_, of_second, _), text in asked if of_second}
        products = values(((of_second, of_first), text) for (of_first, of_second, _), text in written if of_first)
        assert products == Counter({place: first * digit for place, digit in second.items()})
        shifted = values(((of_second, place), text) for (of_first, of_second, place), text in written if of_first)
        sums = values(((of_second, place), text) for (of_first, of_second, place), text in written if not of_first)
        for number in second:
            assert sums[number] == sum(shifted[earlier] for earlier in range(1, number + 1))
        assert sums[max(second)] == int(answer)
        assert max(place for (_, _, place), _ in written) + 1 == max(
            place for (_, _, place), _ in numbered(model, prompt, "")[0]
        )


def test_t5_shares_numbers_among_distances():
    rows = make("places", "t5").position.rows(torch.tensor([*range(25), 127, 128, 500]))
    steps = [*range(16), 16, 16, 16, 17, 17, 18, 18, 18, 19, 31, 31, 31]
    assert rows.tolist() == steps
    assert make("places", "t5").position.rows(-torch.tensor([1, 5, 200])).tolist() == [33, 37, 63]
    # As the formula of the paper has it.
    for distance in range(16, 200):
        expected = min(31, 16 + int(math.log(distance / 16) / math.log(8) * 16 + 1e-9))
        assert make("places", "t5").position.rows(torch.tensor([distance])).item() == expected


def test_alibi_falls_with_the_distance():
    position = make("places", "alibi", heads=8).position
    ids = torch.arange(4)[None]
    bias = position.bias(ids, ids)
    assert bias.shape == (1, 8, 4, 4)
    assert bias[0, 0, 3].tolist() == [-1.5, -1.0, -0.5, 0.0]
    assert bias[0, 7, 3].tolist() == [-3 / 256, -2 / 256, -1 / 256, 0.0]


def test_fire_measures_distances_by_how_far_a_query_stands():
    position = make("places", "fire").position
    assert isinstance(position, Fire)
    far, near = torch.tensor([[[1_000]]]), torch.tensor([[[100]]])
    parts = position.parts(far, torch.tensor([[[1_000, 500, 0]]]))[0, 0].tolist()
    assert parts == pytest.approx([0, math.log(51) / math.log(101), 1], abs=1e-6)
    # A query nearer to the beginning than 512 is measured as if it stood there.
    parts = position.parts(near, torch.tensor([[[0]]]))[0, 0].tolist()
    assert parts == pytest.approx([math.log(11) / math.log(52.2)], abs=1e-6)


def test_numbers_there_are_no_ids_for_are_refused_before_anything_is_written():
    for ids, text, needed in (("coupling", "9" * 28 + "+" + "1" * 28 + "=", 31), ("abacus", "9" * 30 + "+1=", 32)):
        model = make(ids, context=80)
        with pytest.raises(BadConfig, match=rf"need {needed} ids, and the model has 30: .* model.places={needed}"):
            model.check(tokens(text), more=1)
    make().check(tokens("9" * 27 + "+" + "1" * 27 + "="), more=1)
    # A model that goes on writing is not stopped: it just has no more ids to tell digits apart.
    assert make(context=80).position.ids(tokens("1+1=" + "2" * 60)).max() == 29


def test_ids_of_digits_need_the_tokens_texts():
    with pytest.raises(Unsupported, match="coupling ids go by what tokens say"):
        Decoder(ModelConfig(ids="coupling"), 13)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"places": 100}, "model.places goes with other ids than places"),
        ({"ids": "shifted"}, "shifted ids need more of them than a row has tokens: set model.places above"),
        ({"ids": "scattered", "places": 256}, "scattered ids need more of them"),
        ({"ids": "couplin"}, "did you mean 'coupling'"),
        ({"reach": -1}, "model.reach"),
        ({"ids": "coupling_sums", "position": "rotary"}, "gives a token 2 ids, and rotary positions go by one: set"),
        ({"ids": "coupling_products", "position": "fire"}, "coupling_products gives a token 3 ids, and fire positions"),
        ({"ids": "coupling_sums", "position": "sinusoidal"}, "sinusoidal positions go by one"),
    ],
)
def test_models_that_cannot_be(model, says):
    with pytest.raises((ValidationError, BadConfig), match=says):
        load(RunConfig, {"model": model})


COUPLED = {
    "data": {"format": "reverse_padded"},
    "model": {"ids": "coupling"},
    "train": {"packing": "rows", "loss": "answer"},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"train": {}}, "set train.packing=rows and train.loss=answer"),
        ({"train": {"packing": "rows"}}, "set train.packing=rows and train.loss=answer"),
        ({"data": {"format": "reverse"}}, "set data.format.name=reverse_padded, not reverse"),
        ({"data": {"format": {"name": "reverse_padded", "spaces": True}}}, "set data.format.spaces=false"),
        ({"model": {"ids": "coupling_sums"}}, "set data.format.name=running_sums, not reverse_padded"),
        ({"model": {"ids": "coupling_products"}}, "set data.format.name=partial_products, not reverse_padded"),
        ({"model": {"ids": "coupling_sums"}, "data": {"format": "running_sums", "operands": 5}}, None),
        (
            {"model": {"ids": "coupling_products"}, "data": {"format": "partial_products", "operation": "multiply"}},
            None,
        ),
        ({"mix": [{"format": "plain", "digits": 2}]}, "set data.format.name=reverse_padded, not plain"),
        ({"evaluations": [{"examples": 2}]}, "coupled ids know one problem at a time"),
        ({"watch": [{"prefix": "\n"}]}, "coupled ids know one problem at a time"),
        ({"tokenizer": "gpt2"}, "coupling ids need a token for each digit"),
    ],
)
def test_runs_that_coupling_cannot_number(change, says):
    if says is None:
        load(RunConfig, COUPLED | change)
        return
    with pytest.raises((ValidationError, BadConfig), match=says):
        load(RunConfig, COUPLED | change)


@pytest.mark.parametrize("ids", ["abacus", "coupling"])
def test_numbers_too_long_for_their_ids_have_some_all_the_same(ids):
    """A model that learns from its own labels may meet such: it did not end a number."""
    tokens = [*"0123456789", "+", "=", "\n"]
    config = ModelConfig(layers=1, heads=2, width=16, context=40, ids=ids, places=6)
    position = IDS[ids](config, tokens).train()
    text = "12+34=" + "5" * 20 + "\n"
    ids_BT = position(torch.tensor([[tokens.index(token) for token in text]] * 50))
    assert ids_BT.min() >= 0
    assert ids_BT.max() < 6


def test_biases_of_every_row_count_as_memory():
    """Fewer rows are asked at once: of 1,500 tokens and 8 heads, one row's take 72 MB."""
    plain, biased = make("coupling"), make("coupling", reach=1)
    more = biased.working_numbers_per_token - plain.working_numbers_per_token
    assert more == 3 * biased.config.heads * biased.config.context
    assert make("places", "alibi").working_numbers_per_token == plain.working_numbers_per_token  # all rows share one
