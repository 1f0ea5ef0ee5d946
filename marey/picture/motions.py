"""One or several motions in one picture: from where to look at them, by which light."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError
from marey.io import Character, pose_vertices
from marey.motion import Contacts, Motion, contact_positions, headings
from marey.picture.bodies import (
    PALETTES,
    CharacterLike,
    Figure,
    Palette,
    contacts_or_detect,
    draw_figures,
    find_character,
    foot_prints,
    place_capsules,
    root_path,
)
from marey.picture.capsules import Image
from marey.picture.scene import (
    GroundMarks,
    GroundPattern,
    Light,
    Margins,
    PinholeCamera,
    RenderScene,
    TriangleMesh,
    frame_balls,
    linear_from_srgb,
    view_axes,
    view_direction,
)
from marey.picture.triangles import render
from marey.picture.worlds import Scenery, build_scenery, find_steps, place_objects
from marey.skeleton import contact_points
from marey.world import Sketch, World

TRAVEL_M: Final = 0.6  # [m] a root that goes farther shows where the motion heads
MIN_BODY_SPACING: Final = 0.22  # [-] of the body's height: bodies nearer than this hide one another
SWAY_S: Final = 1.0  # [s] about a stride
BENT_PATH_FRACTION: Final = 0.4  # [-] a path wider than this share of its length is seen from higher up, as an area
MAX_SAMPLES: Final = 240  # frames looked at to find the ground
SOLE_PERCENT: Final = 65.0  # [%] above the middle: a sole that sinks by a centimetre is not seen, one that floats is
MESH_SAMPLES: Final = 24  # the same, of a character's mesh
LOW_PERCENT: Final = 5.0  # [%] of standing frames that may sink or float without being steps
STEP_SHARE: Final = 0.05  # [-] of the body's size: soles that differ more stand on steps
EVEN_SHARE: Final = 0.3  # [-] of time, the rest of movement, when instants are chosen by movement


def ground_level(motion: Motion, contacts: Contacts | None = None, *, character: Character | None = None) -> float:
    """Height [m] at which the drawn body stands: its usual lowest point while something touches the ground.

    This is where the ground must be drawn so that the soles of this body, with its own radii or its own mesh, touch
    it. Hands do not count, since they also hold bars. Where a clip climbs, its lowest steps tell. For a clip whose
    feet never touch it is the lowest point of all.
    """
    # Height (F,) of the lowest touching point that is no hand's; infinite where none touches.
    soles = np.full(motion.num_frames, np.inf)
    if contacts is not None:
        places = dict(
            zip(contact_points(motion.skeleton).names, np.moveaxis(contact_positions(motion), 1, 0), strict=True)
        )
        for name in contacts.names:
            if "hand" not in name:
                heights = places[name][:, 1] if name in places else motion.root_positions[:, 1]
                soles = np.where(contacts.track(name), np.minimum(soles, heights), soles)
    standing = np.isfinite(soles)
    # Where soles rest on several levels, those of the lowest are on the ground.
    if standing.any():
        low, high = np.percentile(soles[standing], [LOW_PERCENT, 100.0 - LOW_PERCENT])
        size = max(float(np.ptp(motion.skeleton.rest_positions(), axis=0).max()), 1e-3)
        if high - low > STEP_SHARE * size:
            standing &= soles < low + STEP_SHARE * size
    touching = np.flatnonzero(standing) if standing.any() else np.arange(motion.num_frames)
    samples = MAX_SAMPLES if character is None else MESH_SAMPLES
    frames = touching[np.unique(np.linspace(0, len(touching) - 1, samples).round().astype(np.int64))]
    if character is None:
        body, starts, ends = place_capsules(motion, frames)
        lowest = np.minimum(starts[..., 1] - body.start_radii, ends[..., 1] - body.end_radii).min(axis=1)
    else:
        lowest = pose_vertices(character, motion, frames)[..., 1].min(axis=1)
    return float(np.percentile(lowest, SOLE_PERCENT if standing.any() else 0.0))


def main_heading(motion: Motion) -> float:
    """Direction of the motion on the ground [rad], 0 = +Z, positive to +X.

    It is the long axis of the root's path, forwards; for a root that stays within ``TRAVEL_M``, the mean facing.
    """
    path = motion.root_positions[:, [0, 2]]
    axis, extent = _principal_axis(path)
    if extent < TRAVEL_M:
        facing = headings(motion)
        return float(np.arctan2(np.sin(facing).mean(), np.cos(facing).mean()))
    # The axis has no sense of its own: it points from the first place to the last.
    forwards = axis if axis @ (path[-1] - path[0]) >= 0.0 else -axis
    return float(np.arctan2(forwards[0], forwards[1]))


def path_bend(motion: Motion) -> float:
    """How wide the path of the root is, as a share of its length: 0 for a line, 1 for a circle."""
    path = motion.root_positions[:, [0, 2]]
    axis, extent = _principal_axis(path)
    return float(np.ptp(path @ np.array([-axis[1], axis[0]]))) / max(extent, 1e-9)


def _principal_axis(path: FloatArray) -> tuple[FloatArray, float]:
    """Unit direction ``(2,)`` in which points ``(N, 2)`` spread most, and how far they do [m]."""
    centred = path - path.mean(axis=0)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return axis, float(np.ptp(centred @ axis))


def is_travelling(motion: Motion, frames: IntArray) -> bool:
    """Whether the bodies at ``frames`` stand far enough from one another to be drawn where they were.

    On a nearly straight path, seen from its side, only the distance along it parts two bodies: a walk there and back
    does not count.
    """
    places = motion.root_positions[frames][:, [0, 2]]
    if len(places) < 2:
        return True
    if path_bend(motion) < BENT_PATH_FRACTION:
        places = places @ _principal_axis(motion.root_positions[:, [0, 2]])[0][:, None]
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)[np.triu_indices(len(places), 1)]
    # The size of the rest pose [m] is the scale for distances.
    size = max(float(np.ptp(motion.skeleton.rest_positions(), axis=0).max()), 1e-3)
    return bool(gaps.min() >= MIN_BODY_SPACING * size)


def strip_frames(motion: Motion, count: int, *, by_movement: bool) -> IntArray:
    """Frames at which a strip shows a motion, from the first to the last.

    They are evenly spaced in time or, ``by_movement``, in a mixture of time and distance gone by all joints, so
    that a jump after a long wait is shown rather than the wait.
    """
    steps = np.full(motion.num_frames - 1, 1.0 / max(motion.num_frames - 1, 1))
    if by_movement and motion.num_frames > 2:
        moved = np.linalg.norm(np.diff(motion.joint_positions(), axis=0), axis=-1).mean(axis=1)
        if moved.sum() > 0.0:
            steps = EVEN_SHARE * steps + (1.0 - EVEN_SHARE) * moved / moved.sum()
    # Frames at equal shares of what has gone by.
    gone = np.concatenate([[0.0], np.cumsum(steps)])
    wanted = np.linspace(0.0, float(gone[-1]), count)
    return np.unique(np.interp(wanted, gone, np.arange(motion.num_frames)).round().astype(np.int64))


def smooth_camera_path(motion: Motion) -> FloatArray:
    """Way of a camera that follows a motion ``(F, 3)`` [m]: the root's, level, without the sway of single steps.

    A centred mean over ``SWAY_S``, continued past both ends by a point reflection, so that a straight way stays so.
    """
    level = motion.root_positions * [1.0, 0.0, 1.0]
    half = round(0.5 * SWAY_S * motion.rate_hz)
    if half < 1 or motion.num_frames < 3:
        return level
    # A mean by differences of sums, over a way continued by point reflection at both ends.
    half = min(half, motion.num_frames - 1)
    longer = np.pad(level, ((half, half), (0, 0)), mode="reflect", reflect_type="odd")
    sums = np.cumsum(np.concatenate([np.zeros((1, 3)), longer]), axis=0)
    return (sums[2 * half + 1 :] - sums[: -2 * half - 1]) / (2 * half + 1)


def make_light(direction: FloatArray) -> Light:
    """A lamp behind the camera's left shoulder, so that shadows fall to the right and away."""
    right, _, forward = view_axes(direction)
    level = np.array([forward[0], 0.0, forward[2]])
    return Light(-0.50 * right - 0.40 * level / max(float(np.linalg.norm(level)), 1e-9) + [0.0, 1.25, 0.0])


