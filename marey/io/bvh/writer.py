"""BVH writer: gives the file back that was read, and writes any other motion in the plainest dialect.

Channel values are the file's own where they still hold, and fresh ones elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray
from marey.io.conventions import unit_in_metres
from marey.io.euler import AXES, NONE, ChannelMap, channels_to_positions, decompose_euler
from marey.io.export import format_numbers, place_root
from marey.io.person import restore_scene
from marey.io.vertical_axis import rotate_wxyz, to_file
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
    # Joints with fewer than three rotation channels whose rotation these cannot make
    narrow = [j for j, n in enumerate(names) if sum("rotation" in c for c in n) < 3]
    if narrow:
        full = ChannelMap.from_names([(*n, *(r for r in ROTATIONS if r not in n)) for n in names])
        angles = _angles(motion, source, full)
        # Of the three rotation channels, those that the joint lacks
        spare = np.array([[c not in names[j] for c in full.names[j] if c.endswith("rotation")] for j in narrow])
        used = np.abs(angles[:, narrow]).max(axis=0) > np.rad2deg(SAME_ROTATION)
        for joint, is_needed in zip(narrow, (used & spare).any(axis=1), strict=True):
            if is_needed:
                names[joint] = (*names[joint], *(r for r in ROTATIONS if r not in names[joint]))
    # Joints that leave their offset, in their parent's frame, along an axis that has no channel
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
    for joint in need:
        names[joint] = (*POSITIONS, *(n for n in names[joint] if n not in POSITIONS))
    return tuple(names)


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
        for slot in range(3):
            if layout.columns[joint, slot] != NONE:
                table[:, layout.columns[joint, slot]] = angles[:, joint, slot]
        # Positions of a joint that has channels for them, in its parent's frame; near values of the file itself stay
        columns = layout.positions[joint]
        if (columns == NONE).all():
            continue
        track = _position_track(motion, joint)
        offset = motion.skeleton.offsets[joint]
        up = source.up if source else "+y"
        local = to_file(np.broadcast_to(offset, (len(table), 3)) if track is None else track, up) / metres
        if joint and source is not None and source.layout.get("positions") == "relative":
            local = local - _own_offsets(motion, source, metres)[joint]
        if own is not None and source is not None and metres == source.metres_per_unit:
            read = channels_to_positions(own, layout, joint, to_file(offset, up) / metres)
            near = np.abs(read - local).max(axis=1, keepdims=True) * metres < SAME_POSITION
            local = np.where(near, read, local)
        for axis in range(3):
            if columns[axis] != NONE:
                table[:, columns[axis]] = local[:, axis]
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
    wxyz = np.ascontiguousarray(rotate_wxyz(motion.rotations.wxyz, source.up if source else "+y", back=True))
    own = _own_channels(motion, source, layout)
    given = np.zeros((1, wxyz.shape[1], 3))
    if own is not None:
        padded = np.concatenate([own, np.zeros((len(own), 1))], axis=1)  # column NONE is the last one: zero
        given = np.ascontiguousarray(padded[:, layout.columns])
    # Missing axes are filled in, so that every row is an order of 0, 1, 2
    axes = layout.axes.copy()
    for row in axes:
        missing = [a for a in range(len(AXES)) if a not in row]
        for slot in np.flatnonzero(row == NONE):
            row[slot] = missing.pop(0)
    return decompose_euler(wxyz, axes, given, own is not None)


DEFAULT_UNIT: Final = "cm"  # what most programs take a BVH to be in
DEEPEST_INDENT: Final = 40  # tabs; deeper joints are not indented further, so a long chain stays a small file
DECIMALS: Final = 7  # of angles, and of lengths in units shorter than a metre


@dataclass(frozen=True, slots=True, eq=False)
class BvhPlan:
    """How a motion is laid out in the file; joints are numbered as in the motion."""

    names: tuple[str, ...]
    order: tuple[int, ...]  # (J,) joints as the file lists them: depth first
    channels: tuple[tuple[str, ...], ...]  # (J,)
    offsets: FloatArray  # (J, 3) file units and axes
    sites: dict[int, list[FloatArray]]  # end sites by joint
    frame_time: str
    decimals: int


def write_bvh(motion: Motion, path: str | os.PathLike[str], *, unit: str | None = None, root: str = "hips") -> None:
    """Write a BVH file.

    A motion that was read from a BVH is written with the file's own nodes, names, channels, axes and unit; frames
    that were not changed get their own channel values back, and rows left out by the reader return.
    Any other motion is written in centimetres, Y up, with ``Zrotation Yrotation Xrotation``.

    Args:
        motion: what to write.
        path: the file.
        unit: unit of length (``m``, ``cm``, ``mm``, ``inch``, ``cmu``, ``dm``) if not the file's own or centimetres.
        root: where the root motion goes: ``"hips"``, ``"bone"`` or ``"in-place"``.
    """
    motion = (
        restore_scene(motion) if root == "hips" else place_root(motion, root)
    )  # the file has its own nodes above the hips
    skeleton, source = motion.skeleton, motion.source
    # A source counts if it describes a BVH with this motion's joints
    if source is not None and (source.format != "bvh" or len(source.layout.get("names") or ()) != skeleton.num_joints):
        source = None
    metres = unit_in_metres(unit) if unit else source.metres_per_unit if source else unit_in_metres(DEFAULT_UNIT)
    frame_time = repr(1.0 / motion.rate_hz)
    if source and source.layout.get("rate_hz") == motion.rate_hz:
        frame_time = str(source.layout.get("frame_time") or frame_time)
    names = cast(Sequence[str], source.layout["names"]) if source else skeleton.names
    # Joints as the file lists them: each branch to its end before the next begins
    children: dict[int, list[int]] = {}
    for joint in range(len(skeleton.parents) - 1, 0, -1):
        children.setdefault(int(skeleton.parents[joint]), []).append(joint)
    order: list[int] = []
    stack = [0]
    while stack:
        order.append(stack.pop())
        stack.extend(children.get(order[-1], ()))
    # End sites: those of the file, else one for each leaf and each tip
    tips = motion.skeleton.tips / metres
    if source is None:
        has_child = np.isin(np.arange(len(tips)), motion.skeleton.parents)
        sites = {j: [tips[j]] for j in np.flatnonzero(~has_child | tips.any(axis=1)).tolist()}
    else:
        tips = to_file(tips, source.up)
        ratio = source.metres_per_unit / metres
        sites: dict[int, list[FloatArray]] = {}
        for joint, offset in cast(Sequence[tuple[int, Any]], source.layout.get("end_sites", ())):
            own: FloatArray = np.asarray(offset, dtype=np.float64) * ratio
            sites[joint] = [*sites[joint], own] if joint in sites else [tips[joint]]
    plan = BvhPlan(
        tuple(re.sub(r"[\s{}]+", " ", name).strip() or skeleton.names[j] for j, name in enumerate(names)),
        tuple(order),
        choose_channels(motion, source),
        _own_offsets(motion, source, metres),
        sites,
        frame_time,
        DECIMALS + 2 if metres >= 1.0 else DECIMALS,
    )
    table = build_channel_table(motion, source, plan.channels, metres)
    # Columns of the motion's joints, one after the other, as the depth-first file lists them
    stops = list(accumulate(len(channels) for channels in plan.channels))
    columns = [c for j in plan.order for c in range(stops[j] - len(plan.channels[j]), stops[j])]
    rows = np.ascontiguousarray(table[:, columns])
    head = "\n".join([*_hierarchy(motion, plan), "MOTION", f"Frames: {len(rows)}", f"Frame Time: {plan.frame_time}\n"])
    Path(path).write_bytes(head.encode() + format_numbers(rows, plan.decimals))


def _own_offsets(motion: Motion, source: Source | None, metres: float) -> FloatArray:
    """Offsets ``(J, 3)`` in file units and axes: the file's own where its frames have other bone lengths."""
    if source is None:
        return motion.skeleton.offsets / metres
    own = source.layout.get("offsets")
    if own is not None and source.channels is not None:
        return np.asarray(own, dtype=np.float64) * (source.metres_per_unit / metres)
    return to_file(motion.skeleton.offsets, source.up) / metres


