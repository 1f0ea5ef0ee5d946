"""Feet of a clip on the ground: they stay where they stand, and clear the floor where they swing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marey.base import BoolArray, InputError, Result
from marey.contacts.body import SIDES, PosedBody, require_legs
from marey.contacts.detection.methods import detect_contacts
from marey.contacts.legs import PlantedFeet
from marey.contacts.plants import DEFAULT_HOLD, HoldSettings, find_modes
from marey.lie import SO3
from marey.motion import Contacts, Motion
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
    flicker = round(settings.flicker_s * motion.rate_hz)
    modes = {
        side: find_modes(*(_contact_flags(track, f"{side}_{part}") for part in ("heel", "toe")), flicker)
        for side in SIDES
    }
    positions, world = motion.joint_frames()
    stand = PosedBody(
        motion.skeleton,
        roles,
        foot_points(motion.skeleton, roles),
        motion.rotations.wxyz,
        motion.root_positions,
        positions,
        world,
    )
    feet = PlantedFeet.measure(stand, modes, motion.rate_hz, settings, level=False)
    held, _ = feet.plant()
    return HoldResult(replace(motion, root_positions=held.roots, rotations=SO3(held.wxyz), contacts=track, source=None))


def _contact_flags(track: Contacts, point: str) -> BoolArray:
    """Frames ``(F,)`` in which a point is in contact; none if the track does not have it."""
    return np.array(track.track(point)) if point in track.names else np.zeros(len(track), dtype=np.bool_)
