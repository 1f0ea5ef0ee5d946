"""Marks of a sketch in the scene: corridor, path, footprints, paths found, a second body to compare, carried things."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import viser

from marey.base import FloatArray, IntArray
from marey.motion import find_runs
from marey.studio.document.page import ClipFrames, Float32
from marey.studio.document.sketch.forms import SketchState
from marey.studio.document.sketch.items import Point3, object_number
from marey.studio.view.clip import joint_part
from marey.world import Event, Path

if TYPE_CHECKING:
    from marey.graph import SearchSolution
    from marey.studio.document.sketch.synthesis import SynthesisJob


WAY_SAMPLES: Final = 160  # of the band; the number is fixed, so that only places are sent anew
BAND_Y_M, LINE_Y_M, MARK_Y_M = 0.006, 0.012, 0.016
FOLD: Final = 0.97  # points of the band's edge that are nearer to the way, as a share of its half width, lie in a fold
MAX_PRINTS: Final = 400
MIN_STANCE: Final = 2  # frames; shorter touches leave no print


def sample_path(path: Path) -> FloatArray:
    """Places ``(WAY_SAMPLES, 2)`` [m] along a way."""
    return path.point_at(np.linspace(0.0, path.length_m, WAY_SAMPLES))


def corridor_vertices(path: Path, width_m: float) -> Float32:
    """Vertices ``(2 WAY_SAMPLES, 3)`` of the corridor round a way: left and right edge by turns."""
    centre = sample_path(path)
    step = np.gradient(centre, axis=0)
    step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-9)
    left = np.stack([step[:, 1], -step[:, 0]], axis=1)
    sides = [_outside(centre + sign * 0.5 * width_m * left, centre, 0.5 * width_m) for sign in (1.0, -1.0)]
    return _on_ground(np.stack(sides, axis=1).reshape(-1, 2), BAND_Y_M)


def _outside(edge: FloatArray, centre: FloatArray, half_m: float) -> FloatArray:
    """An edge of the band without the folds on the inner side of bends: those points gather in the corner."""
    away = np.linalg.norm(edge[:, None] - centre[None], axis=2).min(axis=1)
    kept = np.flatnonzero(away >= FOLD * half_m)
    if len(kept) == 0:
        return edge
    nearest = kept[np.abs(np.arange(len(edge))[:, None] - kept[None]).argmin(axis=1)]
    return edge[nearest]


def corridor_faces() -> IntArray:
    """Triangles of the band."""
    i = 2 * np.arange(WAY_SAMPLES - 1)
    return np.concatenate([np.stack([i, i + 1, i + 2], axis=1), np.stack([i + 2, i + 1, i + 3], axis=1)])


def path_line(path: Path) -> Float32:
    """Segments ``(WAY_SAMPLES - 1, 2, 3)`` of a way."""
    places = _on_ground(sample_path(path), LINE_Y_M)
    return np.stack([places[:-1], places[1:]], axis=1)


def footprints(film: ClipFrames) -> tuple[FloatArray, FloatArray, list[str]]:
    """Where feet of a clip came down: places ``(N, 2)`` [m], headings ``(N,)`` [rad], sides."""
    rows = [row for side in ("left", "right") for row in _prints_of(film, side)][:MAX_PRINTS]
    places = np.array([place for place, _, _ in rows]).reshape(-1, 2)
    return places, np.array([heading for _, heading, _ in rows]), [side for _, _, side in rows]


def _prints_of(film: ClipFrames, side: str) -> list[tuple[FloatArray, float, str]]:
    """One print in the middle of each stance of the whole foot."""
    try:
        heel, toe = film.contact_names.index(f"{side}_heel"), film.contact_names.index(f"{side}_toe")
    except ValueError:
        return []
    down = film.contacts[:, heel] | film.contacts[:, toe]
    flat = film.contacts[:, heel] & film.contacts[:, toe]
    found: list[tuple[FloatArray, float, str]] = []
    for start, stop in find_runs(down, shortest=MIN_STANCE):
        best = np.flatnonzero(flat[start:stop])
        frame = start + (int(best[len(best) // 2]) if len(best) else (stop - start) // 2)
        back, front = film.contact_points[frame, heel], film.contact_points[frame, toe]
        along = (front - back)[[0, 2]].astype(np.float64)
        found.append((back[[0, 2]].astype(np.float64), float(np.arctan2(along[0], along[1])), side))
    return found


def arrow_mesh() -> tuple[Float32, IntArray]:
    """A flat arrow-head of unit length that points along +z, for a heading."""
    corners = [(0.0, 1.0), (0.38, 0.3), (0.0, 0.45), (-0.38, 0.3)]
    return _on_ground(np.array(corners), MARK_Y_M), np.array([[0, 1, 2], [0, 2, 3]])


def ring_mesh(corners: int = 48, width: float = 0.06) -> tuple[Float32, IntArray]:
    """A flat ring of unit radius, for how near is near enough."""
    angle = np.linspace(0.0, 2.0 * np.pi, corners, endpoint=False)
    rim = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    i, after = np.arange(corners), (np.arange(corners) + 1) % corners
    faces = np.concatenate(
        [np.stack([i, after, corners + i], axis=1), np.stack([corners + i, after, corners + after], axis=1)]
    )
    return _on_ground(np.concatenate([rim, (1.0 - width) * rim]), MARK_Y_M), faces


def _on_ground(places: FloatArray, y_m: float) -> Float32:
    return np.stack([places[:, 0], np.full(len(places), y_m), places[:, 1]], axis=1).astype(np.float32)


CORNERS: Final = 120  # of a line; the number is fixed, so that only places are sent anew
HEIGHT_M: Final = 0.02  # above everything else on the ground
BEST, BEFORE = (200, 110, 20), (205, 175, 140)


class SearchPathLines:
    """Owns its two lines; :meth:`draw` follows a search."""

    def __init__(self, scene: viser.SceneApi, root: str) -> None:
        flat = path_segments(np.zeros((2, 2)))
        self._before = scene.add_line_segments(f"{root}/found_before", points=flat, colors=BEFORE, thickness=0.03)
        self._best = scene.add_line_segments(f"{root}/found_best", points=flat, colors=BEST, thickness=0.05)
        self._shown: object = None
        self.draw(None)

    def draw(self, synthesis: SynthesisJob | None) -> None:
        """Show the newest two paths of a running search."""
        ways = [] if synthesis is None or not synthesis.is_running else distinct_paths(synthesis.solutions)
        self._best.visible, self._before.visible = len(ways) > 0, len(ways) > 1
        if not ways or ways[-1] is self._shown:
            return
        self._shown = ways[-1]
        self._best.points = path_segments(ways[-1])
        if len(ways) > 1:
            self._before.points = path_segments(ways[-2])


def distinct_paths(solutions: list[SearchSolution]) -> list[FloatArray]:
    """Ways ``(n, 2)`` [m] of solutions, each another than the one before it."""
    ways: list[FloatArray] = []
    for places in (solution.places for solution in solutions if len(solution.places) > 1):
        if not ways or places.shape != ways[-1].shape or not np.allclose(places, ways[-1], atol=1e-3):
            ways.append(places)
    return ways


def path_segments(way: FloatArray) -> Float32:
    """Pieces ``(CORNERS - 1, 2, 3)`` of a way ``(n, 2)``, evenly along it."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(way, axis=0), axis=1))])
    spots = np.linspace(0.0, float(along[-1]), CORNERS)
    places = np.full((CORNERS, 3), HEIGHT_M, dtype=np.float32)
    places[:, 0], places[:, 2] = np.interp(spots, along, way[:, 0]), np.interp(spots, along, way[:, 1])
    return np.stack([places[:-1], places[1:]], axis=1)


