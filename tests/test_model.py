import pytest
import torch

from carryon.checkup import check_device
from carryon.config import ModelConfig, PositionName, choices
from carryon.model import Cache, Decoder
from carryon.positions import POSITIONS

torch.set_num_threads(1)


def make(position="learned", **values):
    torch.manual_seed(0)
    config = ModelConfig(
        **{"layers": 2, "heads": 2, "width": 16, "context": 24, "dropout": 0.0, "position": position} | values
    )
    return Decoder(config, 13).eval()


positions = pytest.mark.parametrize("position", POSITIONS)
TOKENS = torch.randint(0, 13, (3, 20), generator=torch.Generator().manual_seed(1))


def test_positions_are_those_of_the_config():
    assert set(choices(PositionName)) == set(POSITIONS)


def test_the_papers_models_have_the_papers_sizes():
    with torch.device("meta"):
        assert Decoder(ModelConfig(), 13).num_parameters == 10_626_816
        gpt2 = Decoder(ModelConfig(layers=12, heads=12, width=768, context=1024), 13)
        assert round(gpt2.num_parameters / 1e6) == 85


@positions
def test_the_future_does_not_change_the_past(position):
    model = make(position)
    later = TOKENS.clone()
    later[:, 12:] = (later[:, 12:] + 1) % 13
    torch.testing.assert_close(model(TOKENS)[:, :12], model(later)[:, :12])
    assert not torch.allclose(model(TOKENS)[:, 12:], model(later)[:, 12:])


@positions
def test_rows_of_a_batch_do_not_see_each_other(position):
    model = make(position)
    together = model(TOKENS)
    alone = torch.cat([model(row[None]) for row in TOKENS])
    torch.testing.assert_close(together, alone)


@positions
def test_a_cache_changes_nothing(position):
    """Prompts of different lengths, padded on the right, then token by token, each row at its own place."""
    model = make(position)
    full = model(TOKENS)
    cache = Cache(model.config, 3, 20, TOKENS.device, torch.float32)
    lengths = torch.tensor([5, 9, 7])
    with torch.no_grad():
        begun = model.scores(model.begin(TOKENS[:, :9], cache))
        torch.testing.assert_close(begun, full[:, :9])
        for step in range(10):
            at = lengths + step
            scores = model.scores(model.go_on(TOKENS[:, : int(at.max()) + 1], at, cache))
            torch.testing.assert_close(scores, full[torch.arange(3), at])


def test_position_matters_where_there_is_one():
    swapped = TOKENS[:, [1, 0, *range(2, 20)]]
    for position in POSITIONS:
        model = make(position)
        same = torch.allclose(model(TOKENS)[:, -1], model(swapped)[:, -1], atol=1e-6)
        assert not same


@positions
def test_a_trace_shows_what_the_model_computes(position):
    model = make(position)
    logits, trace = model.trace(TOKENS)
    torch.testing.assert_close(logits, model(TOKENS))
    weights = trace["block1.attention.weights"]
    assert weights.shape == (3, 2, 20, 20)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 20))
    assert not weights.triu(1).any()
    assert {"embedding", "block0.attention.out", "block0.mlp.out", "block1.out", "logits"} <= set(trace)


def test_the_loss_counts_what_the_mask_says():
    model = make()
    inputs, targets = TOKENS[:, :-1], TOKENS[:, 1:]
    mask = torch.zeros_like(targets, dtype=torch.bool)
    mask[:, 5:8] = True
    log_probabilities = model(inputs).log_softmax(-1).gather(2, targets[..., None])[..., 0]
    torch.testing.assert_close(model.loss(inputs, targets, mask), -log_probabilities[mask].sum())
    torch.testing.assert_close(model.loss(inputs, targets), -log_probabilities.sum())


@positions
@pytest.mark.parametrize("place", [2, 9, 15])
def test_what_does_not_count_is_left_out_of_the_last_block_and_changes_nothing(position, place):
    model = make(position).train()
    inputs, targets = TOKENS[:, :-1], TOKENS[:, 1:]
    mask = torch.zeros_like(targets, dtype=torch.bool)
    mask[0, place:], mask[1, place + 3 :] = True, True  # of the third row nothing counts
    parameters = list(model.parameters())
    log_probabilities = model(inputs).log_softmax(-1).gather(2, targets[..., None])[..., 0]
    expected = -log_probabilities[mask].sum()
    widths = []
    for block in model.blocks:
        block.up.register_forward_pre_hook(lambda module, given: widths.append(given[0].shape[1]))
    loss = model.loss(inputs, targets, mask)
    assert widths == [19, 19 - place if 4 * place >= 19 else 19]
    torch.testing.assert_close(loss, expected)
    theirs = torch.autograd.grad(expected, parameters, allow_unused=True)
    for ours, gradient in zip(torch.autograd.grad(loss, parameters, allow_unused=True), theirs, strict=True):
        torch.testing.assert_close(ours, gradient)


@torch.no_grad()
def test_dropout_acts_in_the_last_block_however_much_of_it_is_left_out():
    model = make(layers=1)
    model.blocks[0].down.weight.zero_()  # what the block's dropout changes is the attention
    mask = torch.zeros((3, 19), dtype=torch.bool)
    mask[:, 12:] = True

    def loss(**dropout):
        torch.manual_seed(3)
        model.dropout.p = dropout.get("embedding", 0.0)
        model.blocks[0].attention.dropout = dropout.get("weights", 0.0)
        model.blocks[0].dropout.p = dropout.get("attention", 0.0)
        return float(model.loss(TOKENS[:, :-1], TOKENS[:, 1:], mask))

    places = ({}, {"embedding": 0.5}, {"weights": 0.5}, {"attention": 0.5})
    assert len({loss(**place) for place in places}) == 1  # not while it is asked
    model.train()
    assert len({loss(**place) for place in places}) == 4


def test_weights_start_small_and_the_embedding_is_tied():
    model = make(width=64, layers=8)
    assert model.blocks[0].up.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert model.blocks[0].down.weight.std().item() == pytest.approx(0.02 / 4, rel=0.1)
    assert not any("head" in name for name, _ in model.named_parameters())


def test_the_doctor_trusts_the_cpu():
    report = check_device("cpu")
    assert report["ok"]
    assert len(report["checks"]) >= 5
