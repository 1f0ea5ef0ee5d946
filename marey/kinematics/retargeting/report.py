"""What a retargeted motion is like, measured on the result: slip, depth and height of the feet, limbs that collide."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.contacts import BrokenPlant
from marey.contacts.body import SIDES
from marey.contacts.floor import FloorPlane
from marey.kinematics.retargeting.target import RetargetTarget
from marey.lie import SO3
from marey.motion import Contacts, Motion, find_runs
from marey.skeleton import Capsules, Skeleton, capsules, role_map

COLLISION_FRAMES: Final = 128  # whose pairs of capsules are compared at once
SOLE_FRAMES: Final = 1024  # whose joint frames are in memory at once
OVERLAP_M: Final = 0.01  # [m] capsules are rounder than bodies: less is skin on skin
STEP_M: Final = 0.06  # [m] a sole in contact this far over the floor stands on a step
STILL_MPS: Final = 0.005  # [m/s] a point in contact that moves slower is held
BROKEN_M: Final = 0.005  # [m] a plant whose foot moves farther is broken
MAX_TOLD: Final = 3  # broken plants in a sentence
_INNER: Final = ("pelvis", "spine1", "spine2", "spine3", "neck", "head")


@dataclass(frozen=True, slots=True)
class RetargetReport:
    """What retargeting did, and how the result stands on the floor ``y = 0``."""

    source: str  # name of the source's skeleton
    target: str
    scale: float  # [-] ratio of the legs
    lift_m: float  # difference of the heights of the ankles
    floor_m: float  # height of the source's floor at the origin, on the target's scale
    tilt_deg: float  # of that floor
    repairs: tuple[str, ...]  # of the source: bones that were put back, joints that were turned back
    slip_p95_mps: float  # speed over the ground of points in contact, 95th percentile
    slip_max_mps: float
    penetration_m: float  # deepest that a point of the soles is below the floor
    float_m: float  # highest that a point in contact is above it
    colliding_frames: int  # frames in which limbs are inside one another
    num_frames: int
    broken: tuple[BrokenPlant, ...]  # stretches of the source's contacts in which the foot moves: slides or is lifted

    def to_json(self) -> dict[str, object]:
        """Return the fields by name."""
        return {**asdict(self), "repairs": list(self.repairs), "broken": [asdict(plant) for plant in self.broken]}

    def warnings(self) -> tuple[str, ...]:
        """One sentence on the plants that could not be held, the worst of them first."""
        if not self.broken:
            return ()
        worst = sorted(self.broken, key=lambda plant: -plant.distance_m)[:MAX_TOLD]
        others = f" and {len(self.broken) - MAX_TOLD} more" if len(self.broken) > MAX_TOLD else ""
        return (f"foot plants that could not be held: {'; '.join(map(str, worst))}{others}",)

    def sentences(self) -> tuple[str, ...]:
        """Notes for people."""
        first = (
            f"retargeted from '{self.source}' to '{self.target}': positions scaled by "
            f"{self.scale:.4f} (leg length) and lifted by {1000.0 * self.lift_m:.1f} mm (height of the ankle)"
        )
        feet = (
            f"feet slip by {1000.0 * self.slip_p95_mps:.1f} (p95), {1000.0 * self.slip_max_mps:.0f} mm/s (max); "
            f"{1000.0 * self.penetration_m:.1f} mm below the floor, {1000.0 * self.float_m:.1f} mm above it; "
            f"floor of the source at {1000.0 * self.floor_m:.0f} mm, tilted by {self.tilt_deg:.1f} degrees"
        )
        touch = f"limbs inside one another in {self.colliding_frames} of {self.num_frames} frames"
        return (*self.repairs, feet, touch, first)


def measure_result(
    motion: Motion,
    body: RetargetTarget,
    track: Contacts | None,
    *,
    source: str,
    scale: float,
    lift_m: float,
    repairs: tuple[str, ...],
    floor: FloorPlane,
) -> RetargetReport:
    """Measure the feet from the positions of the soles, and count collisions.

    Slip and height are those of contacts that the result has. Broken plants are found by the source's own track, so
    that a contact which was given up counts.
    """
    at = motion.map_frames(body.sole.positions, size=SOLE_FRAMES)
    steps = np.diff(at, axis=0)
    speeds = np.linalg.norm(steps[..., [0, 2]], axis=-1) * motion.rate_hz
    slips, floats, broken = [np.zeros(0)], [0.0], list[BrokenPlant]()
    held = None if track is None else motion.contacts
    for side in SIDES if track is not None and held is not None else ():
        assert track is not None
        assert held is not None
        moves, is_down = np.full(len(steps), np.inf), np.zeros(len(steps), dtype=np.bool_)
        points = {"heel": ("heel",), "toe": ("ball", "toe_end")}
        tracks = {part: track.track(f"{side}_{part}") for part in points if f"{side}_{part}" in track.names}
        for part, flags in tracks.items():
            columns = [body.sole.index(f"{side}_{point}") for point in points[part]]
            # Of the points that the source has down, the one that moves least
            both = flags[1:] & flags[:-1]
            is_down |= both
            slowest = np.linalg.norm(steps[:, columns], axis=-1).min(axis=1)
            moves = np.where(both, np.minimum(moves, slowest), moves)
            if f"{side}_{part}" in held.names:
                down = held.track(f"{side}_{part}")
                slips.append(speeds[:, columns].min(axis=1)[down[1:] & down[:-1]])
                low = at[down][:, columns, 1].min(axis=1)
                floats.append(float(low[low < STEP_M * scale].max(initial=0.0)))
        for start, stop in find_runs(is_down & (moves * motion.rate_hz > STILL_MPS), 0):
            way = float(moves[start:stop].sum())
            if way > BROKEN_M * scale:
                which = [part for part, flags in tracks.items() if flags[start : stop + 1].any()]
                times = (start / motion.rate_hz, stop / motion.rate_hz)
                point = which[0] if len(which) == 1 else "sole"
                broken.append(BrokenPlant(side, point, start, stop + 1, way, *times))
    slip = np.concatenate(slips)
    return RetargetReport(
        source,
        motion.skeleton.name,
        scale,
        lift_m,
        floor.height,
        float(np.degrees(np.arctan(np.linalg.norm(floor.slope)))),
        repairs,
        float(np.quantile(slip, 0.95)) if len(slip) else 0.0,
        float(slip.max(initial=0.0)),
        float(max(0.0, -at[..., 1].min())) if track is not None else 0.0,
        max(floats),
        int((count_collisions(motion) > 0).sum()),
        motion.num_frames,
        tuple(sorted(broken, key=lambda plant: plant.start)),
    )


def count_collisions(motion: Motion) -> FloatArray:
    """Pairs of capsules of limbs ``(F,)`` that are inside one another by more than ``OVERLAP_M``."""
    solid, pairs = _limb_pairs(motion.skeleton)
    if not len(pairs):
        return np.zeros(motion.num_frames)
    i, j = pairs.T

    def count(positions: FloatArray, frames: SO3) -> FloatArray:
        R, p = frames[:, solid.joints].matrix(), positions[:, solid.joints]
        a = p + np.einsum("fsij,sj->fsi", R, solid.starts)
        b = p + np.einsum("fsij,sj->fsi", R, solid.ends)
        # Distances between the axes of two capsules, and where on each they are nearest
        u, v, w = b[:, i] - a[:, i], b[:, j] - a[:, j], a[:, i] - a[:, j]
        uu, uv, vv = (np.einsum("...i,...i", x, y) for x, y in ((u, u), (u, v), (v, v)))
        uw, vw = np.einsum("...i,...i", u, w), np.einsum("...i,...i", v, w)
        det = np.maximum(uu * vv - uv * uv, 1e-12)
        s = np.clip((uv * vw - vv * uw) / det, 0.0, 1.0)
        t = np.clip((uv * s + vw) / np.maximum(vv, 1e-12), 0.0, 1.0)
        s = np.clip((uv * t - uw) / np.maximum(uu, 1e-12), 0.0, 1.0)
        apart = w + s[..., None] * u - t[..., None] * v
        gap = np.sqrt(np.einsum("...i,...i", apart, apart))
        radius_i = (1.0 - s) * solid.start_radii[i] + s * solid.end_radii[i]
        radius_j = (1.0 - t) * solid.start_radii[j] + t * solid.end_radii[j]
        return (gap < radius_i + radius_j - OVERLAP_M).sum(axis=1, dtype=np.float64)

    return motion.map_frames(count, size=COLLISION_FRAMES)


@lru_cache(maxsize=32)
def _limb_pairs(skeleton: Skeleton) -> tuple[Capsules, IntArray]:
    """The solid body, and the pairs of its capsules that may collide: of different limbs, or of a limb's end and trunk.

    Upper arms and thighs overlap the trunk in every pose of a body of capsules, so they are compared with one another
    only.
    """
    solid, roles = capsules(skeleton), role_map(skeleton)
    limb: dict[int, str] = {}
    for side in SIDES:
        for kind, parts in (("arm", ("elbow", "wrist")), ("leg", ("knee", "ankle"))):
            limb |= {roles[f"{side}_{part}"]: f"{side}_{kind}" for part in parts if f"{side}_{part}" in roles}
    inner = {roles[role] for role in _INNER if role in roles}
    owner = [limb.get(int(joint), "trunk" if int(joint) in inner else "") for joint in solid.joints]
    pairs = [
        (i, j)
        for i, one in enumerate(owner)
        for j, two in enumerate(owner)
        if i < j
        and one
        and two
        and one != two
        and not (one.endswith("leg") and two == "trunk")
        and not (two.endswith("leg") and one == "trunk")
    ]
    return solid, np.array(pairs, dtype=np.int64).reshape(-1, 2)
