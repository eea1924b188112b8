"""The kernels against the plain model, in Triton's interpreter where there is no GPU; and compiled for one."""

import os
import subprocess
import sys
from collections import Counter, defaultdict
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F

from carryon.config import ModelConfig
from carryon.model import Decoder
from carryon.model import cross_entropy as plain_cross_entropy
from carryon.training.stepper import _Fused

if find_spec("triton") is None:
    pytest.skip("Triton is not installed here (it comes for Linux only)", allow_module_level=True)

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
if not ON_GPU:
    # Read when a kernel is decorated; other tests' processes must not inherit it.
    os.environ["TRITON_INTERPRET"] = "1"
from carryon.fused import launching  # noqa: E402
from carryon.fused.add_norm import add_norm  # noqa: E402
from carryon.fused.attention import attend  # noqa: E402
from carryon.fused.cross_entropy import cross_entropy  # noqa: E402
from carryon.fused.dropout import Drop, drop_everywhere  # noqa: E402
from carryon.fused.gelu import gelu  # noqa: E402
from carryon.fused.loss import FusedLoss, look_up  # noqa: E402

os.environ.pop("TRITON_INTERPRET", None)


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    if not ON_GPU:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False


def normal(*shape):
    return torch.randn(shape, device=DEVICE, requires_grad=True)


def drop(rate, *, site=0, number=12345):
    seed = torch.tensor([number], dtype=torch.int32, device=DEVICE)
    return drop_everywhere(seed, site + 1, 256, rate)[site]


def close(given, wanted):
    assert (given - wanted).norm() <= 2e-6 * wanted.norm()


def same_gradients(given, wanted, inputs):
    """For gradients drawn at random."""
    outward = [torch.randn_like(tensor) for tensor in given]
    for ours, theirs in zip(
        torch.autograd.grad(given, inputs, outward, retain_graph=True),
        torch.autograd.grad(wanted, inputs, outward, retain_graph=True),
        strict=True,
    ):
        close(ours, theirs)


@pytest.mark.parametrize("dropout", [0.0, 0.25, 0.9])
@pytest.mark.parametrize("has_x", [True, False])
@pytest.mark.parametrize(("rows", "width"), [(22, 48), (5, 32), (1, 16)])
def test_add_norm(rows, width, has_x, dropout):
    branch, weight = normal(rows, width), normal(width)
    x = normal(rows, width) if has_x else None
    out, normed = add_norm(x, branch, weight, drop(dropout, site=3), torch.float32)
    kept = kept_elements(rows, width, dropout, site=3)
    expected = branch * kept / (1 - dropout) + (x if has_x else 0)
    expected_normed = F.layer_norm(expected, (width,), weight)
    close(out, expected)
    close(normed, expected_normed)
    inputs = [tensor for tensor in (x, branch, weight) if tensor is not None]
    same_gradients((out, normed), (expected, expected_normed), inputs)
    same_gradients((normed,), (expected_normed,), inputs)
    same_gradients((out,), (expected,), inputs[:-1])


def kept_elements(rows, width, dropout, *, site=0, number=12345):
    """Which elements of a branch dropout keeps."""
    ones = torch.ones(rows, width, device=DEVICE)
    weight = torch.ones(width, device=DEVICE)
    out, _ = add_norm(None, ones, weight, drop(dropout, site=site, number=number), torch.float32)
    return (out > 0).float()


def kept_weights(batch, tokens, heads, width, dropout, site):
    """Which attention weights dropout keeps: values that are one-hot show them, some columns at a time."""
    kept = torch.zeros(batch, heads, tokens, tokens, device=DEVICE)
    for first in range(0, tokens, width):
        some = range(first, min(tokens, first + width))
        qkv = torch.zeros(batch, tokens, 3, heads, width, device=DEVICE)
        for column in some:
            qkv[:, column, 2, :, column - first] = 1
        out = attend(qkv.view(batch, tokens, -1), heads, drop(dropout, site=site))
        kept[..., some.start : some.stop] = out.view(batch, tokens, heads, width).transpose(1, 2)[..., : len(some)] > 0
    return kept


@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("tokens", [150, 64, 37, 1])
def test_attend(tokens, dropout):
    batch, heads, width = 2, 2, 16
    qkv = normal(batch, tokens, 3 * heads * width)
    out = attend(qkv, heads, drop(dropout, site=1))
    q, k, v = (part.view(batch, tokens, heads, width).transpose(1, 2) for part in qkv.chunk(3, -1))
    ahead = torch.ones(tokens, tokens, dtype=torch.bool, device=DEVICE).triu(1)
    weights = (q @ k.mT / width**0.5).masked_fill(ahead, float("-inf")).softmax(-1)
    weights = weights * kept_weights(batch, tokens, heads, width, dropout, site=1) / (1 - dropout)
    expected = (weights @ v).transpose(1, 2).reshape(batch, tokens, -1)
    close(out, expected)
    same_gradients((out,), (expected,), [qkv])


