"""The README runs as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("number", "written"), [(0, {"key.glb"}), (1, {"jump.glb", "jump.bvh", "jump.gif"})], ids=["sketch", "library"]
)
def test_the_first_code_blocks_run_and_write_what_they_say(tmp_path: Path, number: int, written: set[str]) -> None:
    block = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[number]
    (tmp_path / "readme.py").write_text(block)
    done = subprocess.run([sys.executable, "readme.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert written <= {path.name for path in tmp_path.iterdir()}


def test_every_verb_in_the_readme_exists() -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "marey", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for verb in set(re.findall(r"^marey (\w+)", README, re.MULTILINE)):
        assert re.search(rf"^\s+{verb}\s", help_text, re.MULTILINE), verb


def test_every_local_link_leads_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page}: {link}"