COMPARED_ROOT: Final = "/stage/compared"
COLOUR: Final = (150, 90, 170)
OPACITY: Final = 0.45


class ComparedBody:
    """Owns its scene nodes; made anew only for another clip."""

    def __init__(self, scene: viser.SceneApi) -> None:
        self._scene = scene
        self._root = scene.add_frame(COMPARED_ROOT, show_axes=False, visible=False)
        self._film: ClipFrames | None = None
        self._bones: dict[int, viser.BatchedMeshHandle] = {}
        self._trail: viser.LineSegmentsHandle | None = None

    def draw(self, film: ClipFrames | None, now_s: float) -> None:
        """Show a clip at a time, or nothing."""
        self._root.visible = film is not None
        if film is None:
            return
        if film is not self._film:
            self._load(film)
        frame = min(max(round(now_s * film.motion.rate_hz), 0), film.num_frames - 1)
        for joint, bone in self._bones.items():
            bone.batched_wxyzs = film.wxyz[frame, joint][None]
            bone.batched_positions = film.positions[frame, joint][None]

    def _load(self, film: ClipFrames) -> None:
        for handle in (*self._bones.values(), self._trail):
            if handle is not None:
                handle.remove()
        self._film = film
        self._bones = {int(joint): self._add(film, int(joint)) for joint in np.unique(film.body.joints)}
        trail = film.trail()
        pairs = np.stack([trail[:-1], trail[1:]], axis=1)
        self._trail = self._scene.add_line_segments(
            f"{COMPARED_ROOT}/trail", points=pairs, colors=COLOUR, thickness=0.012
        )

    def _add(self, film: ClipFrames, joint: int) -> viser.BatchedMeshHandle:
        vertices, faces = joint_part(film.body, joint)
        return self._scene.add_batched_meshes_simple(
            f"{COMPARED_ROOT}/{joint}",
            vertices=vertices,
            faces=faces,
            batched_wxyzs=film.wxyz[0, joint][None],
            batched_positions=film.positions[0, joint][None],
            batched_colors=COLOUR,
            opacity=OPACITY,
            lod="off",
            cast_shadow=False,
        )


