"""Pictures of feasible sets: in angle space, and where the bone can point."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from marey.base import FloatArray, InputError, MissingFileError, save_figure
from marey.kinematics.limits.cones import compute_bone_frames
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.limits.sculpt import iso_mesh
from marey.lie import SO3
from marey.motion import Motion

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NODES = 41  # of each axis of the box in which the set is drawn
SURFACE_RAD = 0.03  # [rad] violation at which the surface is drawn: a hair outside, so that thin sets are seen
MARGIN_RAD = 0.35  # [rad] drawn around the set
LATITUDES, LONGITUDES = 90, 180  # of the sphere of directions
TWISTS, HALVINGS = 24, 6  # twists tried for a direction, and how often the step is halved around the best
SET_COLOUR, TRACK_COLOUR = "#5b8fc7", "#c2571a"
SUFFIXES = (".png", ".pdf", ".svg", ".jpg")


def plot_limits(
    limits: JointLimits,
    joints: Sequence[str],
    *,
    motion: Motion | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Feasible sets of joints: left in the space of rotation vectors, right where the bone points.

    Left, the surface of the set [deg] in the frame of the parent. Right, the sphere of directions, coloured by how far
    the nearest feasible twist is away. [Engell2012]_ figures 17 and 19.

    Args:
        limits: any kind.
        joints: names, a row each.
        motion: a clip to draw into the sets.
        path: where to save the figure (.png, .pdf, .svg, .jpg); not saved if None.
    """
    from matplotlib.figure import Figure

    if not joints:
        raise InputError("no joint to draw", "Name at least one")
    if path is not None and Path(path).suffix.lower() not in SUFFIXES:
        raise InputError(f"'{Path(path).name}' has no suffix that can be written", f"Use one of {', '.join(SUFFIXES)}")
    if path is not None and not Path(path).parent.is_dir():
        raise MissingFileError(str(Path(path).parent), "Make the folder first.")
    numbers = [limits.skeleton.index(name) for name in joints]
    figure = Figure(figsize=(9.0, 4.2 * len(numbers)), dpi=120, layout="constrained")
    for row, (name, joint) in enumerate(zip(joints, numbers, strict=True)):
        left, right = (cast(Any, figure.add_subplot(len(numbers), 2, 2 * row + i, projection="3d")) for i in (1, 2))
        track = None if motion is None else motion.rotations[:, motion.skeleton.index(name)]
        # Draw the feasible rotation vectors [deg] as a surface, and a track through them
        from matplotlib.colors import to_rgb
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection

        # The box around the feasible rotation vectors, found on a coarse grid
        side = np.linspace(-np.pi, np.pi, 33)
        coarse = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
        coarse = coarse[np.linalg.norm(coarse, axis=1) <= np.pi]
        violation = joint_violations(limits, joint, SO3.exp(coarse))
        inside = coarse[violation <= max(0.15, float(violation.min()) + 0.05)]
        low = np.maximum(inside.min(axis=0) - MARGIN_RAD, -np.pi)
        high = np.minimum(inside.max(axis=0) + MARGIN_RAD, np.pi)
        # The surface of the set in that box
        spacing = (high - low) / (NODES - 1)
        index = np.stack(np.meshgrid(*(np.arange(NODES),) * 3, indexing="ij"), axis=-1).reshape(-1, 3)
        vectors = low + spacing * index
        beyond = np.linalg.norm(vectors, axis=1) > np.pi
        values = np.where(beyond, 1.0, joint_violations(limits, joint, SO3.exp(vectors))).reshape((NODES,) * 3)
        mesh = iso_mesh(np.pad(values, 1, constant_values=1.0), low - spacing, spacing, SURFACE_RAD)
        corners = np.rad2deg(mesh.vertices)[mesh.faces]
        # Faces are lit from above
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.maximum(np.linalg.norm(normal, axis=1), 1e-12)
        light = 0.55 + 0.45 * (normal @ np.array([0.3, -0.5, 0.8])) / (length * np.linalg.norm([0.3, -0.5, 0.8]))
        colours = np.clip(np.clip(light, 0.2, 1.0)[:, None] * np.array(to_rgb(SET_COLOUR)) * 1.25, 0.0, 1.0)
        left.add_collection3d(Poly3DCollection(corners, facecolors=colours, alpha=0.35 if track else 0.9))
        if track is not None:
            left.plot(*np.rad2deg(track.log()).T, color=TRACK_COLOUR, linewidth=1.2)
        for set_limits, a, b in zip(
            (left.set_xlim, left.set_ylim, left.set_zlim), *np.rad2deg([low, high]), strict=True
        ):
            set_limits(a, b)
        left.set_box_aspect(high - low)
        _label(left)
        # Draw the sphere of bone directions, coloured by how far the nearest feasible twist is away
        from matplotlib import colormaps

        theta, phi = np.linspace(0.0, np.pi, LATITUDES), np.linspace(0.0, 2.0 * np.pi, LONGITUDES)
        rows = [np.outer(np.sin(theta), np.cos(phi)), np.outer(np.sin(theta), np.sin(phi))]
        sphere = np.stack([*rows, np.outer(np.cos(theta), np.ones_like(phi))], axis=-1)
        axis = compute_bone_frames(limits.skeleton)[joint] @ np.array([1.0, 0.0, 0.0])
        # The least violation over twists: tried all around, then with steps halved around the best
        swing = SO3.from_two_vectors(axis, sphere.reshape(-1, 3))
        best, twist, step = np.full(len(swing), np.inf), np.zeros(len(swing)), 2.0 * np.pi / TWISTS
        for shifts in [step * np.arange(TWISTS), *([-d, d] for d in 0.5 ** np.arange(1, HALVINGS) * step)]:
            start = twist.copy()
            for shift in shifts:
                tried = joint_violations(limits, joint, swing @ SO3.exp((start + shift)[:, None] * axis))
                twist, best = np.where(tried < best, start + shift, twist), np.minimum(best, tried)
        away = np.rad2deg(best).reshape(sphere.shape[:2])
        colours = cast(Any, colormaps["YlGnBu_r"])(np.clip(away / 60.0, 0.0, 1.0))
        colours[away <= np.rad2deg(SURFACE_RAD)] = (0.98, 0.83, 0.35, 1.0)
        right.plot_surface(
            *np.moveaxis(sphere, -1, 0), facecolors=colours, rcount=LATITUDES, ccount=LONGITUDES, shade=False
        )
        if track is not None:
            right.computed_zorder = False  # or the sphere is drawn over the path
            right.plot(*(1.02 * (track @ axis)).T, color=TRACK_COLOUR, linewidth=1.2, zorder=5)
        # Seen from the side of the feasible directions
        seen = sphere[away <= float(away.min()) + np.rad2deg(SURFACE_RAD)].mean(axis=0)
        right.view_init(
            elev=float(np.rad2deg(np.arctan2(seen[2], np.hypot(seen[0], seen[1])))) + 12.0,
            azim=float(np.rad2deg(np.arctan2(seen[1], seen[0]))) + 15.0,
        )
        right.set_box_aspect((1, 1, 1))
        _label(right)
        left.set_title(f"{name}: {limits.kind}, rotation vector [°]", fontsize=9)
        right.set_title(f"{name}: bone direction\nyellow feasible, dark to light 0 to 60° away", fontsize=9)
    if path is not None:
        save_figure(figure, path)
    return figure


def joint_violations(limits: JointLimits, joint: int, rotations: SO3) -> FloatArray:
    """Violation ``(N,)`` [rad] of one joint for rotations of a batch ``(N,)``; the other joints rest."""
    wxyz = SO3.identity(len(rotations), limits.skeleton.num_joints).wxyz.copy()
    wxyz[:, joint] = rotations.wxyz
    return limits.violations(SO3(wxyz))[:, joint]


def _label(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y"), (axes.zaxis, "z")):
        axis.set_major_locator(MaxNLocator(4))
        axis.set_label_text(name, fontsize=8)
    axes.tick_params(labelsize=7)