def ground_focus(points: FloatArray) -> FloatArray:
    """Ends ``(2, 2)`` [m] of the long middle line of the ground under some points ``(N, 3)`` [m]."""
    ground = points[:, [0, 2]]
    axis, middle = _principal_axis(ground)[0], ground.mean(axis=0)
    along = (ground - middle) @ axis
    return middle + np.outer([along.min(), along.max()], axis)


VIEWS: Final = {  # turn towards the front and height above the horizon [rad]
    "side": (np.deg2rad(8.0), np.deg2rad(12.0)),
    "three-quarter": (np.deg2rad(40.0), np.deg2rad(16.0)),
    "front": (np.deg2rad(82.0), np.deg2rad(12.0)),
    "top": (np.deg2rad(8.0), np.deg2rad(62.0)),
}
FOV_RAD: Final = np.deg2rad(24.0)
OLDEST_FADE: Final = 0.6  # [-] how pale the first of several bodies is
FADE_M: Final = (1.0, 4.5)  # [m] from the bodies, where the ground fades
PATH_COLOUR: Final = linear_from_srgb("#b6bdc6")


def render_motion(
    motion: Motion | Sequence[Motion],
    frames: int | Sequence[int] | ArrayLike,
    *,
    size: tuple[int, int] = (960, 540),
    threads: int = 1,
    **options: Any,
) -> Image:
    """Draw the bodies of one motion, or of several in different colours, at some frames: ``(H, W, 3)``.

    ``options`` are those of :func:`motion_scene`; ``threads`` is how many draw.
    """
    return render(motion_scene(motion, frames, size=size, **options), size, threads=threads)


