"""Drags of 0.5 m in 100 evenly spaced directions on five skeletons, a centimetre at a time, each from the pose before.

Engell-Nørregård's check 13 on evenly spaced ways: no joint turns by more than 0.2 rad for a centimetre of the goal, and
feet that stand do not move. Hands, head and pelvis take turns. Rates and pin
weights were chosen while these bodies were looked at.

    python benchmarks/study_drags.py [drags]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marey.io import load
from marey.kinematics import BoxLimits, PointTask, solve_ik
from marey.lie import SO3
from marey.skeleton import HUMAN, Pose, Skeleton, foot_points

STEP_M, LENGTH_M = 0.01, 0.5
MAX_TURN_RAD = 0.2  # [rad] for each centimetre
HANDLES = ("right_wrist", "left_wrist", "head", "pelvis")
SHARED = Path(__file__).resolve().parents[2] / "shared"
MOCAP = Path(os.environ.get("MAREY_MOCAP", SHARED / "mocap"))
REAL = Path(os.environ.get("MAREY_REAL", SHARED / "real"))


@dataclass(frozen=True)
class DragLog:
    """One drag."""

    turns_rad: np.ndarray  # (steps,) largest turn of a joint
    feet_m: float  # [m] how far a point of a planted sole went from its place
    misses_m: np.ndarray  # (steps,) distance of the handle from the goal
    is_converged: np.ndarray  # (steps,)
    is_branch_end: np.ndarray  # (steps,) the result says that its branch ends


def even_directions(count: int) -> np.ndarray:
    """Unit vectors ``(count, 3)``, evenly over the sphere (a Fibonacci spiral)."""
    k = np.arange(count) + 0.5
    height, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + np.sqrt(5.0)) * k
    level = np.sqrt(1.0 - height**2)
    return np.stack([level * np.cos(turn), height, level * np.sin(turn)], axis=1)


def sole_positions(pose: Pose) -> np.ndarray:
    """Heel, ball and toe end of both feet ``(K, 3)`` [m]; none of a body without feet."""
    points = foot_points(pose.skeleton)
    return points.positions(pose.joint_positions(), pose.joint_rotations())


def drag(start: Pose, handle: str, direction: np.ndarray, **options: Any) -> DragLog:
    """Move a handle along a direction, each step from the pose before."""
    joint, pose, last = start.skeleton.index(handle), start, start
    place, soles = start.joint_positions()[joint], sole_positions(start)
    turns, misses, ends, fine, feet = [], [], [], [], 0.0
    for k in range(1, round(LENGTH_M / STEP_M) + 1):
        goal = place + k * STEP_M * direction
        found = solve_ik(start.skeleton, [PointTask(joint, goal)], start=last, on_failure="return", **options)
        turns.append(float(np.linalg.norm((pose.rotations.inverse() @ found.pose.rotations).log(), axis=1).max()))
        misses.append(float(np.linalg.norm(found.pose.joint_positions()[joint] - goal)))
        ends.append("branch" in found.advice)
        fine.append(found.reached.all())
        pose, last = found.pose, found
        if found.planted and len(soles):
            feet = max(feet, float(np.linalg.norm(sole_positions(pose) - soles, axis=1).max()))
    return DragLog(np.array(turns), feet, np.array(misses), np.array(fine), np.array(ends))


def make_chain() -> tuple[Pose, BoxLimits]:
    """A chain of eight two-axis joints, 1.6 m, a little bent, its limits 0.6 rad."""
    count = 8
    parents, offsets = np.array([-1, *range(count)]), np.array([[0.0, 0.0, 0.0]] + [[0.0, 0.2, 0.0]] * count)
    chain = Skeleton(tuple(f"c{k}" for k in range(count + 1)), parents, offsets)
    high = np.zeros((count + 1, 3))
    high[:count, [0, 2]] = 0.6
    vectors = np.zeros((count + 1, 3))
    vectors[:count, 0] = 0.3
    return Pose(chain, np.zeros(3), SO3.exp(vectors)), BoxLimits(chain, -high, high)


def list_bodies() -> list[tuple[str, Pose, Sequence[str], dict[str, Any]]]:
    """Name, start, handles and options of the five bodies; those whose files are missing are left out."""
    chain, limits = make_chain()
    bodies: list[tuple[str, Pose, Sequence[str], dict[str, Any]]] = [
        ("canonical human", Pose.rest(HUMAN), HANDLES, {}),
        ("chain", chain, ("c8",), {"limits": limits, "root": "fixed"}),
    ]
    for name, file, frame in (
        ("CMU capture", MOCAP / "cmu-bvh" / "115_01.bvh", 0),
        ("Mixamo names", REAL / "mesh2motion" / "91_49.fbx", 0),
        ("MakeHuman", REAL / "makehuman-bvh" / "walk1.bvh", 0),
    ):
        if file.exists():
            bodies.append((name, load(file)[frame], HANDLES, {}))
    return bodies


def main(count: int) -> None:
    """Print a table."""
    print(f"{count} drags of {LENGTH_M} m a body; largest turn of a joint for a centimetre, sole moved, goals reached")
    for name, start, handles, options in list_bodies():
        logs = [
            drag(start, handles[i % len(handles)], direction, **options)
            for i, direction in enumerate(even_directions(count))
        ]
        worst, flips = max(log.turns_rad.max() for log in logs), sum(log.turns_rad.max() > MAX_TURN_RAD for log in logs)
        fine, ends = np.mean([log.is_converged for log in logs]), np.mean([log.is_branch_end for log in logs])
        feet = 1e3 * max(log.feet_m for log in logs)
        print(f"{name:16s} {worst:.3f} rad, over 0.2 rad in {flips}, soles {feet:.2f} mm, ", end="")
        print(f"reached {fine:.3f}, branch ends {ends:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
