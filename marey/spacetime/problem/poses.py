"""Key poses from frames of clips: ``pose = "walk.bvh@1.2"`` is the pose of that clip at 1.2 s."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from marey.base import InputError
from marey.dynamics import PRISMATIC, JointTree
from marey.spacetime.problem.definition import Key, SpacetimeProblem

ROOT_NAMES: Final = {"pitch": "root_rx", "yaw": "root_ry", "roll": "root_rz"}


def resolve_poses(problem: SpacetimeProblem, tree: JointTree) -> SpacetimeProblem:
    """The problem with the poses of clips as values of coordinates; where and which way the body stands stays open.

    Raises:
        InputError: a pose that names no time, or one outside its clip.
        MissingFileError: no such clip.
    """
    keys = tuple(key if key.pose is None else _resolve_key(key, tree) for key in problem.keys)
    return problem if keys == problem.keys else replace(problem, keys=keys)


def _resolve_key(key: Key, tree: JointTree) -> Key:
    from marey.io import load
    from marey.kinematics import retarget

    assert key.pose is not None
    file, _, instant = key.pose.rpartition("@")
    try:
        time_s = float(instant)
    except ValueError:
        file, time_s = "", 0.0
    if not file:
        raise InputError(f"pose '{key.pose}'", 'Write pose = "FILE@SECONDS", such as "walk.bvh@1.2"')
    clip = load(file)
    frame = round(time_s * clip.rate_hz)
    if not 0 <= frame < clip.num_frames:
        raise InputError(f"pose '{key.pose}' is outside its clip of {clip.duration_s:.2f} s", "Give a time inside it")
    # A few frames, so that angles are continuous; other bodies get the pose on their own skeleton
    start = max(frame - 1, 0)
    part = clip[start : start + 3]
    part = replace(part, contacts=None, translations=None)
    if part.skeleton.names == tree.skeleton.names:
        part = replace(part, skeleton=tree.skeleton)  # the same joints, bones of another length
    else:
        part = retarget(part, tree.skeleton, contacts=False)
    q = tree.from_motion(part)[frame - start]
    yaw = next((i for i in range(6) if tree.names[i] == "root_ry"), -1)
    known = {
        name: float(np.clip(q[i], tree.lower[i], tree.upper[i]))
        for i, name in enumerate(tree.names)
        if tree.kinds[i] != PRISMATIC and i != yaw
    }
    return replace(key, joints=known | dict(key.joints), pose=None)


def measure_pose(tree: JointTree, key: Key, q: np.ndarray) -> float:
    """Largest difference [rad] of coordinates ``(D,)`` from a key pose, whole turns left aside."""
    wanted = {tree.index(ROOT_NAMES.get(name, name)): value for name, value in key.joints.items()}
    apart = np.array([q[i] - value for i, value in wanted.items()])
    return float(np.abs((apart + np.pi) % (2.0 * np.pi) - np.pi).max(initial=0.0))