def motion_scene(
    motion: Motion | Sequence[Motion],
    frames: int | Sequence[int] | ArrayLike,
    *,
    size: tuple[int, int] = (960, 540),
    camera: PinholeCamera | None = None,
    view: str = "three-quarter",
    palettes: Sequence[Palette] = PALETTES,
    spacing_m: float | None = None,
    prints: bool = True,
    world: World | Sketch | None = None,
    character: CharacterLike | None = None,
    body: str = "auto",
) -> RenderScene:
    """What :func:`render_motion` draws, as plain data.

    Args:
        motion: a clip, or clips to compare. Contacts are detected where a clip has none.
        frames: frame numbers, drawn in every clip; a shorter clip shows its last. Earlier bodies are paler.
        size: (width, height) of the picture.
        camera: from where; placed to see everything if not given.
        view: ``"side"``, ``"three-quarter"``, ``"front"`` or ``"top"`` of the first motion, if no camera is given.
        palettes: one for each motion, taken in turn.
        spacing_m: sets several motions this far apart, side by side across their direction [m]; 0 lays one over
            the other. 1.2 m by default.
        prints: draw foot plants and the path of the root.
        world: what stands around, drawn too; the ground is then at height 0.
        character: a character, or its file, on whose skeleton the motions are; by default that of each clip's own
            file, where it holds a skinned mesh.
        body: ``"capsules"`` for a plain body, ``"mesh"`` to insist on a character, ``"auto"``.
    """
    motions = [motion] if isinstance(motion, Motion) else list(motion)
    if not motions or not palettes:
        raise InputError("no motion or no palette to draw", "Give at least one of each")
    direction = named_view_direction(motions[0], view)
    heading = main_heading(motions[0])
    aside = (1.2 if spacing_m is None else spacing_m) * np.array([np.cos(heading), 0.0, -np.sin(heading)])
    scenery = Scenery() if world is None else build_scenery(world)
    figures, steps = list[Figure](), list[TriangleMesh](scenery.parts)
    marks, levels = [scenery.marks], list[float]()
    for i, clip in enumerate(motions):
        palette, move = palettes[i % len(palettes)], aside * i
        # Frame numbers as an array; negative ones count from the end, a shorter clip shows its last.
        chosen = np.minimum(np.atleast_1d(np.asarray(frames, dtype=np.int64)), clip.num_frames - 1)
        if chosen.ndim != 1 or not len(chosen):
            raise InputError("no frame to draw", "Give at least one frame number")
        outside = chosen < -clip.num_frames
        if outside.any():
            raise InputError(
                f"frame {chosen[outside][0]} of a motion of {clip.num_frames} frames",
                f"Frames go from 0 to {clip.num_frames - 1}",
            )
        chosen = np.where(chosen < 0, chosen + clip.num_frames, chosen)
        fades = np.linspace(OLDEST_FADE, 0.0, len(chosen)) if len(chosen) > 1 else 0.0
        contacts, mesh = contacts_or_detect(clip), find_character(clip, character, body)
        drawn = draw_figures(clip, chosen, palette, character=mesh, contacts=contacts, fades=fades)
        figures += [figure.moved(move) for figure in drawn]
        marks += [m.moved(move[[0, 2]]) for m in (make_traces(clip, palette) if prints else ())]
        levels.append(0.0 if world is not None else ground_level(clip, contacts, character=mesh))
        if world is None:
            steps.append(find_steps(clip, contacts, levels[-1], chosen).moved(move))
        else:
            steps += [thing.moved(move) for thing in place_objects(world, clip, chosen)]
    figure = Figure.join(figures)
    seen = camera or fit_camera(figure, direction, size)
    ground = GroundPattern(min(levels), focus=ground_focus(figure.balls()[0]), fade_m=FADE_M)
    mesh = TriangleMesh.join([figure.mesh, *steps])
    return RenderScene(
        seen, figure.solids, GroundMarks.join(marks), ground, make_light(direction), mesh=mesh, panes=scenery.panes
    )


def make_traces(motion: Motion, palette: Palette) -> tuple[GroundMarks, GroundMarks]:
    """The path of the root and the foot plants of a clip."""
    return root_path(motion, PATH_COLOUR), foot_prints(motion, contacts_or_detect(motion), palette)


def named_view_direction(motion: Motion, view: str) -> FloatArray:
    """Direction ``(3,)`` in which a named view looks at a motion."""
    if view not in VIEWS:
        raise UnknownNameError("view", view, "marey.picture", VIEWS)
    turn, elevation = VIEWS[view]
    return view_direction(main_heading(motion), turn_rad=turn, elevation_rad=elevation)


def fit_camera(figure: Figure, direction: FloatArray, size: tuple[int, int]) -> PinholeCamera:
    """Camera that sees all of some bodies."""
    margins = Margins(0.06 * size[0], 0.07 * size[1], 0.10 * size[1])
    return frame_balls(*figure.balls(), direction, size, fov_rad=FOV_RAD, margins=margins)