def test_tensors_in_another_order_are_read_right():
    """A view has the same numbers, elsewhere."""
    wide = normal(2, 70, 2, 96)
    for part in (wide[:, :, 0], wide[:, :, 1]):
        straight = part.detach().clone()
        attended = (attend(given, 2, drop(0.0)) for given in (part, straight))
        assert torch.equal(*attended)
        rows, weight = part.reshape(-1, 96).T, torch.ones(140, device=DEVICE)
        options = (drop(0.0), torch.float32)
        for one, other in zip(
            add_norm(rows, rows, weight, *options),
            add_norm(rows.clone().contiguous(), rows.clone().contiguous(), weight, *options),
            strict=True,
        ):
            assert torch.equal(one, other)
        assert torch.equal(gelu(rows), gelu(rows.clone().contiguous()))


def test_gelu():
    x = normal(3, 1001)
    expected = F.gelu(x, approximate="tanh")
    close(gelu(x), expected)
    same_gradients((gelu(x),), (expected,), [x])


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
def test_gelu_far_from_zero():
    x = torch.tensor([-1e4, -30.0, 30.0, 1e4], device=DEVICE, requires_grad=True)
    out = gelu(x)
    assert out.tolist() == [0.0, 0.0, 30.0, 1e4]
    assert torch.autograd.grad(out.sum(), x)[0].tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(("rows", "vocabulary"), [(37, 14), (5, 128), (3, 4097), (2, 9000), (1, 1)])
def test_cross_entropy(rows, vocabulary):
    logits = torch.randn(rows, vocabulary, device=DEVICE).mul_(20).requires_grad_()
    targets = torch.randint(0, vocabulary, (rows,), device=DEVICE)
    targets[::3] = -100
    weight = torch.tensor(0.01, device=DEVICE)
    given, expected = cross_entropy(logits, targets), plain_cross_entropy(logits, targets)
    close(given, expected)
    (ours,), (theirs,) = (torch.autograd.grad(loss * weight, logits) for loss in (given, expected))
    close(ours, theirs)
    assert not ours[::3].any()


def test_columns_behind_the_vocabulary_do_not_exist():
    logits = normal(7, 64)
    targets = torch.randint(0, 14, (7,), device=DEVICE)
    given, expected = cross_entropy(logits, targets, 14), plain_cross_entropy(logits[:, :14], targets)
    close(given, expected)
    (ours,), (theirs,) = (torch.autograd.grad(loss, logits) for loss in (given, expected))
    close(ours, theirs)


def test_cross_entropy_of_nothing_that_counts():
    logits = normal(4, 14)
    loss = cross_entropy(logits, torch.full((4,), -100, device=DEVICE))
    assert loss == 0
    assert not torch.autograd.grad(loss, logits)[0].any()


def test_cross_entropy_of_scores_in_16_bits_is_summed_in_32():
    logits = torch.randn(50, 5000, device=DEVICE).half().requires_grad_()
    targets = torch.randint(0, 5000, (50,), device=DEVICE)
    loss, expected = cross_entropy(logits, targets), plain_cross_entropy(logits, targets)
    assert loss.dtype == torch.float32
    close(loss, expected)
    (ours,), (theirs,) = (torch.autograd.grad(number, logits) for number in (loss, expected))
    assert ours.dtype == torch.float16
    assert (ours.float() - theirs.float()).norm() < 1e-3 * theirs.float().norm()


def test_a_small_table_and_a_large_one_have_the_same_gradient(monkeypatch):
    ids, table = torch.randint(0, 14, (3, 20), device=DEVICE), normal(14, 8)
    outward = torch.randn(3, 20, 8, device=DEVICE)
    small = look_up(table, table.detach(), ids)
    monkeypatch.setattr("carryon.fused.loss.MOST_AS_ONE_HOT", 0)
    large = look_up(table, table.detach(), ids)
    assert torch.equal(small, large)
    close(*(torch.autograd.grad(out, table, outward)[0] for out in (small, large)))


def test_what_all_rows_have_in_common_is_summed_in_32_bits():
    table = normal(4, 8)
    out = look_up(table, table.detach().half(), torch.arange(4, device=DEVICE)[None], rows=300)
    assert out.shape == (300, 4, 8)
    (gradient,) = torch.autograd.grad(out, table, torch.full_like(out, 300.0))
    assert torch.equal(gradient, torch.full_like(table, 90_000.0))  # more than a 16-bit number holds


def hashed(number):
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        number = (number ^ number >> shift) * factor % 2**32
    return number


