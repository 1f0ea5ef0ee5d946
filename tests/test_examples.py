"""Every example runs as it is, without a window, and leaves its picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("[0-9]*.py"))


QUICK = ("01_load_and_look", "06_reach")  # the others run in `make study`


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow) for path in EXAMPLES],
)
def test_the_example_runs_and_saves_a_picture(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    pictures = list(tmp_path.glob("*.png"))
    assert pictures and min(picture.stat().st_size for picture in pictures) > 2000


def test_examples_are_short_and_explain_themselves() -> None:
    assert len(EXAMPLES) >= 5
    for example in EXAMPLES:
        text = example.read_text()
        assert text.startswith('"""') and len(text.splitlines()) < 120
