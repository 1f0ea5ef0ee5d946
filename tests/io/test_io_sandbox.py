"""Readers in a child process: whatever the child does, the parent gets an answer or a sentence."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from marey.base import FormatError, MissingExtraError, MissingFileError
from marey.io.sandbox import ChildLimits, run_reader

QUICK = ChildLimits(memory_bytes=100 << 20, output_bytes=1 << 20, cpu_s=0.5, wall_factor=90.0)
SLEEPS = ("import time; time.sleep(60)", "took more than 2 s")
HEAD = "from array import array\n"


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Run the function ``read`` of a text in a child."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "scene.xyz").write_bytes(b"content")

    def do(code: str, limits: ChildLimits = QUICK):
        (tmp_path / "reader_of_a_test.py").write_text(HEAD + code)
        reader = ("reader_of_a_test", "read")
        return run_reader(reader, tmp_path / "scene.xyz", {"number": 3}, extra=("reading XYZ", "xyz"), limits=limits)

    return do


def test_facts_and_arrays_come_back(ask):
    code = """
def read(path, question):
    values = array("d", range(6))
    arrays = {"values": (values, (2, 3)), "none": (array("I"), (0,))}
    return {"name": "é", "read": open(path).read(), **question}, arrays
"""
    answer = ask(code)
    assert answer.facts == {"name": "é", "read": "content", "number": 3}
    np.testing.assert_array_equal(answer.arrays["values"], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert answer.arrays["none"].shape == (0,)


def test_what_a_library_prints_does_not_mix_with_the_answer(ask):
    code = "def read(path, question):\n    print('hello', flush=True)\n    return {'ok': 1}, {}\n"
    assert ask(code).facts == {"ok": 1}


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("raise ValueError('the third bone is odd')", "the third bone is odd"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV.*damaged"),
        ("import os; os.abort()", "SIGABRT.*damaged"),
        ("import os; os._exit(3)", "stopped without an answer"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("b'x' * (500 << 20)", "more memory"),
        ("return {}, {'a': (array('d', bytes(8 << 20)), (1 << 20,))}", "larger than|without an answer"),
        ("while True: pass", "processor time"),
        SLEEPS,
        ("def f(): return f()\n    f()", "recursion"),
    ],
)
def test_a_child_that_fails_is_one_sentence(ask, body, match):
    started = time.monotonic()
    # On a busy machine half a second of processor time may take long: only the sleeper is held to a clock
    limits = replace(QUICK, wall_factor=4.0) if (body, match) == SLEEPS else QUICK
    with pytest.raises(FormatError, match=match):
        ask(f"def read(path, question):\n    {body}\n    return {{}}, {{}}\n", limits)
    assert time.monotonic() - started < 50.0  # far from the 60 s that one of them would sleep


def test_a_missing_library_names_the_extra(ask):
    with pytest.raises(MissingExtraError, match=r"reading XYZ needs the extra 'xyz'"):
        ask("import not_a_library_of_anybody\n")


def test_a_missing_file_starts_no_child(tmp_path):
    with pytest.raises(MissingFileError):
        run_reader(("marey.io.fbx.child", "read"), tmp_path / "nowhere.xyz", {}, extra=("reading XYZ", "xyz"))
