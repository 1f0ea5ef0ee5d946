"""What callers give is held against annotations: a wrong argument is named, an own error goes on unchanged."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from numpy.typing import ArrayLike

from marey import dynamics, lie, samples
from marey.base import AccessError, ConvergenceError, FloatArray, InputError, guard_function

NAN, INF = float("nan"), float("inf")


@guard_function
def scale(values: ArrayLike, factor: float = 1.0, *, count: int = 3, name: str = "x", limit_s: float = 1.0) -> float:
    """A function as rooms have them."""
    if name == "bug":
        raise KeyError("an error of its own")
    total = np.asarray(values, dtype=np.float64).reshape(-1, 3).sum() * factor
    return float(total) + len(range(count)) + len(name + "")


@guard_function
def pair(first: FloatArray, second: FloatArray) -> FloatArray:
    """Arrays that must fit together."""
    return first + second


@guard_function
def open_file(path: str | Path, on_line: Callable[[str], None] | None = None, sizes: Sequence[float] = ()) -> int:
    """A reader."""
    del on_line
    return len(Path(path).read_text()) + int(sum(sizes))


class Ground(Protocol):
    """What tells its height."""

    def height(self, x: float) -> float:
        """Height at a place."""
        ...


@guard_function
def stand(ground: Ground | None, x: float = 0.0) -> float:
    """A function of something with members."""
    return 0.0 if ground is None else ground.height(x)


@pytest.mark.parametrize("value", [3, "flat", [0.0], object()])
def test_what_lacks_the_members_of_a_protocol_is_named(value):
    with pytest.raises(InputError, match=r"ground is .*Give a Ground"):
        stand(value)


def test_an_error_inside_of_what_has_the_members_goes_on():
    class Broken:
        def height(self, x):
            raise KeyError(x)

    with pytest.raises(KeyError):
        stand(Broken())


def test_right_arguments_pass():
    assert scale([1.0, 2.0, 3.0], 2.0, count=1) == 14.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"factor": NAN}, "factor is nan. Give a finite number"),
        ({"factor": np.float64(NAN)}, "factor is"),
        ({"factor": -INF}, "factor is -inf"),
        ({"factor": "2"}, "factor is '2'"),
        ({"factor": [1.0, 2.0]}, "factor is"),
        ({"count": 1.5}, "count is 1.5. Give a whole number"),
        ({"count": None}, "count is None"),
        ({"name": 3}, "name is 3. Give a text"),
        ({"values": "x"}, "values is 'x'. Give an array of numbers"),
        ({"values": [[1.0], [1.0, 2.0]]}, "values is"),
        ({"values": np.array(["a", "b", "c"])}, "values is an array of shape"),
        ({"values": object()}, "values is"),
        ({"values": [1.0, 2.0]}, "arrays do not fit together: values (2,)"),
    ],
)
def test_a_wrong_argument_is_named(arguments, said):
    with pytest.raises(InputError) as caught:
        scale(**{"values": [1.0, 2.0, 3.0]} | arguments)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_an_own_error_goes_on_unchanged():
    with pytest.raises(KeyError, match="an error of its own"):
        scale([1.0, 2.0, 3.0], name="bug")


def test_a_time_limit_may_be_infinite():
    assert scale([1.0, 2.0, 3.0], limit_s=INF) == 10.0


def test_arrays_that_do_not_fit_are_named_by_their_shapes():
    with pytest.raises(InputError, match=r"first \(3,\), second \(2,\)"):
        pair(np.zeros(3), np.zeros(2))


def test_rotations_that_do_not_fit_are_named_by_their_shapes():
    with pytest.raises(InputError, match=r"geodesic_distance: .* a \(3,\), b \(2, 2\)"):
        lie.geodesic_distance(lie.SO3.identity(3), lie.SO3.identity(2, 2))


def test_records_of_two_clips_are_named_by_the_lengths_of_their_arrays():
    walk = samples.load("walk")
    body, supports = dynamics.Body.from_skeleton(walk.skeleton), dynamics.find_supports(walk[:30])
    with pytest.raises(InputError, match=r"estimate_reaction: .* motion \(40, 3\), supports \(30, "):
        dynamics.estimate_reaction(walk[:40], body, supports)


def test_files_that_cannot_be_opened_are_named(tmp_path):
    for path in (tmp_path / "none", tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(AccessError, match="cannot open"):
            open_file(path)
    with pytest.raises(InputError, match="path is"):
        open_file("a\0b")
    (tmp_path / "text").write_text("x")
    with pytest.raises(InputError, match="sizes is"):
        open_file(tmp_path / "text", sizes=["a"])


def test_what_does_not_fit_into_memory_is_refused():
    @guard_function
    def make(count: int) -> object:
        return np.zeros((count, 1 << 20))

    with pytest.raises(InputError, match="too much memory"):
        make(1 << 40)


def test_systems_that_cannot_be_solved_are_told():
    @guard_function
    def solve(size: float) -> object:
        return np.linalg.inv(np.zeros((2, 2)) * size)

    with pytest.raises(ConvergenceError, match="Check the units"):
        solve(1.0)


def test_functions_of_rooms_stand_behind_the_door_and_can_be_pickled():
    import marey

    walk = marey.samples.load("walk")
    with pytest.raises(InputError, match="rate_hz is nan"):
        marey.motion.resample(walk, NAN)
    with pytest.raises(InputError, match=r"motion is 3\. Give a Motion"):
        marey.motion.resample(3, 60.0)
    assert pickle.loads(pickle.dumps(marey.motion.resample)) is marey.motion.resample
