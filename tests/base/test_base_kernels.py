"""Kernels compile at their first call, and an edit anywhere below them takes effect."""

from __future__ import annotations

import os
import subprocess
import sys
from math import cos, sin
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from marey.base import (
    FloatArray,
    inline_kernel,
    is_interpreted,
    kernel,
    kernel_cache,
    kernel_compiler,
    kernels,
    patient_kernel,
)
from marey.base.kernels import Kernel

CALLEE = """
from marey.base import kernel
SCALE = {scale}

@kernel
def inner(x: float) -> float:
    return {body}
"""
CALLER = """
from callee import inner
from marey.base import kernel

@kernel
def outer(x: float) -> float:
    return inner(x) + 1.0
"""
RUN = """
import sys
import caller
assert "numba" not in sys.modules, "importing a kernel loaded numba"
print(caller.outer(2.0))
from pathlib import Path
import os
print(sum(1 for _ in Path(os.environ["MAREY_KERNEL_CACHE"]).glob("*.nbc")) if "MAREY_KERNEL_CACHE" in os.environ else 0)
"""


def run(folder: Path, **environment: str) -> tuple[float, int]:
    """The answer of a new process, and how many compiled pieces lie in the cache after it."""
    found = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    answer, pieces = found.stdout.split()
    return float(answer), int(pieces)


def write(folder: Path, *, body: str = "SCALE * x", scale: float = 3.0) -> None:
    (folder / "callee.py").write_text(CALLEE.format(body=body, scale=scale))
    (folder / "caller.py").write_text(CALLER)


def test_an_edited_callee_in_another_file_takes_effect(tmp_path: Path) -> None:
    cache = {"MAREY_KERNEL_CACHE": str(tmp_path / "cache")}
    write(tmp_path)
    assert run(tmp_path, **cache)[0] == 7.0
    write(tmp_path, body="SCALE * x * x")
    assert run(tmp_path, **cache)[0] == 13.0


def test_an_edited_constant_in_another_file_takes_effect(tmp_path: Path) -> None:
    cache = {"MAREY_KERNEL_CACHE": str(tmp_path / "cache")}
    write(tmp_path)
    assert run(tmp_path, **cache)[0] == 7.0
    write(tmp_path, scale=4.0)
    assert run(tmp_path, **cache)[0] == 9.0


def test_a_second_process_and_a_new_comment_compile_nothing(tmp_path: Path) -> None:
    cache = {"MAREY_KERNEL_CACHE": str(tmp_path / "cache")}
    write(tmp_path)
    _, first = run(tmp_path, **cache)
    (tmp_path / "callee.py").write_text("# a comment\n\n" + CALLEE.format(body="SCALE * x", scale=3.0))
    answer, second = run(tmp_path, **cache)
    assert (answer, second) == (7.0, first)


TYPED = """
from typing import NamedTuple
from marey.base import kernel

class {name}(NamedTuple):
    x: float

@kernel
def outer(pair: "NamedTuple") -> float:
    return pair.x + 1.0
"""


def test_a_renamed_type_of_an_argument_compiles_anew(tmp_path: Path) -> None:
    """The signature in the cache names a class that is gone; it must not end the run."""
    cache = os.environ | {"MAREY_KERNEL_CACHE": str(tmp_path / "cache")}
    for name in ("Before", "After"):
        (tmp_path / "typed.py").write_text(TYPED.format(name=name))
        code = f"import typed; print(typed.outer(typed.{name}(2.0)))"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=cache, check=False
        )
        assert done.stdout.strip() == "3.0", done.stderr


def test_a_damaged_cache_file_compiles_anew(tmp_path: Path) -> None:
    cache = {"MAREY_KERNEL_CACHE": str(tmp_path / "cache")}
    write(tmp_path)
    assert run(tmp_path, **cache)[0] == 7.0
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(file.read_bytes()[:-20])
    assert run(tmp_path, **cache)[0] == 7.0


def test_two_processes_compile_a_kernel_once(tmp_path: Path) -> None:
    write(tmp_path)
    code = "import logging, caller; logging.basicConfig(); logging.getLogger('marey').setLevel(10); caller.outer(2.0)"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"MAREY_KERNEL_CACHE": str(tmp_path / "cache")},
        )
        for _ in range(2)
    ]
    said = "".join(one.communicate()[1] for one in both)
    assert [one.returncode for one in both] == [0, 0], said
    assert said.count("compiling outer") == 1, said


def test_a_slice_of_the_wrong_size_is_refused() -> None:
    @kernel
    def copy(target: FloatArray, source: FloatArray) -> None:
        target[:] = source

    with pytest.raises(ValueError, match="different size"):
        copy(np.zeros(3), np.ones(2))


