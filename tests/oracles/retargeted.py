"""A retargeted motion beside its source, measured from joint positions and points of the soles alone."""

from __future__ import annotations

import numpy as np

from marey.motion import Motion, find_runs
from marey.skeleton import foot_points, restored_roles

SIDES = ("left", "right")


STEP_M = 0.06  # [m] a contact whose source stands this far over its clip's floor is on a step, a box or a bar


def measure_feet_mm(motion: Motion, source: Motion | None = None) -> tuple[float, float, float]:
    """Slip in contact, 95th percentile [mm/s]; depth below the floor and height of contacts above it [mm].

    A toe is in contact with its ball or its end, so the slower and the lower of both counts. With ``source``, a contact
    that stands on a step there stands on one here: at its own lowest height if that is within ``STEP_M`` of the
    source's, else it is as high above the floor as it is.
    """
    assert motion.contacts is not None
    points = foot_points(motion.skeleton)
    at = points.positions(*motion.joint_frames())
    speeds = np.linalg.norm(np.diff(at[..., [0, 2]], axis=0), axis=-1) * motion.rate_hz
    own = None if source is None else foot_points(source.skeleton)
    before = None if source is None or own is None else own.positions(*source.joint_frames())[..., 1]
    slips, heights, runs = [np.zeros(1)], [np.zeros(1)], []
    for side in SIDES:
        for name, parts in (("heel", ("heel",)), ("toe", ("ball", "toe_end"))):
            down = motion.contacts.track(f"{side}_{name}")
            columns = [points.index(f"{side}_{part}") for part in parts]
            slips.append(speeds[:, columns].min(axis=1)[down[1:] & down[:-1]])
            low = at[..., columns, 1].min(axis=1)
            if before is None or own is None:
                heights.append(low[down])
                continue
            high = before[:, [own.index(f"{side}_{part}") for part in ("heel", "ball", "toe_end")]].min(axis=1)
            runs += [(low[a:b], float(np.median(high[a:b]))) for a, b in find_runs(down, 0)]
    floor = min((level for _, level in runs), default=0.0)
    for low, level in runs:
        ground = float(low.min()) if level - floor > STEP_M and abs(low.min() - level + floor) < STEP_M else 0.0
        heights.append(low - ground)
    return (
        1000.0 * float(np.quantile(np.concatenate(slips), 0.95)),
        -1000.0 * float(at[..., 1].min()),
        1000.0 * float(np.concatenate(heights).max()),
    )


def measure_steps_deg(motion: Motion) -> dict[str, float]:
    """Largest turn of each part against the part above it from one frame to the next."""
    roles, (_, world) = restored_roles(motion.skeleton), motion.joint_frames()
    above = {"knee": "hip", "ankle": "knee", "elbow": "shoulder", "wrist": "elbow"}
    found = {}
    for side in SIDES:
        for part in ("hip", "knee", "ankle", "shoulder", "elbow", "wrist"):
            base = f"{side}_{above[part]}" if part in above else "pelvis" if part == "hip" else "spine3"
            turn = world[:, roles[base]].inverse() @ world[:, roles[f"{side}_{part}"]]
            found[f"{side}_{part}"] = float(np.degrees((turn[:-1].inverse() @ turn[1:]).angle().max()))
    return found


def measure_pelvis_mps2(motion: Motion) -> float:
    """Largest vertical acceleration of the middle of the hips, by second differences."""
    roles = restored_roles(motion.skeleton)
    hips = motion.joint_positions()[:, [roles[f"{side}_hip"] for side in SIDES], 1].mean(axis=1)
    return float(np.abs(np.diff(hips, 2)).max(initial=0.0)) * motion.rate_hz**2
