"""Feet of a clip on the ground: they stay where they stand, and clear the floor where they swing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import BoolArray, InputError, Result
from marey.contacts.body import SIDES, PosedBody, mean_leg_length, require_legs
from marey.contacts.detection.methods import detect_contacts
from marey.contacts.legs import PlantedFeet
from marey.contacts.plants import DEFAULT_HOLD, LEG_M, HoldSettings, find_modes
from marey.lie import SO3
from marey.motion import Contacts, Motion, find_runs
from marey.skeleton import foot_points, require_human, restored_roles


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HoldResult(Result):
    """A clip whose feet are held."""

    motion: Motion


def hold_feet(motion: Motion, contacts: Contacts | None = None, settings: HoldSettings = DEFAULT_HOLD) -> HoldResult:
    """Hold the feet of a clip where they stand."""
    if motion.translations is not None:
        raise InputError("the bones of this clip change their length", "Retarget it first: marey.retarget(motion)")
    few = slice(None, None, max(1, motion.num_frames // 8))
    require_human(motion.skeleton, "holding feet", motion[few].joint_positions())
    roles = restored_roles(motion.skeleton)
    require_legs(motion.skeleton, roles)
    track = contacts or motion.contacts or detect_contacts(motion)
    positions, world = motion.joint_frames()
    sole = foot_points(motion.skeleton, roles)
    touch_m = settings.touch_m * mean_leg_length(motion.skeleton, roles) / LEG_M
    modes = find_contact_modes(
        track, sole, sole.positions(positions, world)[..., 1], touch_m, settings.flicker_s * motion.rate_hz
    )
    stand = PosedBody(
        motion.skeleton,
        roles,
        sole,
        motion.rotations.wxyz,
        motion.root_positions,
        positions,
        world,
    )
    feet = PlantedFeet.measure(stand, modes, motion.rate_hz, settings, level=False)
    held, _ = feet.plant()
    return HoldResult(replace(motion, root_positions=held.roots, rotations=SO3(held.wxyz), contacts=track, source=None))


def find_contact_modes(track, sole, heights, touch_m, flicker):
    modes = {}
    for side in SIDES:
        flags = []
        for part, names in (("heel", ("heel",)), ("toe", ("ball", "toe_end"))):
            flag = _contact_flags(track, f"{side}_{part}")
            cols = [sole.index(f"{side}_{n}") for n in names]
            out = np.zeros_like(flag)
            for start, stop in find_runs(flag, 0):
                at = heights[start:stop, cols]
                high = (at - np.quantile(at, 0.1, axis=0)).min(axis=1)
                low = start + np.flatnonzero(high <= touch_m)
                first = low[0] if start > 0 else start
                last = low[-1] + 1 if stop < len(flag) else stop
                out[first:last] = True
            flags.append(out)
        modes[side] = find_modes(*flags, round(flicker))
    return modes


def _contact_flags(track: Contacts, point: str) -> BoolArray:
    """Frames ``(F,)`` in which a point is in contact; none if the track does not have it."""
    return np.array(track.track(point)) if point in track.names else np.zeros(len(track), dtype=np.bool_)
