"""Does a device compute what the CPU computes? Some have been caught computing something else."""

import copy
import math
from typing import Any

import torch

from . import fused
from .config import ModelConfig
from .devices import describe_device, pick_device, pick_precision
from .model import Cache, Decoder


def check_device(name: str = "auto") -> dict[str, Any]:
    """The same small model on the CPU in float64 and on the device: forward, gradients, cached reading, our kernels."""
    device = pick_device(name)
    precision = pick_precision("auto", device)
    torch.manual_seed(0)
    config = ModelConfig(layers=2, heads=2, width=32, context=24, dropout=0.0)
    reference = Decoder(config, 17).double().eval()
    model = copy.deepcopy(reference).float().to(device)
    tokens = torch.randint(0, 17, (5, 24))
    checks = []

    def compare(what: str, expected: torch.Tensor, given: torch.Tensor, limit: float) -> None:
        given = given.detach().double().cpu()
        error = float((given - expected).norm() / expected.norm())
        checks.append({"what": what, "error": error, "limit": limit, "ok": error <= limit})  # NaN is not <=

    expected = reference(tokens).detach()
    compare("forward, float32", expected, model(tokens.to(device)), 1e-4)
    reference.loss(tokens[:, :-1], tokens[:, 1:]).backward()  # type: ignore[no-untyped-call]
    model.loss(tokens[:, :-1].to(device), tokens[:, 1:].to(device)).backward()  # type: ignore[no-untyped-call]
    for (name_, theirs), ours in zip(reference.named_parameters(), model.parameters(), strict=True):
        if name_ in ("embedding.weight", "blocks.0.attention.query_key_value.weight", "blocks.1.down.weight"):
            assert theirs.grad is not None
            assert ours.grad is not None
            compare(f"gradient of {name_}, float32", theirs.grad, ours.grad, 1e-3)
    with torch.no_grad():
        cache = Cache(config, 5, 24, device, torch.float32)
        model.begin(tokens[:, :20].to(device), cache)
        out = [
            model.scores(model.go_on(tokens.to(device), torch.full((5,), t, device=device), cache))
            for t in range(20, 24)
        ]
        compare("reading with a cache, float32", expected[:, 20:], torch.stack(out, dim=1), 1e-4)
        if precision != torch.float32:
            with torch.autocast(device.type, dtype=precision):
                compare(f"forward, {str(precision).removeprefix('torch.')}", expected, model(tokens.to(device)), 3e-2)
    if fused.available(device) and precision != torch.float32:
        what = f"kernels in {str(precision).removeprefix('torch.')}"
        try:
            for name_, wanted, given in _through_kernels(device, precision):
                compare(f"gradient of {name_}, {what}", wanted, given, 3e-2)
        except Exception as error:
            text = f"{what}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
            checks.append({"what": text, "error": math.nan, "limit": 3e-2, "ok": False})
    return {
        "device": f"{device.type} ({describe_device(device)})",
        "precision": str(precision).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "checks": checks,
        "ok": all(check["ok"] for check in checks),
    }


def _through_kernels(device: torch.device, precision: torch.dtype) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """All gradients of a model as wide in the head as the paper's, over several blocks of tokens."""
    from .fused.loss import FusedLoss

    reference = Decoder(ModelConfig(layers=1, heads=2, width=128, context=150, dropout=0.0), 17).double()
    model = copy.deepcopy(reference).float().to(device)
    tokens = torch.randint(0, 17, (3, 150))
    theirs = torch.autograd.grad(reference.loss(tokens[:, :-1], tokens[:, 1:]), list(reference.parameters()))
    loss = FusedLoss(model, precision)(tokens[:, :-1].to(device), tokens[:, 1:].to(device))
    ours = torch.autograd.grad(loss, list(model.parameters()))
    return list(zip(dict(reference.named_parameters()), theirs, ours, strict=True))
