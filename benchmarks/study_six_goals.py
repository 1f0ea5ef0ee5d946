"""Clips posed anew from six goals: hands, feet, head and pelvis, with the shipped limits and nothing of the clip else.

How far knees and elbows, which are no goals, are from the capture; how far the trunk leans otherwise; how far shoulders
and hips leave the trunk; how level planted soles are. Each clip is followed from its own first frame.

    python benchmarks/study_six_goals.py CLIP...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from marey.contacts import detect_contacts
from marey.io import load
from marey.kinematics import PointTask, anatomical_limits, track
from marey.motion import Motion
from marey.skeleton import foot_points, role_map

GOALS = ("left_wrist", "right_wrist", "left_ankle", "right_ankle", "head", "pelvis")
MIDDLES = ("left_knee", "right_knee", "left_elbow", "right_elbow")
SHARED = Path(__file__).resolve().parents[2] / "shared"
MOCAP = Path(os.environ.get("MAREY_MOCAP", SHARED / "mocap"))
LOOKED_AT = (
    "118_01",
    "02_01",
    "09_03",
    "13_11",
    "127_06",
    "132_18",
    "143_03",
    "115_01",
)  # while mobilities were chosen
TEST_CLIPS = ("07_04", "08_03", "09_05", "10_01", "104_06", "118_14", "127_20", "16_05", "132_46", "141_25")
RATE_HZ = 30.0


def trunk_directions(motion: Motion) -> np.ndarray:
    """Pelvis to neck, unit vectors ``(F, 3)``."""
    roles, places = role_map(motion.skeleton), motion.joint_positions()
    up = places[:, roles["neck"]] - places[:, roles["pelvis"]]
    return up / np.linalg.norm(up, axis=1, keepdims=True)


def stub_positions(motion: Motion) -> np.ndarray:
    """Shoulders and hips in the frame of the joint that carries them in the body's middle ``(F, 4, 3)`` [m]."""
    roles, (places, frames) = role_map(motion.skeleton), motion.joint_frames()
    found = []
    for name in ("left_shoulder", "right_shoulder", "left_hip", "right_hip"):
        carrier = roles.get("spine3" if "shoulder" in name else "pelvis")
        carrier = roles["neck"] if carrier is None else carrier
        found.append(frames[:, carrier].inverse() @ (places[:, roles[name]] - places[:, carrier]))
    return np.stack(found, axis=1)


def sole_tilts(found: Motion, motion: Motion) -> np.ndarray:
    """Angle [deg] of each planted sole to the floor where the captured sole lies within 5 degrees ``(N,)``."""
    tilts, points = [], foot_points(motion.skeleton)
    contacts = detect_contacts(motion)
    soles = [points.positions(*clip.joint_frames()) for clip in (found, motion)]
    for side in ("left", "right"):
        heel, toe = points.index(f"{side}_heel"), points.index(f"{side}_ball")
        mine, theirs = (
            np.degrees(np.arcsin((p[:, toe, 1] - p[:, heel, 1]) / np.linalg.norm(p[:, toe] - p[:, heel], axis=1)))
            for p in soles
        )
        flat = contacts.track(f"{side}_heel") & contacts.track(f"{side}_toe") & (np.abs(theirs) < 5.0)
        tilts.append(np.abs(mine[flat]))
    return np.concatenate(tilts)


def pose_clip(motion: Motion, **options: object) -> tuple[Motion, dict[str, float]]:
    """Follow the six goals of a clip; figures against it."""
    roles, places = role_map(motion.skeleton), motion.joint_positions()
    tasks = [PointTask(roles[name], places[:, roles[name]]) for name in GOALS]
    result = track(motion.skeleton, tasks, rate_hz=motion.rate_hz, start=motion[0], **options)
    found = result.motion
    away = np.linalg.norm(found.joint_positions() - places, axis=-1)
    trunk = np.degrees(np.arccos(np.clip((trunk_directions(found) * trunk_directions(motion)).sum(axis=1), -1.0, 1.0)))
    torn = np.linalg.norm(stub_positions(found) - stub_positions(motion), axis=-1)
    limits = anatomical_limits(motion.skeleton)
    return found, {
        "goals_mm": 1e3 * float(result.errors.max()),
        "missed": float((~result.reached.all(axis=1)).mean()),
        "knees_cm": 100.0 * float(away[:, [roles[name] for name in MIDDLES[:2]]].mean()),
        "elbows_cm": 100.0 * float(away[:, [roles[name] for name in MIDDLES[2:]]].mean()),
        "trunk_deg": float(trunk.mean()),
        "trunk_max_deg": float(trunk.max()),
        "torn_max_cm": 100.0 * float(torn.max()),
        "tilt_deg": float(np.mean(tilts)) if len(tilts := sole_tilts(found, motion)) else 0.0,
        "outside_rad": float(limits.violations(found.rotations).max()),
    }


def main(names: list[str]) -> None:
    """Print a table."""
    for name in names:
        path = Path(name) if Path(name).exists() else MOCAP / "cmu-bvh" / f"{name}.bvh"
        if path.exists():
            clip = load(path)
            clip = clip[:: max(1, round(clip.rate_hz / RATE_HZ))]
            _, figures = pose_clip(clip)
            print(f"{name:8s}", "  ".join(f"{key} {value:.2f}" for key, value in figures.items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(TEST_CLIPS))
