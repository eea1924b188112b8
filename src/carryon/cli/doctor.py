"""carryon doctor: is this machine fit for it?"""

from typing import Annotated, Any

import typer

PACKAGES = (
    *("torch", "numpy", "pydantic", "typer", "rich", "safetensors"),
    *("tiktoken", "transformers", "peft", "gguf", "openai", "pyarrow", "datasets"),
    *("ray", "submitit", "tensorboard", "wandb"),
)


def doctor(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is installed, and check that the device computes what the CPU computes. Exits with 1 if it does not.

    Example: carryon doctor
    """
    import importlib.metadata
    import platform

    from ..checkup import check_device
    from .output import print_json

    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions,
    }
    report |= check_device(device)
    if as_json:
        print_json(report)
    else:
        print(f"Python {report['python']} on {report['platform']}")
        print("installed: " + ", ".join(f"{name} {version}" for name, version in versions.items() if version))
        missing = ", ".join(name for name, version in versions.items() if not version)
        if missing:
            print(f"not installed, and only needed by extras: {missing}")
        print(f"device: {report['device']}, precision {report['precision']}, {report['threads']} CPU threads")
        for check in report["checks"]:
            mark, error = "ok " if check["ok"] else "BAD", check["error"]
            print(f"  {mark} {check['what']}: off by {error:.1e} (at most {check['limit']:.0e})")
        print("this device computes what the CPU computes" if report["ok"] else "do not trust this device's numbers")
    if not report["ok"]:
        raise typer.Exit(1)
