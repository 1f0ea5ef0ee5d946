"""BVH writer: gives the file back that was read, and writes any other motion in the plainest dialect."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.io._axes import to_file
from marey.io._bvh_channels import build_channel_table, choose_channels
from marey.io._units import unit_in_metres
from marey.motion import Motion, Source

DEFAULT_UNIT: Final = "cm"  # what most programs take a BVH to be in
DEEPEST_INDENT: Final = 40  # tabs; deeper joints are not indented further, so a long chain stays a small file
DECIMALS: Final = 7  # of angles, and of lengths in units shorter than a metre
WIDEST: Final = 1e9  # [deg or unit] largest value written


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


def write_bvh(motion: Motion, path: str | os.PathLike[str], *, unit: str | None = None) -> None:
    """Write a BVH file.

    A motion that was read from a BVH is written with the file's own names, channels, axes and unit; frames
    that were not changed get their own channel values back, and rows left out by the reader return.
    Any other motion is written in centimetres, Y up, with ``Zrotation Yrotation Xrotation``.

    Args:
        motion: what to write.
        path: the file.
        unit: unit of length (``m``, ``cm``, ``mm``, ``inch``, ``cmu``) other than the file's own or centimetres.
    """
    source = motion.source if motion.source is not None and _is_matching_source(motion.source, motion) else None
    metres = unit_in_metres(unit) if unit else source.metres_per_unit if source else unit_in_metres(DEFAULT_UNIT)
    plan = _plan_layout(motion, source, metres)
    table = build_channel_table(motion, source, plan.channels, metres)
    rows = _in_file_order(table, plan)
    head = "\n".join([*_hierarchy(motion, plan), "MOTION", f"Frames: {len(rows)}", f"Frame Time: {plan.frame_time}\n"])
    Path(path).write_bytes(head.encode() + _format_table(rows, plan.decimals))


def _is_matching_source(source: Source, motion: Motion) -> bool:
    """Whether the source describes a BVH with this motion's joints."""
    names = source.layout.get("names")
    return source.format == "bvh" and names is not None and len(names) == motion.skeleton.num_joints


def _plan_layout(motion: Motion, source: Source | None, metres: float) -> BvhPlan:
    skeleton = motion.skeleton
    up = source.up if source else "+y"
    names = cast(Sequence[str], source.layout["names"]) if source else skeleton.names
    return BvhPlan(
        tuple(_clean_name(name) or skeleton.names[j] for j, name in enumerate(names)),
        _depth_first(skeleton.parents),
        choose_channels(motion, source),
        to_file(skeleton.offsets, up) / metres,
        _end_sites(motion, source, metres),
        _frame_time(motion.rate_hz, source),
        DECIMALS + 2 if metres >= 1.0 else DECIMALS,
    )


def _clean_name(name: str) -> str:
    return re.sub(r"[\s{}]+", " ", name).strip()


def _depth_first(parents: IntArray) -> tuple[int, ...]:
    children: dict[int, list[int]] = {}
    for joint in range(len(parents) - 1, 0, -1):
        children.setdefault(int(parents[joint]), []).append(joint)
    order: list[int] = []
    stack = [0]
    while stack:
        order.append(stack.pop())
        stack.extend(children.get(order[-1], ()))
    return tuple(order)


def _end_sites(motion: Motion, source: Source | None, metres: float) -> dict[int, list[FloatArray]]:
    """End sites: those of the file, else one for each leaf and each tip."""
    tips = motion.skeleton.tips / metres
    if source is None:
        has_child = np.isin(np.arange(len(tips)), motion.skeleton.parents)
        return {j: [tips[j]] for j in np.flatnonzero(~has_child | tips.any(axis=1)).tolist()}
    tips = to_file(tips, source.up)
    ratio = source.metres_per_unit / metres
    sites: dict[int, list[FloatArray]] = {}
    for joint, offset in cast(Sequence[tuple[int, Any]], source.layout.get("end_sites", ())):
        own: FloatArray = np.asarray(offset, dtype=np.float64) * ratio
        sites[joint] = [*sites[joint], own] if joint in sites else [tips[joint]]
    return sites


def _frame_time(rate_hz: float, source: Source | None) -> str:
    text = source.layout.get("frame_time") if source else None
    if text and source and source.layout.get("rate_hz") == rate_hz:
        return str(text)
    return repr(1.0 / rate_hz)


def _hierarchy(motion: Motion, plan: BvhPlan) -> list[str]:
    parents = motion.skeleton.parents
    lines = ["HIERARCHY"]
    depths = np.zeros(len(parents), dtype=np.int64)
    open_braces = 0
    for joint in plan.order:
        depths[joint] = depths[parents[joint]] + 1 if joint else 0
        lines += _close_braces(open_braces, int(depths[joint]))
        open_braces = int(depths[joint]) + 1
        lines += _joint_lines(plan, joint, int(depths[joint]))
    return lines + _close_braces(open_braces, 0)


def _close_braces(have: int, want: int) -> list[str]:
    return [_tabs(depth) + "}" for depth in range(have - 1, want - 1, -1)]


def _joint_lines(plan: BvhPlan, joint: int, depth: int) -> list[str]:
    tab, inner = _tabs(depth), _tabs(depth + 1)
    channels = plan.channels[joint]
    lines = [f"{tab}{'JOINT' if depth else 'ROOT'} {plan.names[joint]}", f"{tab}{{"]
    lines.append(f"{inner}OFFSET {_numbers(plan.offsets[joint], plan.decimals)}")
    lines.append(f"{inner}CHANNELS {len(channels)} {' '.join(channels)}".rstrip())
    for offset in plan.sites.get(joint, ()):
        lines += [f"{inner}End Site", f"{inner}{{"]
        lines += [f"{inner}\tOFFSET {_numbers(offset, plan.decimals)}", f"{inner}}}"]
    return lines


def _tabs(depth: int) -> str:
    return "\t" * min(depth, DEEPEST_INDENT)


def _numbers(values: FloatArray, decimals: int) -> str:
    return _format_table(np.asarray(values)[None], decimals).decode().strip()


def _in_file_order(table: FloatArray, plan: BvhPlan) -> FloatArray:
    """Columns of the motion's joints, one after the other, as the depth-first file lists them."""
    stops = list(accumulate(len(channels) for channels in plan.channels))
    columns = [c for j in plan.order for c in range(stops[j] - len(plan.channels[j]), stops[j])]
    return np.ascontiguousarray(table[:, columns])


def _format_table(rows: FloatArray, decimals: int) -> bytes:
    from marey.io._text_write_kernels import format_table

    if rows.size and not np.abs(rows).max() <= WIDEST:
        raise InputError(f"a value of {np.abs(rows).max():g} is too large for a BVH file", "Check the motion's unit")
    out = np.empty(24 * rows.size, dtype=np.uint8)
    return out[: format_table(rows, decimals, out)].tobytes()
