"""A clip whose feet are held beside its source, by the meter and by geometry: no contact track is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from marey.base import FloatArray
from marey.measure import Measurement, measure_motion
from marey.motion import Motion
from marey.skeleton import foot_points, restored_roles

SIDES = ("left", "right")
STILL_MPS = 0.10  # [m/s] a captured foot whose slowest point moves less than this stands
HELD_MPS = 0.005  # [m/s] ... and is held when that point moves less than this
ROUNDING_M = 0.01  # [m] a scraped way under this is none: a landing heel and the meter's filter


def measure_steps_deg(motion: Motion) -> FloatArray:
    """Largest turn of hips, knees, ankles and toes of both legs against the joint above, from frame to frame."""
    roles = restored_roles(motion.skeleton)
    joints = [roles[f"{s}_{p}"] for s in SIDES for p in ("hip", "knee", "ankle", "foot") if f"{s}_{p}" in roles]
    turns = motion.rotations[:, joints]
    return np.degrees((turns[:-1].inverse() @ turns[1:]).angle().max(axis=0))


def measure_soles(motion: Motion) -> FloatArray:
    """Slowest point of each sole ``(F - 1, 2)`` [m/s]."""
    points = foot_points(motion.skeleton, restored_roles(motion.skeleton))
    order = [points.index(f"{side}_{part}") for side in SIDES for part in ("heel", "ball", "toe_end")]
    at = points.positions(*motion.joint_frames())[:, order].reshape(-1, 2, 3, 3)
    speeds = np.linalg.norm(np.diff(at, axis=0), axis=-1) * motion.rate_hz
    return speeds.min(axis=2)


def count_faults(measured: Measurement) -> int:
    """How often a knee flips or bends backwards."""
    return sum(fault.kind in ("flip", "backwards") and fault.part.endswith("knee") for fault in measured.faults)


def compare_clip(clip: Motion, hold: Callable[[Motion], Motion]) -> dict[str, Any]:
    """Facts about one clip before and after."""
    begin = time.process_time()
    held = hold(clip)
    seconds = time.process_time() - begin
    before, after = measure_motion(clip), measure_motion(held)
    over = measure_steps_deg(held) - 1.5 * measure_steps_deg(clip) - 3.0
    # A foot stands where the capture moves little; it is held where the result does not move at all
    stands, is_held = measure_soles(clip) < STILL_MPS, measure_soles(held) < HELD_MPS
    moved = np.linalg.norm(held.joint_positions() - clip.joint_positions(), axis=-1)
    roles = restored_roles(clip.skeleton)
    scraped = [float(m.scraped_m[-1]) for m in (before, after)]
    knees = [f"{side}_knee_flexion_median_deg" for side in SIDES]
    lift = held.root_positions[:, 1] - clip.root_positions[:, 1]
    return {
        "clip": clip.name,
        "frames": clip.num_frames,
        "frames_per_s": clip.num_frames / max(seconds, 1e-9),
        "over_deg": float(over.max()),
        "flips": max(count_faults(after) - count_faults(before), 0),
        "stands": float(stands.all(axis=1).mean()),
        "held": float(is_held[stands].mean()) if stands.any() else 1.0,
        "scraped_m": scraped,
        "scrape_share": scraped[1] / max(scraped[0], 1e-9) if scraped[1] > ROUNDING_M else 0.0,
        "knee_deg": max(abs(after[name] - before[name]) for name in knees),
        "clearance_mm": [m.values.get("swing_clearance_median_mm", float("nan")) for m in (before, after)],
        "knee_acceleration": after["knee_acceleration_p99_deg_per_s2"] / before["knee_acceleration_p99_deg_per_s2"]
        if "knee_acceleration_p99_deg_per_s2" in before
        else float("nan"),
        "ankle_mm": 1e3 * float(moved[:, [roles[f"{side}_ankle"] for side in SIDES]].max()),
        "pelvis_mm": [1e3 * float(lift.min()), 1e3 * float(np.median(lift)), 1e3 * float(lift.max())],
    }
