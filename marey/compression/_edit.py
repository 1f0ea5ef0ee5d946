"""Editing a motion by moving a joint, inside the pose space of the clip."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, frozen
from marey.compression._tournier import END_ROLES, solve_coordinates
from marey.lie import SO3
from marey.models import PGA, GeodesicModel
from marey.motion import Motion
from marey.skeleton import role_map

EDIT_SPRING: Final = 1e-6  # [m^2] holds the coordinates near those of the clip, well below a goal's pull
VARIANCE_SHARE: Final = 0.999  # of the variance, so that poses outside and inside the range join within millimetres
GOAL_WEIGHT: Final = 8  # the moved joint counts this many times among the targets


def edit_window(count: int) -> FloatArray:
    r"""Weights ``(count,)`` that rise to one in the middle and fall again, twice smooth: :math:`(4s(1-s))^3`."""
    s = np.arange(count) / max(count - 1, 1)
    return (4.0 * s * (1.0 - s)) ** 3


def edit_motion(
    motion: Motion,
    joint: str | int,
    offset_world: ArrayLike,
    *,
    start: int,
    stop: int,
    model: GeodesicModel | None = None,
) -> Motion:
    """Move a joint by an offset that swells and fades, and let the body follow in the clip's own pose space.

    [Tournier2011]_ §9.3.2. The root and the other end effectors are held where they are as well as the pose space
    allows. Frames outside ``start .. stop`` stay as they are, bit by bit; poses inside are poses of the model.

    Args:
        motion: the clip, captured or decompressed.
        joint: what to move.
        offset_world: ``(3,)`` [m] at the middle of the range.
        start: first frame that may change.
        stop: frame after the last.
        model: the pose space; fitted to the clip by default (99.9 % of the variance).

    Raises:
        InputError: the range is not in the clip, or the joint is the root.
    """
    if not 0 <= start < stop <= motion.num_frames:
        raise InputError(f"frames {start} to {stop} of {motion.num_frames}", "Give a range inside the clip")
    moved = motion.skeleton.index(joint) if isinstance(joint, str) else int(joint)
    if not 0 < moved < motion.skeleton.num_joints:
        raise InputError(f"joint {joint} cannot be moved in a pose space", "Name a joint below the root")
    space = PGA(explained=VARIANCE_SHARE).fit(motion) if model is None else model
    part = motion[start:stop]
    before = space.encode(part)
    offset = edit_window(stop - start)[:, None] * frozen(offset_world, 3, name="offset_world")
    coordinates = _solve_edit(space, part, before, moved, offset)
    wxyz = np.array(motion.rotations.wxyz)
    wxyz[start:stop, 1:] = space.rotations(coordinates).wxyz[:, 1:]
    return Motion(
        motion.skeleton, motion.rate_hz, motion.root_positions, SO3(wxyz), motion.contacts, motion.translations,
        name=motion.name,
    )  # fmt: skip


def _solve_edit(space: GeodesicModel, part: Motion, before: FloatArray, moved: int, offset: FloatArray) -> FloatArray:
    """Coordinates whose moved joint is displaced, the other end effectors where the model had them."""
    turns = part.rotations[:, :1]
    roots = part.root_positions
    posed = space.decode(before, root_positions=roots, root_rotations=turns[:, 0], skeleton=part.skeleton)
    held = [j for j in _held_ends(part) if j != moved]
    places = turns.inverse() @ (posed.joint_positions() - roots[:, None])
    goal = places[:, moved] + (turns[:, 0].inverse() @ offset)
    targets = np.concatenate([places[:, held], np.repeat(goal[:, None], GOAL_WEIGHT, axis=1)], axis=1)
    return solve_coordinates(space, (*held, *[moved] * GOAL_WEIGHT), targets, EDIT_SPRING, before)


def _held_ends(part: Motion) -> list[int]:
    roles = role_map(part.skeleton)
    return [roles[role] for role in END_ROLES if role in roles]
