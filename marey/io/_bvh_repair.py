"""Known faults of BVH collections: profiles, added poses, frames without data."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.io._euler import NONE, ChannelMap
from marey.io._text import plural
from marey.io._units import HEIGHT_OF_REACH, METRES, longest_reach
from marey.motion import Motion
from marey.skeleton import Skeleton

CMU_NAMES: Final = frozenset({"Hips", "LHipJoint", "RHipJoint", "LowerBack", "Spine1", "Neck1", "LeftFingerBase"})
LOST_BONES: Final = (
    "this conversion has lost the thorax and wrist bones: neck and shoulders sit on Spine1, 11 to 13 cm too low, "
    "and the fingers on the wrist"
)
FLIP_DEG: Final = 40.0  # a joint at 120 Hz would need 4800 degrees a second; markers were swapped or lost
CMU_HEIGHT_M: Final = (1.0, 2.4)  # height of a CMU skeleton read in CMU units; else it was rescaled


def find_profile(raw: Skeleton) -> str:
    """``"cmu"`` for the 2010 conversion of the CMU database in its own unit, else empty. ``raw`` is in file units."""
    height = HEIGHT_OF_REACH * longest_reach(raw.parents, raw.offsets, raw.tips) * METRES["cmu"]
    is_cmu = CMU_NAMES.issubset(raw.names) and CMU_HEIGHT_M[0] <= height <= CMU_HEIGHT_M[1]
    return "cmu" if is_cmu else ""


def leading_rows(
    channels: FloatArray, layout: ChannelMap, profile: str, raw: Skeleton
) -> tuple[int, list[str], list[str]]:
    """How many rows at the start were not captured, and warnings and notes that say so."""
    warnings: list[str] = []
    notes: list[str] = []
    if profile != "cmu":
        return 0, warnings, notes
    dropped = int(_is_added_pose(channels, layout))
    if dropped:
        notes.append("frame 0 is a T-pose that was added to the capture; left out (source.dropped keeps it)")
    empty = _count_empty(channels[dropped:])
    if empty:
        what = f"only zeros at the start, for {plural(empty, 'frame')}"
        warnings.append(f"{what}: not captured, left out (source.dropped keeps them)")
    if _lacks_thorax(raw):
        notes.append(LOST_BONES)
    return dropped + empty, warnings, notes


def _is_added_pose(channels: FloatArray, layout: ChannelMap) -> bool:
    """Whole degrees, mostly zero, where the next frame begins: nobody moves like that."""
    if len(channels) < 2:
        return False
    places = layout.positions[0][layout.positions[0] != NONE]
    if (channels[0, places] != channels[1, places]).any():
        return False
    turns = channels[0, layout.columns[layout.columns != NONE]]
    return bool((turns == np.rint(turns)).all() and np.count_nonzero(turns) < 0.2 * len(turns))


def _count_empty(channels: FloatArray) -> int:
    """How many rows at the start are all zero, unless all rows are."""
    count = 0
    while count < len(channels) and not channels[count].any():
        count += 1
    return 0 if count == len(channels) else count


def _lacks_thorax(raw: Skeleton) -> bool:
    names = ("Neck", "LeftShoulder", "RightShoulder")
    return all(n in raw.names and not raw.offsets[raw.index(n)].any() for n in names)


def joint_flips(motion: Motion) -> tuple[str, ...]:
    """A warning that names the joints which turn by more than ``FLIP_DEG`` from one frame to the next."""
    wxyz = motion.rotations.wxyz
    cosines = np.abs(np.einsum("fjc,fjc->fj", wxyz[1:], wxyz[:-1]))
    counts = (cosines < np.cos(np.deg2rad(0.5 * FLIP_DEG))).sum(axis=0)
    joints = sorted(np.flatnonzero(counts).tolist(), key=lambda j: -int(counts[j]))
    if not joints:
        return ()
    named = ", ".join(f"{motion.skeleton.names[j]} x{counts[j]}" for j in joints)
    return (f"joints turn by more than {FLIP_DEG:g} degrees between two frames: {named}",)
