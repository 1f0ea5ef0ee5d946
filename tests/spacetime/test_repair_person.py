"""A repair keeps the person: pops are taken out, trunk and flights stay, and nothing is called solved that is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import marey
from marey.lie import SO3
from marey.motion import Motion
from marey.numerics import SolveStatus
from marey.spacetime import make_valid
from marey.spacetime.repair.solve import find_person_faults, mend_pops

WALK = marey.samples.walk()[:120]


def jumped(frame: int = 60, step: float = 0.3) -> Motion:
    positions = WALK.root_positions.copy()
    positions[frame:, 0] += step
    return replace(WALK, root_positions=positions)


def flipped(frame: int = 50, frames: int = 2) -> Motion:
    wxyz = WALK.rotations.wxyz.copy()
    knee = WALK.skeleton.index("left_knee") if "left_knee" in WALK.skeleton.names else 3
    turn = SO3.exp(np.array([2.5, 0.0, 0.0]))
    wxyz[frame : frame + frames, knee] = (SO3(wxyz[frame : frame + frames, knee]) @ turn).wxyz
    return replace(WALK, rotations=SO3(wxyz))


def test_a_clip_without_pops_stays_itself() -> None:
    assert mend_pops(WALK) is WALK


def test_a_root_that_jumps_goes_on_where_it_was() -> None:
    mended = mend_pops(jumped())
    assert np.abs(mended.root_positions - WALK.root_positions).max() < 0.02


def test_a_root_that_comes_back_is_taken_between_its_neighbours() -> None:
    positions = WALK.root_positions.copy()
    positions[60:62, 1] += 0.4
    mended = mend_pops(replace(WALK, root_positions=positions))
    assert np.abs(mended.root_positions - WALK.root_positions).max() < 0.01


def test_a_joint_that_flips_turns_evenly_across() -> None:
    mended = mend_pops(flipped())
    apart = np.linalg.norm((mended.rotations.inverse() @ WALK.rotations).log(), axis=-1)
    assert apart.max() < 0.1


def test_a_flip_at_an_end_of_the_clip_is_held_as_beside_it() -> None:
    for frame, frames in ((0, 1), (0, 4), (WALK.num_frames - 1, 1), (WALK.num_frames - 3, 3)):
        mended = mend_pops(flipped(frame, frames))
        apart = np.linalg.norm((mended.rotations.inverse() @ WALK.rotations).log(), axis=-1)
        assert apart.max() < 0.3


def test_a_turned_trunk_and_a_lifted_foot_are_faults() -> None:
    wxyz = WALK.rotations.wxyz.copy()
    wxyz[40:60, 0] = (SO3(wxyz[40:60, 0]) @ SO3.exp(np.array([0.5, 0.0, 0.0]))).wxyz
    assert "trunk turned by" in find_person_faults(WALK, replace(WALK, rotations=SO3(wxyz)))[0]
    positions = WALK.root_positions.copy()
    positions[40:80, 1] += 0.3
    assert any("lifted" in fault for fault in find_person_faults(WALK, replace(WALK, root_positions=positions)))
    assert find_person_faults(WALK, WALK) == []


def test_a_walk_whose_root_jumps_is_mended() -> None:
    result = make_valid(jumped(), on_failure="return")
    assert result.is_solved == (result.status is SolveStatus.CONVERGED)
    assert np.abs(np.diff(result.motion.root_positions[:, 0])).max() < 0.1
    assert result.after.valid_fraction > result.before.valid_fraction or result.is_solved


def test_a_clip_that_was_not_mended_is_not_called_solved() -> None:
    result = make_valid(replace(WALK, rate_hz=3.0 * WALK.rate_hz), on_failure="return", max_iterations=1)
    assert result.is_solved == (result.after.colour == "green")
    assert result.is_solved or "not solved" in result.sentence