def _hierarchy(motion: Motion, plan: BvhPlan) -> list[str]:
    parents = motion.skeleton.parents
    tabs = ["\t" * min(depth, DEEPEST_INDENT) for depth in range(len(parents) + 2)]
    lines = ["HIERARCHY"]
    depths = np.zeros(len(parents), dtype=np.int64)
    open_braces = 0
    for joint in plan.order:
        depth = int(depths[parents[joint]]) + 1 if joint else 0
        depths[joint] = depth
        # Close the joints that are no ancestors, then open this one
        lines += [tabs[level] + "}" for level in range(open_braces - 1, depth - 1, -1)]
        open_braces = depth + 1
        tab, inner = tabs[depth], tabs[depth + 1]
        channels = plan.channels[joint]
        lines += [f"{tab}{'JOINT' if depth else 'ROOT'} {plan.names[joint]}", f"{tab}{{"]
        vectors = [plan.offsets[joint], *plan.sites.get(joint, ())]
        offset, *sites = (format_numbers(np.asarray(v)[None], plan.decimals).decode().strip() for v in vectors)
        lines.append(f"{inner}OFFSET {offset}")
        lines.append(f"{inner}CHANNELS {len(channels)} {' '.join(channels)}".rstrip())
        for site in sites:
            lines += [f"{inner}End Site", f"{inner}{{", f"{inner}\tOFFSET {site}", f"{inner}}}"]
    return lines + [tabs[level] + "}" for level in range(open_braces - 1, -1, -1)]
