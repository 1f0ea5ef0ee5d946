"""Pictures of a body whose muscles are coloured by their activation, and films of the reaching arm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, frozen
from marey.muscle.human.activations import MuscleTrack
from marey.muscle.human.arm_reach import ReachResult
from marey.muscle.muscles.spline import surface_of_mesh
from marey.muscle.scene.film import BoneTrack, Film, make_paint
from marey.picture import (
    CapsuleBatch,
    GroundMarks,
    GroundPattern,
    Image,
    Margins,
    Palette,
    RenderScene,
    body_solids,
    ground_level,
    linear_from_srgb,
    main_heading,
    make_light,
    render,
    save_image,
    view_direction,
)
from marey.picture import frame_balls as camera_on

REST_COLOUR: Final = linear_from_srgb("#7f8fa6")
ACTIVE_COLOUR: Final = linear_from_srgb("#d7301f")
BONE_PALETTE: Final = Palette(
    linear_from_srgb("#ece5d3"), linear_from_srgb("#ece5d3"), linear_from_srgb("#ece5d3"), linear_from_srgb("#ece5d3")
)
BONE_FRACTION: Final = 0.3  # [-] how thin the figure under its muscles is
RADIUS_PER_ROOT_N: Final = 0.00042  # [m/sqrt(N)] thickness of a belly
NUM_SPINDLE_PIECES: Final = 7  # of a spindle
GAP_M: Final = 0.65  # [m] between figures set side by side


def colour_activations(activations: FloatArray) -> FloatArray:
    """Linear RGB ``(..., 3)`` of activations: grey blue at rest, red at full work."""
    share = np.clip(frozen(activations, name="activations"), 0.0, 1.0)[..., None] ** 0.7
    return REST_COLOUR + share * (ACTIVE_COLOUR - REST_COLOUR)


def make_muscle_solids(track: MuscleTrack, frame: int) -> CapsuleBatch:
    """Spindles along the muscles at one frame, thick where short, coloured by activation."""
    if not -len(track.activations) <= frame < len(track.activations):
        raise InputError(f"frame {frame} of {len(track.activations)}", "Give a frame of the track")
    colours = colour_activations(track.activations[frame])
    longest = track.geometry.lengths.max(axis=0)
    shortened = longest / track.geometry.lengths[frame]
    parts = list[CapsuleBatch]()
    for muscle, points, colour, factor in zip(track.muscles, track.geometry.points, colours, shortened, strict=True):
        # Pieces of a spindle along the line (P, 3) of the muscle.
        line: FloatArray = points[frame]
        s: FloatArray = np.zeros(len(line))
        s[1:] = np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))
        even: FloatArray = np.linspace(0.0, float(s[-1]), NUM_SPINDLE_PIECES + 1)
        cuts = np.unique(np.concatenate([even, s]))
        places = np.stack([np.interp(cuts, s, line[:, k]) for k in range(3)], axis=1)
        belly = RADIUS_PER_ROOT_N * np.sqrt(muscle.largest_force_n * factor)
        radii = belly * (0.22 + 0.78 * np.maximum(np.sin(np.pi * cuts / s[-1]), 0.0) ** 1.5)
        own = np.tile(colour, (len(places) - 1, 1))
        parts.append(CapsuleBatch(places[:-1], places[1:], radii[:-1], radii[1:], own))
    return CapsuleBatch.join(parts)


def draw_muscle_strip(
    track: MuscleTrack, path: str | Path | None = None, *, count: int = 7, width: int = 1600, height: int = 560
) -> Image:
    """Draw figures with their muscles side by side, evenly in time: ``(H, W, 3)``; written if a path is given."""
    frames = np.linspace(0, len(track.activations) - 1, max(1, count)).round().astype(np.int64).tolist()
    size = (width, height)
    heading = main_heading(track.motion)
    along = np.array([np.sin(heading), 0.0, np.cos(heading)])
    floor = ground_level(track.motion, track.motion.contacts)
    parts = list[CapsuleBatch]()
    for i, frame in enumerate(frames):
        root = track.motion.root_positions[frame]
        move = i * GAP_M * along - np.array([root[0], floor, root[2]])
        figure = body_solids(track.motion, np.array([frame]), BONE_PALETTE)[0]
        thin = replace(
            figure, start_radii=BONE_FRACTION * figure.start_radii, end_radii=BONE_FRACTION * figure.end_radii
        )
        parts += [thin.moved(move), make_muscle_solids(track, frame).moved(move)]
    solids = CapsuleBatch.join(parts)
    look = view_direction(heading, turn_rad=np.deg2rad(12.0), elevation_rad=np.deg2rad(8.0))
    places = np.concatenate([solids.starts, solids.ends])
    radii = np.concatenate([solids.start_radii, solids.end_radii])
    margins = Margins(0.02 * size[0], 0.05 * size[1], 0.08 * size[1])
    camera = camera_on(places, radii, look, size, fov_rad=np.deg2rad(14.0), margins=margins)
    line = np.stack([np.zeros(2), ((len(frames) - 1) * GAP_M * along)[[0, 2]]])
    ground = GroundPattern(0.0, focus=line, fade_m=(0.6, 2.5))
    image = render(RenderScene(camera, solids, GroundMarks.none(), ground, make_light(look)), size)
    if path is not None:
        save_image(image, path)
    return image


BONE_RADII_M: Final = (0.016, 0.013)  # [m] radii of a drawn bone at its two ends
PAINT_REACH_M: Final = 0.045  # [m] how far the colour of a muscle reaches


def make_reach_film(found: ReachResult) -> Film:
    """What a soft arm did on its way from goal to goal."""
    system, states, muscles = found.system, found.control.states, found.system.body.muscles
    if muscles is None:
        raise InputError("a body without muscles", "Give muscles= when it is made")
    elbow, wrist = (
        found.shoulder + found.to_world * states[:, system.end_components(bone)] for bone in ("upper", "fore")
    )
    shoulder = np.broadcast_to(found.shoulder, elbow.shape)
    ends = np.stack([np.stack([shoulder, elbow], axis=1), np.stack([elbow, wrist], axis=1)], axis=1)
    activations = np.clip(np.concatenate([found.activations, found.activations[-1:]]), 0.0, 1.0)
    skin, middles = surface_of_mesh(system.body.mesh.surface), muscles.points()[muscles.arrays.segments].mean(axis=1)
    reaches = np.full(muscles.num_splines, PAINT_REACH_M)
    radii = np.tile(np.array(BONE_RADII_M), (ends.shape[1], 1))
    return Film(
        "arm",
        found.times,
        found.positions,
        np.stack([muscles.alphas(row) for row in activations]),
        skin,
        make_paint(skin.at(system.body.mesh.nodes), middles, np.asarray(muscles.owners), reaches),
        BoneTrack(tuple(system.body.bones.names), ends, radii, np.zeros((len(states), 0))),
    )