@pytest.mark.parametrize(("site", "number", "columns"), [(0, 0, 5), (4, 12345, 48), (18, 2**31 - 1, 200)])
def test_what_is_dropped_is_known_from_seed_site_row_and_column(site, number, columns):
    """Worked out with whole numbers: another hash would be another training of the same config."""

    def key(stream, at):
        return hashed(hashed((at + stream) % 2**32) ^ stream) | 1

    of_rows, of_columns = (hashed((number + 2 * site + odd) % 2**32) for odd in (0, 1))
    keys = [[key(stream, at) for at in range(size)] for stream, size in ((of_rows, 9), (of_columns, columns))]
    expected = [[float(row * column % 2**32 >= round(0.3 * 2**32)) for column in keys[1]] for row in keys[0]]
    assert kept_elements(9, columns, 0.3, site=site, number=number).tolist() == expected


def test_dropout_looks_drawn():
    """Its share, its rows and columns, its pairs of rows, another step and another site: like independent draws."""
    share, rows, width = 0.2, 256, 256
    masks = [kept_elements(rows, width, share, site=site, number=n) for site, n in ((0, 1), (1, 1), (0, 2), (0, 1))]
    assert torch.equal(masks[0], masks[3])
    standard = [(mask - (1 - share)) / (share * (1 - share)) ** 0.5 for mask in masks[:3]]
    noise = 1 / (rows * width) ** 0.5
    for mask in standard:
        assert abs(mask.mean()) < 5 * noise
        # The variances of the sums of 256 rows, or columns, have a deviation of about 9 %; those of pairs under 1 %.
        assert abs(mask.sum(0).square().mean() / rows - 1) < 0.4
        assert abs(mask.sum(1).square().mean() / width - 1) < 0.4
        products = mask @ mask.T / width
        pairs = products[~torch.eye(rows, dtype=torch.bool, device=DEVICE)]
        assert abs(pairs.square().mean() * width - 1) < 0.05
    for other in standard[1:]:
        assert abs((standard[0] * other).mean()) < 5 * noise


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("position", "heads", "width"), [("learned", 2, 32), ("none", 3, 48), ("sinusoidal", 1, 16)])
def test_the_loss_and_its_gradients_are_the_models_own(position, heads, width, masked):
    model = Decoder(ModelConfig(layers=2, heads=heads, width=width, context=40, dropout=0.0, position=position), 14)
    model = model.to(DEVICE)
    fused = FusedLoss(model, torch.float32)
    inputs, targets = torch.randint(0, 14, (2, 3, 37), device=DEVICE)
    mask = torch.rand(3, 37, device=DEVICE) < 0.5 if masked else None
    loss, expected = fused(inputs, targets, mask), model.loss(inputs, targets, mask)
    close(loss, expected)
    parameters = list(model.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        close(ours, theirs)


# The interpreter multiplies bfloat16 as if its bits were whole numbers.
@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16] if ON_GPU else [torch.float16])
def test_in_16_bits_the_gradients_are_near(precision):
    model = Decoder(ModelConfig(layers=1, heads=1, width=16, context=40, dropout=0.0), 14).to(DEVICE)
    fused = FusedLoss(model, precision)
    inputs, targets = torch.randint(0, 14, (2, 3, 37), device=DEVICE)
    parameters = list(model.parameters())
    ours = torch.autograd.grad(fused(inputs, targets), parameters)
    theirs = torch.autograd.grad(model.loss(inputs, targets), parameters)
    for (name, _), given, wanted in zip(model.named_parameters(), ours, theirs, strict=True):
        assert given.dtype == torch.float32
        assert (given - wanted).norm() < 2e-2 * wanted.norm(), name


def test_dropout_follows_the_seed():
    model = Decoder(ModelConfig(layers=1, heads=1, width=16, context=8, dropout=0.2), 14).to(DEVICE)
    fused = FusedLoss(model, torch.float32)
    tokens = torch.randint(0, 14, (2, 8), device=DEVICE)

    def losses(number):
        fused.reseed(number)
        return [float(fused(tokens, tokens).detach()) for _ in range(2)]

    first, second = losses(7)
    assert first != second  # two pieces of one batch
    assert losses(7) == [first, second]
    assert losses(8)[0] not in (first, second)


