"""A retargeted motion beside its source, measured from joint positions and points of the soles alone."""

from __future__ import annotations

import numpy as np

from marey.motion import Motion
from marey.skeleton import foot_points, restored_roles

SIDES = ("left", "right")


def measure_feet_mm(motion: Motion) -> tuple[float, float, float]:
    """Slip in contact, 95th percentile [mm/s]; depth below the floor and height of contacts above it [mm].

    A toe is in contact with its ball or its end, so the slower and the lower of both counts.
    """
    assert motion.contacts is not None
    points = foot_points(motion.skeleton)
    at = points.positions(*motion.joint_frames())
    speeds = np.linalg.norm(np.diff(at[..., [0, 2]], axis=0), axis=-1) * motion.rate_hz
    slips, heights = [np.zeros(1)], [np.zeros(1)]
    for side in SIDES:
        for name, parts in (("heel", ("heel",)), ("toe", ("ball", "toe_end"))):
            down = motion.contacts.track(f"{side}_{name}")
            columns = [points.index(f"{side}_{part}") for part in parts]
            slips.append(speeds[:, columns].min(axis=1)[down[1:] & down[:-1]])
            heights.append(at[down][:, columns, 1].min(axis=1))
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
