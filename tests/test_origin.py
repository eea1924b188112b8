"""The commit that numbers are told to come from."""

import subprocess

import pytest

from carryon.origin import commit_of


@pytest.fixture
def package(tmp_path):
    """A repository with a package and a results file, all of it committed."""
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    (package / "code.py").write_text("1\n")
    (tmp_path / "results.jsonl").write_text("{}\n")
    for arguments in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return package


def test_results_that_grow_do_not_change_the_code(package):
    clean = commit_of(package)
    assert clean is not None
    assert len(clean) == 12
    (package.parents[1] / "results.jsonl").write_text("{}\n{}\n")
    assert commit_of(package) == clean


@pytest.mark.parametrize("name", ["code.py", "new.py"])
def test_code_that_was_changed_or_added_is_marked(package, name):
    clean = commit_of(package)
    (package / name).write_text("2\n")
    assert commit_of(package) == f"{clean}+"


def test_outside_a_repository_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) is None


def test_a_package_installed_inside_another_repository_does_not_take_its_commit(package):
    installed = package.parents[1] / ".venv" / "package"
    installed.mkdir(parents=True)
    (installed / "code.py").write_text("1\n")
    assert commit_of(installed) is None


def test_a_repository_without_a_commit_has_none(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "code.py").write_text("1\n")
    assert commit_of(tmp_path) is None
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert commit_of(tmp_path) is None
