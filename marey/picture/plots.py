"""Curves over time: joint angles, contacts, speed, and the validity of a motion.

Plain matplotlib figures without global state.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, save_figure
from marey.motion import Motion, contact_positions, find_runs, root_speeds
from marey.picture.bodies import contacts_or_detect
from marey.picture.motions import ground_level
from marey.skeleton import ROLES, contact_points, role_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Axes = Any  # matplotlib.axes.Axes, most of whose methods take untyped options

LEFT, RIGHT, MIDDLE = "#3f78b0", "#d08232", "#59626c"  # display colours of the two sides and the trunk
LIMBS: Final = ("hip", "knee", "ankle", "shoulder", "elbow")  # shown when no joints are named
DPI: Final = 150


def plot_angles(
    motion: Motion, path: str | os.PathLike[str] | None = None, joints: Sequence[str] | None = None
) -> Figure:
    r"""Rotation angle of joints over time [deg]: :math:`\|\log R_{parent,joint}\|`, one line a joint.

    Args:
        motion: the clip.
        path: where to save the figure (.png, .pdf, .svg, .jpg); not saved if None.
        joints: names of joints or canonical roles; hips, knees, ankles, shoulders and elbows by default, left and
            right of each in one panel. Named joints share one panel.

    Raises:
        UnknownNameError: the skeleton has no such joint or role.
    """
    roles, skeleton = role_map(motion.skeleton), motion.skeleton
    if joints is None:
        # Left and right of each limb joint that the skeleton has; all joints if it has none of them.
        pairs = {limb: [(r, roles[r]) for r in (f"left_{limb}", f"right_{limb}") if r in roles] for limb in LIMBS}
        found = {limb: pair for limb, pair in pairs.items() if pair}
        panels = found or {"": [(name, j) for j, name in enumerate(skeleton.names)]}
    else:
        # Numbers of joints, by their own names or by their roles.
        by_role = [name not in skeleton.names and name in ROLES for name in joints]
        numbers = [roles[n] if role else skeleton.index(n) for n, role in zip(joints, by_role, strict=True)]
        panels = {"": list(zip(joints, numbers, strict=True))}
    if not any(panels.values()):
        raise InputError("no joint to plot", "Name at least one")
    figure, axes = _make_panels(len(panels), 1.5)
    angles, times = np.rad2deg(motion.rotations.angle()), motion.times()
    for axis, (title, members) in zip(axes, panels.items(), strict=True):
        for i, (name, joint) in enumerate(members):
            _draw_curve(axis, times, angles[:, joint], name, _side_colour(name) if joints is None else f"C{i % 10}")
        _label_axis(axis, f"{title} [°]".strip())
    return _finish_figure(figure, axes[-1], motion, path)


def plot_contacts(motion: Motion, path: str | os.PathLike[str] | None = None) -> Figure:
    """Which points touch the ground over time, how high they are [cm] and how fast [m/s].

    The first panel has a bar for each contact; the next two have a line for each point of a foot, thick while it
    touches. Heights are above the ground on which the drawn body stands. Contacts are detected if the clip has none.
    """
    contacts = contacts_or_detect(motion)
    figure, axes = _make_panels(3, 1.7)
    # One row a contact point, a bar from the first to after the last frame of each contact.
    bar_axis, rate_hz, times = axes[0], motion.rate_hz, motion.times()
    for k, name in enumerate(contacts.names):
        bars = [(first / rate_hz, (last - first) / rate_hz) for first, last in find_runs(contacts.active[:, k])]
        bar_axis.broken_barh(bars, (k - 0.36, 0.72), facecolors=_side_colour(name), label=name)
    bar_axis.set_yticks(range(len(contacts.names)), [name.replace("_", " ") for name in contacts.names], fontsize=8)
    bar_axis.set_ylim(len(contacts.names) - 0.4, -0.6)
    # Heights, and speeds by central differences, of the points (F, K); a line is thick while its point touches.
    places = contact_positions(motion)
    heights, speeds = 100.0 * (places[..., 1] - ground_level(motion, contacts)), np.zeros(places.shape[:2])
    if motion.num_frames > 1:
        speeds = np.linalg.norm(np.gradient(places, axis=0), axis=-1) * motion.rate_hz
    for axis, values, unit in ((axes[1], heights, "height [cm]"), (axes[2], speeds, "speed [m/s]")):
        for k, name in enumerate(contact_points(motion.skeleton).names):
            if not name.endswith("_hand"):
                style = "-" if name.endswith("_heel") else "--"
                _draw_curve(axis, times, values[:, k], name, _side_colour(name), style=style, width=0.8)
                if name in contacts.names:
                    touching = np.where(contacts.track(name), values[:, k], np.nan)
                    _draw_curve(axis, times, touching, "", _side_colour(name), style=style, width=2.2)
        _label_axis(axis, unit)
    return _finish_figure(figure, axes[-1], motion, path)


def plot_speed(motion: Motion, path: str | os.PathLike[str] | None = None) -> Figure:
    """Horizontal speed [m/s] and height [m] of the root over time."""
    figure, axes = _make_panels(2, 1.8)
    _draw_curve(axes[0], motion.times(), root_speeds(motion), "root", MIDDLE)
    _draw_curve(axes[1], motion.times(), motion.root_positions[:, 1], "root", MIDDLE)
    _label_axis(axes[0], "speed [m/s]")
    _label_axis(axes[1], "height [m]")
    return _finish_figure(figure, axes[-1], motion, path)


def _side_colour(name: str) -> str:
    return LEFT if name.startswith("left_") else RIGHT if name.startswith("right_") else MIDDLE


def _draw_curve(
    axis: Axes, times: FloatArray, values: FloatArray, name: str, colour: str, *, style: str = "-", width: float = 1.3
) -> None:
    axis.plot(times, values, color=colour, label=name.replace("_", " ") or "_", linewidth=width, linestyle=style)


def _make_panels(count: int, height_in: float) -> tuple[Figure, list[Axes]]:
    """Panels one above the other over a common time axis."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(8.0, 0.7 + height_in * count), dpi=DPI, layout="constrained")
    return figure, list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def _label_axis(axis: Axes, ylabel: str) -> None:
    axis.set_ylabel(ylabel, fontsize=9)
    if len(axis.get_legend_handles_labels()[0]) <= 12:
        _add_legend(axis)


