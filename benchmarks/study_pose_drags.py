"""Drags in a pose space: limits in standard deviations, steps, pinned feet, and the price of the kinetic metric.

``python benchmarks/study_pose_drags.py MOCAP_FOLDER [DRAGS]`` drags hands, head and hips of five people by 0.5 m, a
centimetre at a time, in directions spread evenly over the sphere, with both ankles pinned. The model is fitted on
walks of four other people; stiffnesses and weights were chosen while the people shown were looked at.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import marey
from marey.kinematics import PointTask, solve_ik
from marey.lie import geodesic_distance
from marey.models import PGA, PoseModel
from marey.motion import Motion

FITTED = ("07_01", "08_01", "35_01", "39_01")
SHOWN = ("02_01", "16_15", "69_02", "82_12", "132_18")
HANDLES = ("LeftHand", "RightHand", "Head", "Hips")
FEET = ("LeftFoot", "RightFoot")
STEPS, STEP_M = 50, 0.01
FOOT_WEIGHT = 100.0  # [-] as in the studio, on top of the priority of pinned feet


def spread_directions(count: int) -> np.ndarray:
    """Unit vectors ``(count, 3)`` of a Fibonacci lattice."""
    i = np.arange(count) + 0.5
    polar, azimuth = np.arccos(1.0 - 2.0 * i / count), np.pi * (1.0 + 5.0**0.5) * i
    return np.stack([np.cos(azimuth) * np.sin(polar), np.cos(polar), np.sin(azimuth) * np.sin(polar)], axis=1)


def drag(model: PoseModel, clip: Motion, frame: int, handle: str, way: np.ndarray, variant: str) -> dict[str, float]:
    """Drag one handle; return the worst of all steps."""
    index, places = clip.skeleton.index, clip.joint_positions()[frame]
    ends = [PointTask(name, places[index(name)]) for name in (*FEET, "Head", "LeftHand", "RightHand")]
    options: dict[str, Any] = {"limits": None, "feet": "free", "on_failure": "return"}
    pose = solve_ik(model, ends, start=clip[frame], follow=False, **options).pose
    places, last = pose.joint_positions(), None
    feet = [PointTask(name, places[index(name)], weight=FOOT_WEIGHT) for name in FEET]
    worst = {"step_rad": 0.0, "sigma": 0.0, "foot_mm": 0.0, "ms": 0.0, "missed_cm": 0.0}
    for step in range(1, STEPS + 1):
        goal = PointTask(handle, places[index(handle)] + STEP_M * step * way, priority=1)
        begin = time.process_time()
        # Each step starts from the result before it, as in the studio
        last = result = solve_ik(model, [*feet, goal], start=pose if last is None else last, variant=variant, **options)
        worst["ms"] += 1e3 * (time.process_time() - begin) / STEPS
        turned = float(geodesic_distance(pose.rotations, result.pose.rotations).max())
        moved = result.pose.joint_positions()
        sunk = max(float(np.linalg.norm(moved[index(name)] - places[index(name)])) for name in FEET)
        pose = result.pose
        assert result.coordinates is not None
        worst["step_rad"] = max(worst["step_rad"], turned)
        worst["sigma"] = max(worst["sigma"], float(np.abs(result.coordinates / model.deviations).max()))
        worst["foot_mm"] = max(worst["foot_mm"], 1e3 * sunk)
        worst["missed_cm"] = 100.0 * float(np.linalg.norm(moved[index(handle)] - goal.goal))
    return worst


def study(folder: Path, count: int, variant: str) -> dict[str, np.ndarray]:
    """Measures of all drags, one row each."""
    model = PGA(explained=0.95).fit([marey.load(folder / f"{name}.bvh")[::4] for name in FITTED])
    clips = [marey.load(folder / f"{name}.bvh") for name in SHOWN]
    rows = []
    for number, way in enumerate(spread_directions(count)):
        clip = clips[number % len(clips)]
        frame = number // len(clips) * clip.num_frames // max(count // len(clips), 1)
        rows.append(drag(model, clip, min(frame, clip.num_frames - 1), HANDLES[number // 5 % 4], way, variant))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def main(folder: str, count: int) -> None:
    """Print a line for each metric."""
    path = Path(folder)
    path = path / "cmu-bvh" if (path / "cmu-bvh").is_dir() else path
    print(
        f"{'metric':10s}{'worst rad/cm':>14s}{'over 0.2':>10s}{'sigma':>8s}{'feet mm':>9s}{'missed cm':>11s}{'ms':>8s}"
    )
    for variant in ("canonical", "kinetic"):
        found = study(path, count, variant)
        print(
            f"{variant:10s}{found['step_rad'].max():14.3f}{int((found['step_rad'] > 0.2).sum()):10d}"
            f"{found['sigma'].max():8.3f}{found['foot_mm'].max():9.3f}{found['missed_cm'].mean():11.1f}"
            f"{found['ms'].mean():8.2f}"
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100)
