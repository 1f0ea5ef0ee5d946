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
)

SAMPLES = [
    (FormatError("expected 96 values, found 95", "walk.bvh", 212, "Check the line."), ValueError),
    (InputError("rate_hz is 0", "It must be positive"), ValueError),
    (MissingFileError("walk.bvh"), FileNotFoundError),
    (UnknownNameError("joint", "LeftFot", "skeleton 'cmu'", ["Hips", "LeftFoot"]), KeyError),
    (ConvergenceError("did not settle", 3), ArithmeticError),
    (MissingExtraError("The studio", "studio"), ImportError),
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