def _add_legend(axis: Axes) -> None:
    axis.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 0.97), borderaxespad=0.0, frameon=False, ncols=12)


def _style_axis(axis: Axes) -> None:
    axis.grid(visible=True, color="#e6e8eb", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _finish_figure(figure: Figure, last: Axes, motion: Motion, path: str | os.PathLike[str] | None) -> Figure:
    for axis in cast(list[Axes], figure.axes):
        _style_axis(axis)
    last.set_xlabel("time [s]", fontsize=9)
    last.set_xlim(0.0, max(motion.duration_s, 1.0 / motion.rate_hz))
    cast(Any, figure).suptitle(motion.name, fontsize=10)
    if path is not None:
        save_figure(figure, path)
    return figure


SPAN_COLOURS: Final = {"green": "#4f9d69", "amber": "#e3a83b", "red": "#c8453c"}
MEASURED: Final = "#1c2126"
LABEL_SHARE: Final = 0.07  # [-] of the clip; shorter intervals get no label
HEIGHTS: Final = (0.55, 1.6, 1.2, 1.2, 1.3)


@dataclass(frozen=True, slots=True, eq=False)
class PhysicsCurves:
    """What a picture of a validity report shows, as plain data."""

    name: str
    title: str  # one sentence above the picture
    times: FloatArray  # (F,) [s]
    spans: tuple[tuple[float, float, str, str], ...]  # start and end [s], colour, word
    forces: FloatArray  # (F, 3) [body weights] that the motion needs: x, up, z
    left: FloatArray  # (F,) [body weights] upwards by the left foot
    right: FloatArray  # (F,)
    violation: FloatArray  # (F,) [body weights]
    tolerance: float
    friction_margin: FloatArray  # (F,) [body weights]
    balance_margin: FloatArray  # (F,) [m]
    flight: BoolArray  # (F,) nothing touches
    measured: FloatArray | None = None  # (F, 3) [body weights] by force plates
    is_measured: BoolArray | None = None  # (F,) where they carry the whole body


def plot_physics(curves: PhysicsCurves, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the coloured bar of a motion over its forces, margins and what is missing.

    Args:
        curves: what to draw.
        path: where to save the figure (.png, .pdf, .svg, .jpg); not saved if None.
    """
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9.0, 1.2 + sum(HEIGHTS)), dpi=DPI, layout="constrained")
    axes = list(figure.subplots(5, 1, sharex=True, gridspec_kw={"height_ratios": HEIGHTS}))
    # The timeline: one coloured stretch a span, with its cause where there is room
    bar, total = axes[0], max(float(curves.times[-1] - curves.times[0]), 1e-9)
    for start, stop, colour, word in curves.spans:
        bar.axvspan(start, stop, color=SPAN_COLOURS[colour], linewidth=0.0)
        if word and (stop - start) > LABEL_SHARE * total:
            middle = 0.5 * (start + min(stop, float(curves.times[-1])))
            bar.text(middle, 0.5, word, ha="center", va="center", fontsize=7, color="white", clip_on=True)
    bar.set_ylim(0.0, 1.0)
    bar.set_yticks([])
    bar.set_ylabel("valid", fontsize=9)
    bar.spines[["top", "right", "left", "bottom"]].set_visible(False)
    bar.tick_params(bottom=False)
    up = axes[1]
    up.axhline(1.0, color="#b6bcc4", linewidth=0.7, linestyle=":")
    up.plot(curves.times, curves.forces[:, 1], color=MIDDLE, linewidth=2.6, alpha=0.55, label="needed")
    up.plot(curves.times, curves.left, color=LEFT, linewidth=1.0, label="left foot")
    up.plot(curves.times, curves.right, color=RIGHT, linewidth=1.0, label="right foot")
    if curves.measured is not None:
        up.plot(curves.times, _mask_curve(curves, 1), color=MEASURED, linewidth=1.2, linestyle="--", label="measured")
    up.set_ylabel("up [body weights]", fontsize=8)
    level = axes[2]
    for k, colour, name in ((0, "#7a5ea8", "along x"), (2, "#3f9b8f", "along z")):
        level.plot(curves.times, curves.forces[:, k], color=colour, linewidth=1.2, label=name)
        if curves.measured is not None:
            level.plot(curves.times, _mask_curve(curves, k), color=colour, linewidth=1.0, linestyle="--")
    level.set_ylabel("level [bw]", fontsize=8)
    margins = axes[3]
    margins.axhline(0.0, color="#9aa2ab", linewidth=0.8)
    margins.plot(curves.times, curves.friction_margin, color="#a2603c", linewidth=1.2, label="friction left [bw]")
    margins.plot(curves.times, 10.0 * curves.balance_margin, color="#2f6f8f", linewidth=1.2, label="balance [dm]")
    margins.set_ylim(-1.5, 1.5)
    margins.set_ylabel("margins", fontsize=8)
    missing = axes[4]
    missing.axhspan(0.0, curves.tolerance, color=SPAN_COLOURS["green"], alpha=0.15, linewidth=0.0)
    missing.fill_between(curves.times, 0.0, curves.violation, color=SPAN_COLOURS["red"], alpha=0.45, linewidth=0.0)
    missing.plot(curves.times, curves.violation, color=SPAN_COLOURS["red"], linewidth=1.1, label="counted as missing")
    missing.set_ylim(0.0, max(3.0 * curves.tolerance, 1.05 * float(np.percentile(curves.violation, 99.0))))
    missing.set_ylabel("missing [bw]", fontsize=8)
    for axis in axes[1:]:
        # Grid, legend and a grey ground where nothing touches
        _style_axis(axis)
        low, high = axis.get_ylim()
        axis.fill_between(curves.times, low, high, where=curves.flight, color="#eef1f4", linewidth=0.0, zorder=0)
        axis.set_ylim(low, high)
        _add_legend(axis)
    axes[-1].set_xlabel("time [s]", fontsize=9)
    axes[-1].set_xlim(float(curves.times[0]), float(curves.times[-1]))
    figure.suptitle(curves.title, fontsize=9, wrap=True)
    if path is not None:
        save_figure(cast("Figure", figure), path)
    return cast("Figure", figure)


def _mask_curve(curves: PhysicsCurves, k: int) -> FloatArray:
    assert curves.measured is not None
    shown = np.ones(len(curves.times), dtype=np.bool_) if curves.is_measured is None else curves.is_measured
    return np.where(shown, curves.measured[:, k], np.nan)
