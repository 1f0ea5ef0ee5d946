"""Curves over time: joint angles, contacts, speed. Plain matplotlib figures without global state."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from marey.base import FloatArray, InputError, MissingFileError
from marey.motion import Contacts, Motion, contact_positions, find_runs, root_speeds
from marey.picture._plants import contacts_or_detect
from marey.picture._views import ground_level
from marey.skeleton import ROLES, contact_points, role_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Axes = Any  # matplotlib.axes.Axes, most of whose methods take untyped options

LEFT, RIGHT, MIDDLE = "#3f78b0", "#d08232", "#59626c"  # display colours of the two sides and the trunk
LIMBS: Final = ("hip", "knee", "ankle", "shoulder", "elbow")  # shown when no joints are named
DPI: Final = 150
PLOT_SUFFIXES: Final = (".png", ".pdf", ".svg", ".jpg")


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
    panels = _choose_panels(motion) if joints is None else {"": [(name, _find_joint(motion, name)) for name in joints]}
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
    _draw_bars(axes[0], contacts, motion.rate_hz)
    heights = 100.0 * (contact_positions(motion)[..., 1] - ground_level(motion, contacts))
    for axis, values, unit in ((axes[1], heights, "height [cm]"), (axes[2], point_speeds(motion), "speed [m/s]")):
        for k, name in enumerate(contact_points(motion.skeleton).names):
            if not name.endswith("_hand"):
                _draw_track(axis, motion.times(), values[:, k], contacts, name)
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


def point_speeds(motion: Motion) -> FloatArray:
    """Speed ``(F, K)`` [m/s] of the contact points, by central differences."""
    if motion.num_frames < 2:
        return np.zeros((motion.num_frames, len(contact_points(motion.skeleton))))
    return np.linalg.norm(np.gradient(contact_positions(motion), axis=0), axis=-1) * motion.rate_hz


def _choose_panels(motion: Motion) -> dict[str, list[tuple[str, int]]]:
    """Left and right of each limb joint that the skeleton has; all joints if it has none of them."""
    roles = role_map(motion.skeleton)
    pairs = {limb: [(r, roles[r]) for r in (f"left_{limb}", f"right_{limb}") if r in roles] for limb in LIMBS}
    found = {limb: pair for limb, pair in pairs.items() if pair}
    return found or {"": [(name, j) for j, name in enumerate(motion.skeleton.names)]}


def _find_joint(motion: Motion, name: str) -> int:
    """Number of a joint, by its own name or by its role."""
    if name not in motion.skeleton.names and name in ROLES:
        return role_map(motion.skeleton)[name]
    return motion.skeleton.index(name)


def _side_colour(name: str) -> str:
    return LEFT if name.startswith("left_") else RIGHT if name.startswith("right_") else MIDDLE


def _draw_bars(axis: Axes, contacts: Contacts, rate_hz: float) -> None:
    """One row a contact point, a bar from the first to after the last frame of each contact."""
    for k, name in enumerate(contacts.names):
        bars = [(first / rate_hz, (last - first) / rate_hz) for first, last in find_runs(contacts.active[:, k])]
        axis.broken_barh(bars, (k - 0.36, 0.72), facecolors=_side_colour(name), label=name)
    axis.set_yticks(range(len(contacts.names)), [name.replace("_", " ") for name in contacts.names], fontsize=8)
    axis.set_ylim(len(contacts.names) - 0.4, -0.6)


def _draw_track(axis: Axes, times: FloatArray, values: FloatArray, contacts: Contacts, name: str) -> None:
    style = "-" if name.endswith("_heel") else "--"
    _draw_curve(axis, times, values, name, _side_colour(name), style=style, width=0.8)
    if name in contacts.names:
        touching = np.where(contacts.track(name), values, np.nan)
        _draw_curve(axis, times, touching, "", _side_colour(name), style=style, width=2.2)


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
        axis.legend(
            fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 0.97), borderaxespad=0.0, frameon=False, ncols=12
        )


def _finish_figure(figure: Figure, last: Axes, motion: Motion, path: str | os.PathLike[str] | None) -> Figure:
    for axis in cast(list[Axes], figure.axes):
        axis.grid(visible=True, color="#e6e8eb", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    last.set_xlabel("time [s]", fontsize=9)
    last.set_xlim(0.0, max(motion.duration_s, 1.0 / motion.rate_hz))
    cast(Any, figure).suptitle(motion.name, fontsize=10)
    if path is not None:
        save_figure(figure, path)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file of one of ``PLOT_SUFFIXES``."""
    path = Path(path)
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise InputError(f"'{path.name}' has no suffix that can be written", f"Use one of {', '.join(PLOT_SUFFIXES)}")
    if not path.parent.is_dir():
        raise MissingFileError(str(path.parent), "Make the folder first.")
    cast(Any, figure).savefig(path)
