"""Metrics to TensorBoard or Weights & Biases, for those who ask; the run folder has them anyway."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Tracker = Callable[[Mapping[str, Any]], None]


def make_trackers(names: list[str], folder: Path) -> list[Tracker]:
    from ..errors import UnknownName

    makers = {"tensorboard": _tensorboard, "wandb": _wandb}
    for name in names:
        if name not in makers:
            raise UnknownName("tracker", name, makers)
    return [makers[name](folder) for name in names]


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {key: value for key, value in row.items() if isinstance(value, int | float) and key != "step"}


def _tensorboard(folder: Path) -> Tracker:
    from ..errors import MissingExtra

    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtra("tracking with tensorboard needs it: pip install 'carryon[tensorboard]'") from None
    writer = SummaryWriter(str(folder / "tensorboard"))

    def track(row: Mapping[str, Any]) -> None:
        for key, value in _numbers(row).items():
            writer.add_scalar(key, value, row["step"])
        writer.flush()

    return track


def _wandb(folder: Path) -> Tracker:
    from ..errors import MissingExtra

    try:
        import wandb
    except ImportError:
        raise MissingExtra("tracking with wandb needs it: pip install 'carryon[wandb]'") from None
    run = wandb.init(project="carryon", name=folder.name, dir=str(folder.parent))
    return lambda row: run.log(_numbers(row), step=row["step"])