@pytest.mark.parametrize(("tokens", "heads", "width"), [(5, 3, 48), (65, 2, 32), (130, 3, 48), (3, 2, 256)])
def test_each_place_drops_elements_of_its_own_and_has_keys_for_all_its_columns(monkeypatch, tokens, heads, width):
    met = []

    def spy(kernels):
        def noted(*given):
            met.extend(part for part in given if isinstance(part, Drop))
            return kernels(*given)

        return noted

    monkeypatch.setattr("carryon.fused.loss.add_norm", spy(add_norm))
    monkeypatch.setattr("carryon.fused.loss.attend", spy(attend))
    model = Decoder(ModelConfig(layers=3, heads=heads, width=width, context=tokens, dropout=0.2), 14).to(DEVICE)
    ids = torch.zeros((1, tokens), dtype=torch.int64, device=DEVICE)
    FusedLoss(model, torch.float32)(ids, ids)
    assert [drop.site for drop in met] == list(range(10))
    whole_blocks = -(-tokens // 64) * 64
    for one in met:
        assert one.rate == 0.2
        assert len(one.column_keys) >= max(whole_blocks, 2 ** (width - 1).bit_length())
        keys = drop_everywhere(one.seed, one.site + 1, 1, 0.2)[one.site].column_keys
        assert torch.equal(one.column_keys[: len(keys)], keys)  # however long the table


def test_all_kernels_of_a_step_are_compiled_ahead_and_nothing_else_changes(monkeypatch):
    def step(fused):
        inputs = torch.arange(30, device=DEVICE).view(2, 15) % 14
        loss = fused(inputs, inputs, inputs > 3)
        return [loss, *torch.autograd.grad(loss, list(fused._model.parameters()))]

    torch.manual_seed(0)
    model = Decoder(ModelConfig(layers=2, heads=1, width=16, context=16, dropout=0.2), 14).to(DEVICE)
    plain, ahead = FusedLoss(model, torch.float32), FusedLoss(model, torch.float32)
    noted = {}
    compile = launching._compile
    monkeypatch.setattr(launching, "_compile", lambda calls, device: (compile(calls, device), noted.update([calls])))
    tokens = torch.zeros((2, 15), dtype=torch.int64, device=DEVICE)
    ahead.compile(tokens, tokens, tokens == 0)
    assert all(parameter.grad is None for parameter in model.parameters())
    for ours, theirs in zip(step(ahead), step(plain), strict=True):
        assert torch.equal(ours, theirs)

    monkeypatch.setattr(launching, "_ahead", defaultdict(set))
    step(ahead)
    launched = dict(launching._ahead)
    assert launched == noted
    assert len(launched) == 11


def test_where_compiling_ahead_fails_kernels_are_compiled_as_they_are_met(monkeypatch):
    def fail(calls, device):
        raise RuntimeError("no compiler")

    model = Decoder(ModelConfig(layers=1, heads=1, width=16, context=8, dropout=0.2), 14).to(DEVICE)
    tokens = torch.randint(0, 14, (2, 8), device=DEVICE)
    way, plain = _Fused(FusedLoss(model, torch.float32)), FusedLoss(model, torch.float32)
    monkeypatch.setattr(launching, "_compile", fail)
    assert torch.equal(way.loss(tokens, tokens, None), plain(tokens, tokens))
    assert launching._ahead is None


@pytest.mark.parametrize(
    ("config", "fits"),
    [
        (ModelConfig(), True),
        (ModelConfig(position="rotary"), False),
        (ModelConfig(position="alibi"), False),
        (ModelConfig(reach=1), False),
        (ModelConfig(layers=2, loops=3), False),
        (ModelConfig(ids="shifted", places=300), True),
        (ModelConfig(ids="coupling_sums"), False),
        (ModelConfig(layers=2, heads=4, width=32), False),  # heads too narrow for the matrix units
        (ModelConfig(layers=1, heads=12, width=768, context=1024), True),
    ],
)
def test_which_models_fit(config, fits):
    model = Decoder(config, 14, "0123456789*+=>")
    assert FusedLoss.fits(model, torch.bfloat16) == fits
    assert not FusedLoss.fits(model, torch.float32)


COMPILE = """
import torch, triton
from triton.backends.compiler import GPUTarget
from carryon.config import ModelConfig
from carryon.fused.loss import FusedLoss
from carryon.model import Decoder

class NotHere:
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device: 0)

triton.runtime.driver.set_active(NotHere())
with torch.device("meta"):
    for layers, tokens, vocabulary, dropout in CASES:
        config = ModelConfig(layers=layers, heads=6, width=384, context=256, dropout=dropout)
        batch = torch.zeros((32, tokens), dtype=torch.int64)
        FusedLoss(Decoder(config, vocabulary), torch.bfloat16).compile(batch, batch, batch == 0)
"""


def test_every_kernel_compiles_for_a_gpu_that_is_not_here(monkeypatch, tmp_path):
    """What the interpreter lets pass, such as a variable that changes its type in a loop, the compiler does not."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # one that is here would be asked to load them
    uneven, many_words, most_dropped = 255, 50_257, 0.6
    cases = [(6, 256, 14, 0.2), (1, uneven, many_words, most_dropped), (1, 256, 14, 0.0)]
    code = COMPILE.replace("CASES", repr(cases))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = Counter(path.stem for path in tmp_path.rglob("*.cubin"))
    assert len(found) == 11
    assert found["_attend_forward"] == found["_attend_backward"] == len(cases)  # however many layers there are
