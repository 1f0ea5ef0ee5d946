"""The package as a whole: light to import, its names resolve, its texts hold together."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import marey

HEAVY = ("numba", "scipy", "matplotlib", "rich", "typer")


def test_every_public_name_resolves_and_there_are_at_most_thirty() -> None:
    assert len(marey.__all__) <= 30
    for name in marey.__all__:
        assert getattr(marey, name) is not None


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = f"import sys, marey; print([m for m in {HEAVY!r} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_reading_a_name_that_is_not_there_says_so() -> None:
    assert not hasattr(marey, "utils")


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert project["project"]["version"] == marey.__version__


def test_every_package_is_an_attribute() -> None:
    root = Path(marey.__file__).parent
    packages = {folder.name for folder in root.iterdir() if (folder / "__init__.py").is_file()} - {"cli"}
    code = f"import marey; print(all(getattr(marey, name).__name__ for name in {sorted(packages)!r}))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "True"
