"""What the README tells people to type works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


COMMANDS = [line for block in blocks("bash") for line in block.splitlines() if ".venv/bin/carryon" in line]


def test_the_readme_shows_commands():
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_readme_runs(line, tmp_path):
    """In a folder that holds what a clone holds: the results."""
    shutil.copytree(ROOT / "results", tmp_path / "results")
    line = line.replace(".venv/bin/carryon", f"{sys.executable} -m carryon")
    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readmes_python_runs():
    for block in blocks("python"):
        subprocess.run([sys.executable, "-c", block], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.skipif(not (ROOT / ".venv").exists(), reason="scripts/test makes .venv; here the tests run without it")
def test_the_quick_start_runs_from_any_directory_and_prints_what_the_readme_shows(tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    # A short training, in a folder of its own: what it reaches in full is measured, not tested.
    short = ["--set", "train.steps=20", "--set", 'evaluations=[{problems="test"}]', "--runs", str(tmp_path / "runs")]
    command = [ROOT / "scripts/quickstart", *short]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (shown,) = [block for block in blocks("text") if "content hash" in block]
    printed = done.stdout.replace(f"{ROOT}/", "")
    for line in shown.splitlines():
        assert line in printed, line
    assert "20 steps in" in printed


def test_the_file_tree_is_true():
    (tree,) = [block for block in blocks("text") if "src/carryon/" in block]
    for name in re.findall(r"^  (\w+(?:\.py|/))", tree, re.MULTILINE):
        assert (ROOT / "src/carryon" / name).exists()
    shown = set(re.findall(r"^  (\w+)", tree, re.MULTILINE))
    there = {path.stem for path in (ROOT / "src/carryon").iterdir() if not path.name.startswith("__")}
    assert shown == there
