"""Which id a token has, and what is made of it. Worked examples come from the papers that the methods are from."""

import math

import pytest
import torch
from pydantic import ValidationError

from carryon.config import IdsName, ModelConfig, RunConfig, choices, load
from carryon.errors import BadConfig, Unsupported
from carryon.model import Cache, Decoder
from carryon.positions import IDS, POSITIONS, Fire
from carryon.tokenizers import Characters

torch.set_num_threads(1)

READER = Characters("0123456789+=\n")
SIZES = {"layers": 2, "heads": 2, "width": 16, "context": 24, "dropout": 0.0}
ROOM = {"places": None, "shifted": 40, "scattered": 60, "abacus": 30, "coupling": 30}


def make(ids="coupling", position="learned", **values):
    torch.manual_seed(0)
    config = ModelConfig(**{**SIZES, "ids": ids, "places": ROOM[ids], "position": position, **values})
    return Decoder(config, READER.vocab_size, READER.tokens).eval()


def tokens(*texts):
    return torch.tensor([READER.encode(text).tolist() for text in texts])


SUMS = tokens("491+600=1901\n", "017+005=2200\n", "999+999=8991\n")


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
    numbers = make(ids).position.ids
    whole = numbers(SUMS)
    for length in range(8, 14):
        assert torch.equal(numbers(SUMS[:, :length]), whole[:, :length])
    other = SUMS.clone()
    other[:, 8:] = other[:, 8:].flip(1)
    assert torch.equal(numbers(other)[:, :8], whole[:, :8])


def test_training_meets_every_id_and_nothing_else():
    """And what has to be the same stays so."""
    torch.manual_seed(1)
    for ids in ("shifted", "abacus", "coupling", "scattered"):
        numbers = make(ids).position.ids
        asked = numbers(SUMS)
        drawn = torch.stack([numbers.train()(SUMS) for _ in range(600)])
        met = set(drawn.unique().tolist())
        if ids == "scattered":
            assert met == set(range(60))
            assert (drawn.diff(dim=2) > 0).all()
            assert (drawn == drawn[:, :1]).all()  # all rows of a batch have the same
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


COMBINED = [(ids, position, reach) for ids in IDS for position in POSITIONS for reach in (None, 1)]


@pytest.mark.parametrize(("ids", "position", "reach"), COMBINED)
def test_any_ids_go_with_any_method_and_a_cache_changes_nothing(ids, position, reach):
    loops = {"loops": 3, "inject": True} if position in ("learned", "t5") else {}
    model = make(ids, position, reach=reach, **loops)
    full = model(SUMS)
    later = SUMS.clone()
    later[:, 10:] = (later[:, 10:] + 1) % 10
    torch.testing.assert_close(model(later)[:, :10], full[:, :10])
    cache = Cache(model.config, 3, 13, SUMS.device, torch.float32)
    with torch.no_grad():
        begun = model.scores(model.begin(SUMS[:, :8], cache))
        torch.testing.assert_close(begun, full[:, :8])
        for at in range(8, 13):
            scores = model.scores(model.go_on(SUMS[:, : at + 1], torch.full((3,), at), cache))
            torch.testing.assert_close(scores, full[:, at])


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
    model = make(position="none", layers=1, reach=0)
    weights = model.trace(tokens("\n7+5=2"))[1]["block0.attention.weights"][0, 0]
    assert (weights[1:, 0] > 0).all()
    assert weights[3].tolist()[2] == 0  # the sign is one place away
    assert weights[3, 1] > 0  # the other operand's digit has the same id


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
