"""From a motion back to BVH channel values: the file's own where they still hold, fresh ones elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from marey.base import FloatArray, IntArray
from marey.io._axes import rotate_wxyz, to_file
from marey.io._euler import AXES, NONE, ChannelMap, channels_to_positions
from marey.motion import Motion, Source

POSITIONS: Final = ("Xposition", "Yposition", "Zposition")
ROTATIONS: Final = ("Zrotation", "Yrotation", "Xrotation")
SAME_POSITION: Final = 1e-9  # [m] a position this near to the file's own was not edited
SAME_ROTATION: Final = 1e-9  # [rad] the same for a rotation


def choose_channels(motion: Motion, source: Source | None) -> tuple[tuple[str, ...], ...]:
    """Channel names of each joint, widened where the file's own cannot express the motion."""
    names: list[tuple[str, ...]] = [(*POSITIONS, *ROTATIONS), *([ROTATIONS] * (motion.skeleton.num_joints - 1))]
    if source is not None:
        names = [tuple(n) for n in cast(Sequence[Sequence[str]], source.layout["channels"])]
    for joint in _find_joints_needing_rotation(motion, source, names):
        names[joint] = (*names[joint], *(r for r in ROTATIONS if r not in names[joint]))
    for joint in _find_joints_needing_position(motion, source, names):
        names[joint] = (*POSITIONS, *(n for n in names[joint] if n not in POSITIONS))
    return tuple(names)


def _find_joints_needing_rotation(motion: Motion, source: Source | None, names: Sequence[tuple[str, ...]]) -> list[int]:
    """Joints with fewer than three rotation channels whose rotation these cannot make."""
    narrow = [j for j, n in enumerate(names) if sum("rotation" in c for c in n) < 3]
    if not narrow:
        return []
    full = ChannelMap.from_names([(*n, *(r for r in ROTATIONS if r not in n)) for n in names])
    angles = _angles(motion, source, full)
    spare = np.array([[full.names[j][c] not in names[j] for c in _rotation_slots(full, j)] for j in narrow])
    used = np.abs(angles[:, narrow]).max(axis=0) > np.rad2deg(SAME_ROTATION)
    return [j for j, need in zip(narrow, (used & spare).any(axis=1), strict=True) if need]


def _rotation_slots(layout: ChannelMap, joint: int) -> list[int]:
    return [i for i, name in enumerate(layout.names[joint]) if name.endswith("rotation")]


def _find_joints_needing_position(motion: Motion, source: Source | None, names: Sequence[tuple[str, ...]]) -> list[int]:
    """Joints that leave their offset, in their parent's frame, along an axis that has no channel."""
    up = source.up if source else "+y"
    need: list[int] = []
    for joint, channels in enumerate(names):
        fixed = [axis for axis, name in enumerate(POSITIONS) if name not in channels]
        track = _position_track(motion, joint)
        if not fixed or track is None:
            continue
        away = to_file(track - motion.skeleton.offsets[joint], up)
        if np.abs(away[:, fixed]).max() > SAME_POSITION:
            need.append(joint)
    return need


def _position_track(motion: Motion, joint: int) -> FloatArray | None:
    """Position ``(F, 3)`` [m] of a joint in its parent's frame, or ``None`` where it is the constant offset."""
    if joint == 0:
        return motion.root_positions
    return None if motion.translations is None else motion.translations[:, joint]


def build_channel_table(
    motion: Motion, source: Source | None, names: Sequence[Sequence[str]], metres: float
) -> FloatArray:
    """Channel values ``(F, C)`` [deg, file unit], columns joint by joint; rows left out by the reader return first."""
    layout = ChannelMap.from_names(names)
    own = _own_channels(motion, source, layout)
    table = np.zeros((motion.num_frames, layout.num_channels))
    angles = _angles(motion, source, layout)
    for joint in range(motion.skeleton.num_joints):
        _fill_rotations(table, layout, joint, angles)
        _fill_positions(table, layout, joint, motion, source, metres, own)
    if own is None or source is None or source.dropped is None or not np.array_equal(table, own):
        return table
    return np.concatenate([source.dropped, table]) if metres == source.metres_per_unit else table


def _own_channels(motion: Motion, source: Source | None, layout: ChannelMap) -> FloatArray | None:
    """The file's own values, if they are still one row a frame and one column a channel."""
    if source is None or source.channels is None:
        return None
    return source.channels if source.channels.shape == (motion.num_frames, layout.num_channels) else None


def _angles(motion: Motion, source: Source | None, layout: ChannelMap) -> FloatArray:
    """Angles ``(F, J, 3)`` [deg] in the order of each joint's channels, missing axes last."""
    from marey.io._euler_kernels import decompose_euler

    wxyz = np.ascontiguousarray(rotate_wxyz(motion.rotations.wxyz, source.up if source else "+y", back=True))
    own = _own_channels(motion, source, layout)
    given = np.zeros((1, wxyz.shape[1], 3))
    if own is not None:
        padded = np.concatenate([own, np.zeros((len(own), 1))], axis=1)  # column NONE is the last one: zero
        given = np.ascontiguousarray(padded[:, layout.columns])
    return decompose_euler(wxyz, _complete_axes(layout.axes), given, own is not None)


def _complete_axes(axes: IntArray) -> IntArray:
    """Fill the missing axes of each joint so that every row is an order of 0, 1, 2."""
    result = axes.copy()
    for row in result:
        missing = [a for a in range(len(AXES)) if a not in row]
        for slot in np.flatnonzero(row == NONE):
            row[slot] = missing.pop(0)
    return result


def _fill_rotations(table: FloatArray, layout: ChannelMap, joint: int, angles: FloatArray) -> None:
    for slot in range(3):
        if layout.columns[joint, slot] != NONE:
            table[:, layout.columns[joint, slot]] = angles[:, joint, slot]


def _fill_positions(
    table: FloatArray,
    layout: ChannelMap,
    joint: int,
    motion: Motion,
    source: Source | None,
    metres: float,
    own: FloatArray | None,
) -> None:
    columns = layout.positions[joint]
    if (columns == NONE).all():
        return
    track = _position_track(motion, joint)
    offset = motion.skeleton.offsets[joint]
    up = source.up if source else "+y"
    local = to_file(np.broadcast_to(offset, (len(table), 3)) if track is None else track, up) / metres
    if own is not None and source is not None and metres == source.metres_per_unit:
        read = channels_to_positions(own, layout, joint, to_file(offset, up) / metres)
        near = np.abs(read - local).max(axis=1, keepdims=True) * metres < SAME_POSITION
        local = np.where(near, read, local)
    for axis in range(3):
        if columns[axis] != NONE:
            table[:, columns[axis]] = local[:, axis]
