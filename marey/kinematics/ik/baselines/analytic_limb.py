"""The analytic limb as a method of inverse kinematics."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics.ik.problem import Guess, SolverInputs, SolverOutcome
from marey.kinematics.ik.state import ORIENTATION, POINT, REACHED, STATIONARY, evaluate_goals
from marey.kinematics.two_bone import Limb, solve_two_bone
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import NO_PARENT, Pose, Skeleton

MIN_BONE_M = 1e-6  # [m] a joint nearer to its child is passed over


def solve_two_bone_tasks(run: SolverInputs, guess: Guess, method: str) -> SolverOutcome:
    """Move each goal by the two bones above it, in closed form ([Glardon2005]_ §2.17); all else stays.

    A point away from its joint, or an orientation of the same joint, turns the end too. A root that is free is shifted
    by nothing: limbs only.
    """
    p, blocks = run.problem, run.problem.layout.blocks
    if run.space is not None or not np.isin(blocks.kinds, (POINT, ORIENTATION)).all():
        raise InputError(f"{method} moves limbs", "Give it a skeleton and tasks on places and orientations only")
    turns = {int(blocks.joints[b]): SO3(run.targets[b]) for b in np.flatnonzero(blocks.kinds == ORIENTATION)}
    motion = Motion(p.skeleton, 1.0, guess.root[None], SO3(guess.wxyz[None]))
    # Limb by limb; a point away from its joint is reached by the joint's origin
    for b in np.flatnonzero(blocks.kinds == POINT):
        joint = int(blocks.joints[b])
        end = turns.get(joint)
        held = motion.joint_frames()[1][:, joint] if end is None else SO3(end.wxyz[None])
        goal = run.targets[b, :3] - (held @ blocks.points[b])[0]
        motion = solve_two_bone(motion, find_limb_above(motion[0], joint), goal, end_rotations=held).motion
    guess.wxyz[:] = motion.rotations.wxyz[0]
    if run.limits is not None:
        guess.wxyz[:] = run.limits.project_rotations(SO3(guess.wxyz[None])).wxyz[0]
    cost, is_reached = evaluate_goals(p.layout, run.goals, run.pose_arrays(guess))
    return SolverOutcome(REACHED if is_reached else STATIONARY, 1, 1, cost, 0.0)


def find_limb_above(pose: Pose, end: int) -> Limb:
    """The two nearest bones above a joint, and the way they bend now (or backwards for a straight limb).

    Raises:
        InputError: there are no two bones above it.
    """
    skeleton, positions = pose.skeleton, pose.joint_positions()
    middle = _find_bone_above(skeleton, positions, end)
    upper = NO_PARENT if middle == NO_PARENT else _find_bone_above(skeleton, positions, middle)
    if upper == NO_PARENT:
        raise InputError(f"'{skeleton.names[end]}' has no two bones above it", "Use another method for this goal")
    along, bend = positions[end] - positions[upper], positions[middle] - positions[upper]
    pole = bend - along * (along @ bend) / max(along @ along, 1e-12)
    is_leg = along[1] < -0.7 * np.linalg.norm(along)
    fallback = np.array([0.0, 0.0, 1.0 if is_leg else -1.0])
    ahead = pole / np.linalg.norm(pole) if np.linalg.norm(pole) > 1e-3 else fallback
    return Limb(upper, middle, end, pose.joint_rotations()[upper].inverse() @ ahead)


def _find_bone_above(skeleton: Skeleton, positions: FloatArray, joint: int) -> int:
    above = int(skeleton.parents[joint])
    while above != NO_PARENT and np.linalg.norm(positions[joint] - positions[above]) < MIN_BONE_M:
        above = int(skeleton.parents[above])
    return above