HANDS = ("left_hand", "right_hand")


def carried_objects(film: ClipFrames, drawn: SketchState) -> dict[str, Float32]:
    """Places ``(F, 3)`` [m] of the things that are picked up, by name; nothing for a body without hands.

    A thing is taken in the frame in which a hand is nearest to it, and put down where that hand is nearest to the
    place asked for, each after what came before it.
    """
    hands = [film.contact_names.index(hand) for hand in HANDS if hand in film.contact_names]
    if not hands:
        return {}
    places: dict[str, Float32] = {}
    holder: dict[str, int] = {}
    after = 0
    for event in drawn.events:
        if event.kind not in ("pick", "place") or event.object is None:
            continue
        goal = _goal(drawn, event)
        allowed = hands if event.kind == "pick" else [holder.get(event.object, hands[0])]
        # Frame and hand that come nearest to a place, not before a frame
        away = np.linalg.norm(film.contact_points[after:, allowed] - np.array(goal), axis=-1)
        frame, hand = np.unravel_index(int(away.argmin()), away.shape)
        frame = after + int(frame)
        hand = allowed[int(hand)]
        if event.kind == "pick":
            places_hand = np.tile(np.array(goal, dtype=np.float32), (film.num_frames, 1))
            places_hand[frame:] = film.contact_points[frame:, hand]
            places[event.object] = places_hand
            holder[event.object] = hand
        elif event.object in places:
            places[event.object][frame:] = goal
        after = frame
    return places


def _goal(drawn: SketchState, event: Event) -> Point3:
    if event.to is not None:
        return event.to
    form = drawn.forms[object_number(drawn, event)]
    return form.x, form.height_m, form.z
