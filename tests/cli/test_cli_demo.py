"""The verb `demo`: a shipped sketch becomes a folder of results; what a verb needs is compiled by further processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from marey import samples
from marey.base.kernels import Kernel
from marey.cli import compile_ahead as _ahead
from marey.graph import MotionGraph, build_graph
from marey.io import load

SHORT = """version = 1
[start]
position = [0.0, 0.0]
[goal]
position = [0.0, 2.0]
tolerance_m = 0.5
[path]
points = [[0.0, 0.0], [0.0, 2.0]]
corridor_m = 2.0
"""


@pytest.fixture(scope="module")
def small_graph() -> MotionGraph:
    return build_graph([samples.walk()], mirror=True)


def test_demo_synthesises_a_sketch(run, small_graph, tmp_path, monkeypatch):
    short = tmp_path / "short.toml"
    short.write_text(SHORT, encoding="utf-8")
    monkeypatch.setattr(samples, "demo_graph", lambda: small_graph)
    monkeypatch.setattr(samples, "sketch_file", lambda name: short)
    done = run("demo", "-o", tmp_path / "demo", "--sample", "straight")
    assert done.code == 0, done.err
    assert {file.name for file in (tmp_path / "demo").iterdir()} == {
        "straight.glb", "straight.bvh", "strip.png", "report.txt",
    }  # fmt: skip
    report = (tmp_path / "demo" / "report.txt").read_text(encoding="utf-8")
    assert report == done.out
    assert "straight:" in report and "(graph, " in report and f"{len(small_graph.arrays.target)} edges" in report
    assert abs(load(tmp_path / "demo" / "straight.bvh").root_positions[-1, 2] - 2.0) < 1.0


def test_demo_says_what_it_does_not_know(run, tmp_path):
    done = run("demo", "-o", tmp_path / "demo", "--sample", "nothing")
    assert done.code == 1
    assert "nothing" in done.err


HELPED = """
import subprocess, sys
from marey.cli import compile_ahead
started, popen = [], subprocess.Popen
def start(command, **options):
    started.append(popen([sys.executable, "-c", "import time; time.sleep(600)"]))
    print(*command[3:], started[0].pid)
    return started[0]
subprocess.Popen = start
compile_ahead.os.cpu_count = lambda: 2
compile_ahead.compile_ahead("physics")
from kernel_of_mine import double
print(double(2.0), double(3))
"""


def test_a_verb_that_must_compile_gets_help_which_ends_with_it(tmp_path):
    """The first kernel that is not on disk starts one process, which does not outlive the command."""
    (tmp_path / "kernel_of_mine.py").write_text(
        "from marey.base import kernel\n@kernel\ndef double(x):\n    return x + x\n", encoding="utf-8"
    )
    own = {"MAREY_KERNEL_CACHE": str(tmp_path / "kernels"), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", HELPED]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | own, capture_output=True, text=True, check=False)
    helper, answers = done.stdout.splitlines()
    assert helper.split()[:4] == ["marey.cli.compile_ahead", "0", "1", "physics"], done.stderr
    assert answers == "4.0 6"
    assert not Path(f"/proc/{helper.split()[-1]}").exists()
    # What is on disk needs no help
    again = subprocess.run(command, cwd=tmp_path, env=os.environ | own, capture_output=True, text=True, check=False)
    assert again.stdout.split() == answers.split(), again.stderr


def test_verbs_without_a_list_start_nothing(monkeypatch):
    monkeypatch.setattr(Kernel, "on_first_compilation", [])
    monkeypatch.setattr(_ahead, "MAX_HELPERS", 2)
    _ahead.compile_ahead("cite")
    assert Kernel.on_first_compilation == []


def test_every_listed_kernel_exists_and_its_types_can_be_built():
    """A kernel that was renamed or given other arguments is listed again by ``benchmarks/list_kernels.py``."""
    from importlib import import_module

    from marey.base.signatures import TypeTable

    lists = _ahead.kernel_lists()
    table = TypeTable(lists["types"])
    for verb, kernels in lists["verbs"].items():
        assert kernels, verb
        for module, name, numbers in kernels:
            found = getattr(import_module(module), name)
            assert isinstance(found, Kernel), (verb, module, name)
            assert found.py_func.__code__.co_argcount == len(numbers), (module, name)
            for number in numbers:
                table.build(number)


@pytest.mark.slow
@pytest.mark.parametrize(
    "job", ["physics walk -o forces.png", "walk stroll -o stroll.glb", "compress walk --max-error-mm 1 -o walk.marey"]
)
def test_a_verb_compiles_nothing_after_its_list(job, tmp_path):
    alone = "from marey.base import kernel_cache as c\nc.environment_folder = lambda: c.Path('nowhere')\n"
    own = {"MAREY_KERNEL_CACHE": str(tmp_path / "kernels"), "XDG_CACHE_HOME": str(tmp_path)}
    codes = (
        "from marey.cli import compile_ahead\nassert compile_ahead.main(['0', '1', sys.argv[1]]) == 0",
        "from marey.cli import main\nassert main(sys.argv[1:]) == 0\n"
        "from marey.base.kernel_compiler import PROGRESS\nassert not PROGRESS.compiled, PROGRESS.compiled",
    )
    for code in codes:
        command = [sys.executable, "-c", f"import sys\n{alone}{code}", *job.split()]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ | own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
