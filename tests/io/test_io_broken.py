"""A folder of broken and odd files, each with the message it must produce; ``broken/expected.toml`` is the table."""

from __future__ import annotations

import time
import tomllib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from marey.base import MareyError
from marey.io import load

FOLDER = Path(__file__).parent / "broken"
TABLE: dict[str, Any] = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))
PATIENCE_S = 2.0


@pytest.fixture(autouse=True)
def _inside_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)


def refuse(name: str) -> str:
    start = time.process_time()
    with pytest.raises(MareyError) as caught:
        load(name)
    assert time.process_time() - start < PATIENCE_S
    return str(caught.value)


@pytest.mark.parametrize("name", TABLE["error"])
def test_broken_file_gives_its_message(name):
    assert refuse(name) == TABLE["error"][name]


def test_joints_beyond_the_limit_are_refused_before_they_are_read(tmp_path):
    joint = b"JOINT j\n{\nOFFSET 0 1 0\nCHANNELS 3 Zrotation Xrotation Yrotation\n"
    text = b"HIERARCHY\n" + joint.replace(b"JOINT", b"ROOT") + 150_000 * (joint + b"}\n")
    (tmp_path / "many.bvh").write_bytes(text + b"}\nMOTION\nFrames: 1\nFrame Time: 0.03\n0\n")
    tracemalloc.start()
    try:
        assert "more than 10000 joints" in refuse(str(tmp_path / "many.bvh"))
        assert tracemalloc.get_traced_memory()[1] < 5 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", TABLE["loads"])
def test_odd_file_loads_and_says_what_was_repaired(name):
    expected = TABLE["loads"][name]
    motion = load(name)
    assert (motion.num_frames, motion.skeleton.num_joints) == (expected["frames"], expected["joints"])
    assert list(motion.load_report.warnings) == expected["warnings"]


def test_every_text_file_of_the_folder_is_in_the_table():
    listed = {*TABLE["error"], *TABLE["loads"], *TABLE["companions"]}
    files = [p for p in FOLDER.rglob("*") if p.suffix in (".bvh", ".bhv", ".asf", ".amc")]
    assert {p.relative_to(FOLDER).as_posix() for p in files} == listed


def test_the_folder_has_more_than_sixty_broken_files():
    assert len(TABLE["error"]) >= 60
