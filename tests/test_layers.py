"""Modules import only to the left of this picture. Change the picture first, then the code."""

import ast
from pathlib import Path

import carryon

SOURCE = Path(carryon.__file__).parent
LAYERS = [
    {"errors", "rng", "files", "paper", "origin", "lemmas"},
    {"corpora"},
    {"config", "results", "matrix_completion", "pretrained"},
    {"operations", "recipes", "costs"},
    {"formats", "sampling", "tokenizers"},
    {"data"},
    {"positions", "devices"},
    {"model"},
    {"fused"},
    {"runs", "checkup"},
    {"generation"},
    {"evaluation"},
    {"interop"},
    {"training", "reports"},
    {"experiments", "execution"},
    {"planning"},
    {"overview"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
WITH_TORCH = {"positions", "devices", "model", "fused", "checkup", "generation", "interop", "training"}


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[0] not in ("__init__", "__main__"):
            yield parts, ast.parse(path.read_text())


def imports(parts, tree):
    """Top-level names of this package that a module imports, and of others."""
    inside, outside = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            outside.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            outside.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = parts[: len(parts) - node.level]
            target = (*base, *(node.module.split(".") if node.module else ()))
            inside.update({target[0]} if target else {alias.name for alias in node.names})
    return inside, outside


def test_every_module_has_its_place():
    assert {parts[0] for parts, _ in modules()} == set(RANK)


def test_modules_import_only_to_the_left():
    for parts, tree in modules():
        inside, _ = imports(parts, tree)
        for name in inside - {parts[0], "__version__"}:
            assert RANK[name] < RANK[parts[0]], f"{'.'.join(parts)} imports {name}"


def test_making_data_needs_no_torch():
    for parts, tree in modules():
        _, outside = imports(parts, tree)
        if parts[0] not in WITH_TORCH and parts != ("cli", "trackers"):
            assert "torch" not in outside, f"{'.'.join(parts)} imports torch"
        assert "pickle" not in outside, f"{'.'.join(parts)} imports pickle"
        assert "random" not in outside, f"{'.'.join(parts)} draws from a stream without a name"
