"""Broken binary files, each with the message it must produce; none may crash, hang or fill the memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

BROKEN = Path(__file__).parent / "broken"
TABLE = tomllib.loads((BROKEN / "expected_binary.toml").read_text())
EXPECTED: dict[str, str] = TABLE["error"] | TABLE["error_part"]
MAX_SECONDS = 2.0
MAX_MEGABYTES = 200.0

LOAD_ALL = """
import json, resource, sys, time
from marey.base import MareyError
from marey.io import load

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

answers = {}
for path in sys.argv[1:]:
    began, before = time.process_time(), peak_mb()
    try:
        said = repr(load(path))
    except MareyError as error:
        said = type(error).__name__ + " " + str(error)
    answers[path] = [said, time.process_time() - began, peak_mb() - before]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[str, float, float]]:
    """What a fresh process says about every file, the seconds it took and the megabytes it grew."""
    command = [sys.executable, "-c", LOAD_ALL, *EXPECTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=BROKEN)
    return {name: tuple(answer) for name, answer in json.loads(done.stdout).items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_broken_file_says_what_is_wrong_soon_and_small(answers, name):
    said, seconds, megabytes = answers[name]
    if name in TABLE["error"]:
        assert said == f"FormatError {EXPECTED[name]}"
    else:
        assert said.startswith("FormatError ")
        assert EXPECTED[name] in said
    assert seconds < MAX_SECONDS
    assert megabytes < MAX_MEGABYTES


def test_there_are_many_of_them_and_each_is_expected():
    kinds = ("gltf_", "clip_", "amass_", "c3d_", "trc_", "deepmimic_")
    found = {file.name for file in BROKEN.iterdir() if file.name.startswith(kinds)}
    assert found == set(EXPECTED)
    assert len(found) >= 60