def test_without_a_writable_folder_kernels_run_and_say_what_it_costs(tmp_path: Path) -> None:
    write(tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    found = subprocess.run(
        [sys.executable, "-c", "import caller; print(caller.outer(2.0))"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"MAREY_KERNEL_CACHE": str(blocked), "XDG_CACHE_HOME": str(blocked)},
        check=False,
    )
    assert found.stdout.strip() == "7.0"
    assert "each run compiles" in found.stderr


def test_a_full_folder_that_may_not_be_written_is_read(tmp_path: Path) -> None:
    """An image is made with compiled kernels; whoever runs it may write nowhere."""
    write(tmp_path)
    folder = tmp_path / "cache"
    assert run(tmp_path, MAREY_KERNEL_CACHE=str(folder))[0] == 7.0
    # A folder cannot be made unwritable for everybody: its role as the folder to write is taken from it instead
    code = (
        "import logging; logging.basicConfig(level='INFO'); from marey.base import kernel_cache; "
        "kernel_cache.kernel_folder = lambda: None; import caller; print(caller.outer(2.0))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"MAREY_KERNEL_CACHE": str(folder)},
        check=False,
    )
    assert found.stdout.strip() == "7.0", found.stderr
    assert "compiling" not in found.stderr


def test_kernels_run_uncompiled_where_numba_is_told_so(tmp_path: Path) -> None:
    write(tmp_path)
    assert run(tmp_path, NUMBA_DISABLE_JIT="1")[0] == 7.0


@pytest.mark.parametrize("name", ["kinematics", "lie", "io", "dynamics"])
def test_importing_a_room_does_not_load_the_compiler(name: str) -> None:
    code = f"import sys, marey.{name}; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@inline_kernel
def signed_square(x: float) -> float:
    if x < 0.0:
        return -x * x
    return x * x


@kernel
def sum_of_squares(count: int) -> float:
    total = 0.0
    for n in range(count):
        total += signed_square(n - 1.0)
    return total


def test_an_inline_kernel_works_inside_its_kernel_and_alone() -> None:
    assert sum_of_squares(5) == -1.0 + 0.0 + 1.0 + 4.0 + 9.0
    assert signed_square(-2.0) == -4.0


@kernel
def largest_root(values: FloatArray) -> float:
    """A piece that allocates, that raises and that another kernel calls."""
    if values.min() < 0.0:
        raise ValueError("a root of a negative number")
    return np.sqrt(np.sort(values))[-1]


@kernel
def add_roots(first: FloatArray, second: FloatArray) -> float:
    return largest_root(first) + largest_root(second)


def test_a_piece_may_allocate_and_raise_inside_another_kernel() -> None:
    assert add_roots(np.array([4.0, 1.0]), np.array([9.0, 16.0])) == 6.0
    with pytest.raises(ValueError, match="negative"):
        add_roots(np.array([4.0]), np.array([-1.0]))
    with pytest.raises(ValueError, match="negative"):
        largest_root(np.array([-1.0]))


def test_the_log_tells_what_is_compiled_and_nothing_of_what_is_kept(tmp_path: Path) -> None:
    write(tmp_path)
    code = (
        "import logging, sys; logging.basicConfig(level=10, stream=sys.stdout, format='%(name)s %(message)s')\n"
        "import caller; caller.outer(2.0)"
    )
    cache = os.environ | {"MAREY_KERNEL_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", code]
    heard = [subprocess.check_output(command, cwd=tmp_path, text=True, env=cache).splitlines() for _ in range(2)]
    said = [[line for line in lines if line.startswith("marey")] for lines in heard]
    assert [line.split(";")[0] for line in said[0]] == ["marey compiling for this processor", "marey compiling outer"]
    assert not said[1]


def test_division_by_zero_follows_the_rules_of_c():
    @kernel
    def inverse(x: float) -> float:
        return 1.0 / x

    assert inverse(0.0) == float("inf")


def test_a_patient_kernel_is_interpreted_before_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "is_patient", True)

    @patient_kernel
    def halve(x: float) -> float:
        return 0.5 * x

    assert [halve(float(n)) for n in range(3)] == [0.0, 0.5, 1.0]
    assert is_interpreted(halve, 1.0)
    assert not cast(Any, halve).signatures


def compute_orbit(start: FloatArray, turns: FloatArray, count: int) -> FloatArray:
    """Products and sums that a compiler might fuse, sums it might reorder, a branch, a piece, arrays of its own."""
    state, out = start.copy(), np.zeros((count, start.size))
    for n in range(count):
        total = 0.0
        for i in range(start.size):
            total += state[i] * turns[i, n % turns.shape[1]] + 0.1 * state[i - 1]
            state[i] = sin(total) / (1.0 + total * total) if total < 0.7 else signed_square(cos(total) - 0.3)
        out[n] = state - 0.3 * turns[:, 1]
    return out


def test_plain_code_gives_the_bits_of_optimised_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "enable_cache", lambda *_: None)
    monkeypatch.setattr(kernel_compiler, "PLAIN_BYTES", 0)
    rng = np.random.default_rng(7)
    arguments = rng.standard_normal(9), rng.standard_normal((9, 5)), 400
    answers = dict[bool, bytes]()
    for is_plain in (False, True):
        monkeypatch.setattr(kernels, "IS_PLAIN", is_plain)
        made: Any = kernel(compute_orbit)
        answers[is_plain] = made(*arguments).tobytes()
        (compiled,) = made._entry.overloads.values()
        assert (compiled.library._plain_code is not None) == is_plain
    assert answers[True] == answers[False]


def test_plain_code_is_kept_apart_and_optimised_code_serves_as_well(tmp_path: Path) -> None:
    write(tmp_path)
    first, second = ({"MAREY_KERNEL_CACHE": str(tmp_path / name)} for name in ("first", "second"))
    assert run(tmp_path, **first, MAREY_COMPILE="plain") == (7.0, 2)
    assert run(tmp_path, **first, MAREY_COMPILE="") == (7.0, 3)  # the piece is shared, the plain entry is not
    assert run(tmp_path, **second, MAREY_COMPILE="") == (7.0, 2)
    assert run(tmp_path, **second, MAREY_COMPILE="plain") == (7.0, 2)


def test_a_patient_kernel_divides_by_zero_as_compiled_code_does():
    @patient_kernel
    def invert(x: float) -> float:
        return 1.0 / x

    assert invert(0.0) == float("inf")
