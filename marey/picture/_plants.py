"""Where feet stood and where the body went, as marks on the ground."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray
from marey.motion import Contacts, Motion, contact_positions, detect_contacts, find_runs
from marey.picture._body import Palette
from marey.picture._scene import GroundMarks
from marey.skeleton import contact_points

HEEL_RADIUS_M: Final = 0.034
TOE_RADIUS_M: Final = 0.046
HAND_RADIUS_M: Final = 0.055
PRINT_OPACITY: Final = 0.55
PATH_WIDTH_M: Final = 0.018
MAX_PATH_POINTS: Final = 100  # a smooth line on a picture


def contacts_or_detect(motion: Motion) -> Contacts:
    """The clip's own contact track, or a detected one."""
    return detect_contacts(motion) if motion.contacts is None else motion.contacts


def foot_prints(motion: Motion, contacts: Contacts, palette: Palette) -> GroundMarks:
    """A print for each time a foot or a hand stood on the ground, at its mean place while it stood."""
    names = contact_points(motion.skeleton).names
    places = dict(zip(names, np.moveaxis(contact_positions(motion), 1, 0), strict=True))
    prints: list[GroundMarks] = []
    for side, colour in (("left", palette.left), ("right", palette.right)):
        for points, radii in (
            ((f"{side}_heel", f"{side}_toe"), (HEEL_RADIUS_M, TOE_RADIUS_M)),
            ((f"{side}_hand", f"{side}_hand"), (HAND_RADIUS_M, HAND_RADIUS_M)),
        ):
            prints += _limb_prints(places, contacts, points, radii, colour)
    return GroundMarks.join(prints)


def _limb_prints(
    places: Mapping[str, FloatArray],
    contacts: Contacts,
    points: tuple[str, str],
    radii: tuple[float, float],
    colour: FloatArray,
) -> list[GroundMarks]:
    known = [name for name in points if name in contacts.names and name in places]
    if not known:
        return []
    down = np.any([contacts.track(name) for name in known], axis=0)
    flat = np.all([contacts.track(name) for name in known], axis=0)
    ends = (places[known[0]], places[known[-1]])
    return [_make_print(ends, _flat_frames(flat, span), radii, colour) for span in find_runs(down)]


def _flat_frames(flat: BoolArray, span: tuple[int, int]) -> BoolArray:
    """Frames of a span in which all of the foot is down, or all of the span if there are none."""
    inside = np.zeros(len(flat), dtype=np.bool_)
    inside[span[0] : span[1]] = True
    return inside & flat if (inside & flat).any() else inside


def _make_print(
    ends: tuple[FloatArray, FloatArray], when: BoolArray, radii: tuple[float, float], colour: FloatArray
) -> GroundMarks:
    start, end = (places[when].mean(axis=0)[[0, 2]] for places in ends)
    opacity = np.array([PRINT_OPACITY])
    return GroundMarks(start[None], end[None], np.array(radii[:1]), np.array(radii[1:]), colour[None], opacity)


def root_path(motion: Motion, colour: FloatArray) -> GroundMarks:
    """The way of the root, dropped onto the ground."""
    step = max(1, motion.num_frames // MAX_PATH_POINTS)
    return GroundMarks.path(motion.root_positions[::step][:, [0, 2]], width_m=PATH_WIDTH_M, colour=colour)
