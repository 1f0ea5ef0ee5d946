"""Errors: one root, the closest built-in beside it, picklable, and a message that helps."""

from __future__ import annotations

import pickle

import pytest

from marey.base import (
    ConvergenceError,
    FormatError,
    InputError,
    MareyError,
    MissingExtraError,
    MissingFileError,
    UnknownNameError,
    WriteError,
    atomic_file,
    write_atomically,
)

SAMPLES = [
    (FormatError("expected 96 values, found 95", "walk.bvh", 212, "Check the line."), ValueError),
    (InputError("rate_hz is 0", "It must be positive"), ValueError),
    (MissingFileError("walk.bvh"), FileNotFoundError),
    (UnknownNameError("joint", "LeftFot", "skeleton 'cmu'", ["Hips", "LeftFoot"]), KeyError),
    (ConvergenceError("did not settle", 3), ArithmeticError),
    (MissingExtraError("The studio", "studio"), ImportError),
    (WriteError("out.bvh", "No space left on device"), OSError),
]


@pytest.mark.parametrize(("error", "built_in"), SAMPLES)
def test_every_error_is_a_marey_error_and_the_closest_built_in(error: MareyError, built_in: type) -> None:
    assert isinstance(error, MareyError) and isinstance(error, built_in)


@pytest.mark.parametrize(("error", "built_in"), SAMPLES)
def test_every_error_survives_pickling(error: MareyError, built_in: type) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_format_error_prints_file_line_what_and_fix() -> None:
    assert str(SAMPLES[0][0]) == "walk.bvh:212: expected 96 values, found 95. Check the line."


def test_a_binary_file_has_no_line() -> None:
    assert str(FormatError("noise", "walk.c3d", 0, "Copy it again.")) == "walk.c3d: noise. Copy it again."


def test_an_unknown_name_suggests_the_nearest_one() -> None:
    assert str(SAMPLES[3][0]) == (
        "no joint 'LeftFot' in skeleton 'cmu'. Did you mean 'LeftFoot'? It has 2: Hips, LeftFoot"
    )


def test_a_missing_extra_prints_the_install_line() -> None:
    assert "pip install 'marey[studio]'" in str(SAMPLES[5][0])


@pytest.mark.parametrize("name", [3, None, 2.5, ("a",), float("nan")])
def test_unknown_names_of_any_type_print(name):
    assert str(name) in str(UnknownNameError("method", name, "solver", ("a", "b")))


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    long = tmp_path / f"{'x' * 300}.bvh"
    with pytest.raises(WriteError, match="cannot write") as caught:
        write_atomically(long, b"")
    assert isinstance(caught.value, OSError) and len(str(caught.value)) < 400
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(tmp_path):
    kept = tmp_path / "model.safetensors"
    kept.write_bytes(b"good")

    def write_half() -> None:
        with atomic_file(kept) as draft:
            draft.write_bytes(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(WriteError, match=r"No space left on device.*was not changed"):
        write_half()
    assert kept.read_bytes() == b"good" and list(tmp_path.iterdir()) == [kept]
