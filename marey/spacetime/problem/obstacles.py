"""The surroundings of a problem against the whole body: signed distances from capsules to floor, boxes and bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.dynamics import JointTree, compute_point_positions
from marey.spacetime.problem.definition import SpacetimeProblem
from marey.world import Bar, Box

ShapeDistance = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # (..., 3) -> distance (...), gradient (..., 3)
SHORT_BONE_M: Final = 0.05  # [m] shorter ones are part of their neighbours
SEARCH_SHARES: Final = np.linspace(-1.0, 1.0, 9)  # of the nearest place along a capsule
SEARCH_ROUNDS: Final = 10
SEARCH_SHRINK: Final = 0.25  # to the shares beside the best: 0.2 um of half a metre in the end
CONTACT_ROOM_M: Final = 0.05  # [m] of a bar or box about the place where something is held or stood on: not an obstacle

MAX_CROSSED_M: Final = 1.1  # [m] above the feet: what is higher is passed under or beside
SIDE_STRETCH: Final = 8.0  # of depths below the sides of a box that is passed over
CROSSING_STEPS: Final = 64  # along the way from one support to the next

# [m] radii of bones under the flesh: skin may touch, bones may not; a sole is where its points are
LIMB_RADII: Final = {
    "hip": 0.05,
    "knee": 0.035,
    "shoulder": 0.03,
    "elbow": 0.025,
    "spine": 0.08,
    "head": 0.07,
    "foot": 0.0,
}


@dataclass(frozen=True, slots=True)
class BodyCapsule:
    """A segment of the body between two points of a link, with a radius at each end."""

    name: str
    link: int  # coordinate whose link carries it
    ends: FloatArray  # (2, 3) [m] in the link
    radii: tuple[float, float]  # [m]
    points: tuple[str, ...] = ()  # named points at its end: what plants or holds it


@dataclass(frozen=True, slots=True, eq=False)
class ObstacleShape:
    """A shape that no capsule enters."""

    name: str
    distance: ShapeDistance
    top_m: float = -np.inf  # [m] height above which everything is outside
    upwards: ShapeDistance | None = None  # the same set, left through its top, for who passes over it


def build_capsules(tree: JointTree) -> tuple[BodyCapsule, ...]:
    """Capsules along the bones of a tree, and to its named points; feet and hands end in points."""
    found: list[BodyCapsule] = []
    parents: list[int] = tree.parents.tolist()
    for link, parent in enumerate(parents):
        bone: FloatArray = tree.offsets[link]
        if parent >= 0 and float(np.linalg.norm(bone)) >= SHORT_BONE_M:
            # From the joint of the parent to the one that it carries
            radius = _radius_of(tree.groups[parent])
            found.append(BodyCapsule(tree.groups[parent], parent, np.stack([0.0 * bone, bone]), (radius, 0.8 * radius)))
    for name, (link, place) in tree.points.items():
        if float(np.linalg.norm(place)) >= SHORT_BONE_M:
            radius = LIMB_RADII["head"] if name == "head" else _radius_of(tree.groups[link])
            # A head ends round, feet and hands in the point that touches
            tip = -radius if name == "head" else 0.0
            ends = np.stack([0.0 * place, place * (1.0 + tip / float(np.linalg.norm(place)))])
            found.append(BodyCapsule(name, link, ends, (radius, max(-tip, 0.0)), (name,)))
    return tuple(found)


def _radius_of(name: str) -> float:
    lowered = name.lower()
    for part, words in (
        ("foot", ("ankle", "foot", "toe")),
        ("knee", ("knee", "leg", "shin")),
        ("elbow", ("elbow", "forearm", "wrist", "hand")),
        ("shoulder", ("shoulder", "arm", "collar", "clavicle")),
        ("head", ("head", "neck")),
        ("hip", ("hip", "upleg", "thigh")),
    ):
        if any(word in lowered for word in words) and not (part == "knee" and "upleg" in lowered):
            return LIMB_RADII[part]
    return LIMB_RADII["spine"]


def find_floor(problem: SpacetimeProblem) -> float | None:
    """Height of the floor [m]: as the problem says, or lower where a foot is planted lower; None without one."""
    if problem.floor_m is None or problem.gravity == 0.0:
        return None
    feet = [c.position[1] for phase in problem.phases for c in phase.contacts if c.kind == "foot"]
    return min([problem.floor_m, *feet])


def build_obstacles(problem: SpacetimeProblem) -> tuple[ObstacleShape, ...]:
    """Floor, boxes and bars of a problem."""
    found: list[ObstacleShape] = []
    floor = find_floor(problem)
    if floor is not None:
        up = np.array([0.0, 1.0, 0.0])
        found.append(ObstacleShape("the floor", lambda p: (p[..., 1] - floor, np.broadcast_to(up, p.shape))))
    for i, box in enumerate(problem.boxes):
        found.append(ObstacleShape(f"box {i + 1}", _box_shape(box), box.height_m, _box_shape(box, SIDE_STRETCH)))
    for i, bar in enumerate(problem.bars):
        top = max(bar.start[1], bar.end[1]) + bar.radius_m
        found.append(ObstacleShape(f"bar {i + 1}", _bar_shape(bar), top))
    return tuple(found)


def is_crossed(problem: SpacetimeProblem, phase: int, obstacle: ObstacleShape) -> bool:
    """Whether the way from the feet before a phase to those after it leads over a box or a low bar.

    What enters such a shape leaves it upwards: the nearest face would send it back, or round.
    """
    feet = [[c.position for c in own.contacts if c.point.endswith(("foot", "feet"))] for own in problem.phases]
    before = next((feet[p] for p in range(phase, -1, -1) if feet[p]), None)
    after = next((feet[p] for p in range(phase + (before is feet[phase]), len(feet)) if feet[p]), None)
    if before is None or after is None or not np.isfinite(obstacle.top_m):
        return False
    ends = np.stack([np.mean(before, axis=0), np.mean(after, axis=0)])
    if obstacle.top_m - float(ends[:, 1].min()) > MAX_CROSSED_M:
        return False
    way = ends[0] + np.linspace(0.0, 1.0, CROSSING_STEPS)[:, None] * (ends[1] - ends[0])
    way[:, 1] = obstacle.top_m
    return bool(obstacle.distance(way)[0].min() < CONTACT_ROOM_M)


def _box_shape(box: Box, stretch: float = 1.0) -> ShapeDistance:
    """Signed distance of a box that stands on the ground; above and beside it positive, inside negative.

    Depths below the sides count ``stretch`` times: with more than one the top is the nearest face nearly everywhere.
    """
    turn = np.deg2rad(box.heading_deg)
    along, up, across = (
        np.array([np.cos(turn), 0.0, -np.sin(turn)]),
        np.array([0.0, 1.0, 0.0]),
        np.array([np.sin(turn), 0.0, np.cos(turn)]),
    )
    frame = np.stack([along, up, across])
    # The box reaches down without end: what stands below its top beside it is outside, nothing is beneath it
    half = np.array([0.5 * box.size[0], 0.0, 0.5 * box.size[1]])
    centre = np.array([box.position[0], box.height_m, box.position[1]])

    def distance(p: FloatArray) -> tuple[FloatArray, FloatArray]:
        local = (p - centre) @ frame.T
        over = np.abs(local) - half
        over[..., 1] = local[..., 1]
        outside = np.maximum(over, 0.0)
        length = np.linalg.norm(outside, axis=-1)
        scale = np.array([stretch, 1.0, stretch])
        inside = (over * scale).max(axis=-1)
        sign = np.sign(local)
        sign[..., 1] = 1.0
        # Outside towards the nearest place, inside through the nearest face
        face = (np.eye(3) * scale)[np.argmax(over * scale, axis=-1)] * sign
        out = outside * sign / np.maximum(length, 1e-9)[..., None]
        is_out = inside > 0.0
        gap = np.asarray(np.where(is_out, length, inside), dtype=np.float64)
        return gap, np.asarray(np.where(is_out[..., None], out, face) @ frame, dtype=np.float64)

    return distance


def _bar_shape(bar: Bar) -> ShapeDistance:
    start, end = np.asarray(bar.start, dtype=np.float64), np.asarray(bar.end, dtype=np.float64)
    line = end - start

    def distance(p: FloatArray) -> tuple[FloatArray, FloatArray]:
        share = np.clip((p - start) @ line / max(float(line @ line), 1e-12), 0.0, 1.0)
        gap = p - start - share[..., None] * line
        length = np.maximum(np.linalg.norm(gap, axis=-1), 1e-9)
        return length - bar.radius_m, gap / length[..., None]

    return distance


def find_nearest(
    obstacle: ObstacleShape, ends: FloatArray, radii: tuple[float, float] | tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Share along capsules with ends ``(n, 2, 3)`` at which they are nearest to a shape, and the gap there [m].

    The least of a few shares along the whole, then among shares about it, ends included: a floor is nearest there.
    """
    rise, line = radii[1] - radii[0], ends[:, 1] - ends[:, 0]
    middle, half, own = np.full(len(ends), 0.5), 0.5, np.arange(len(ends))
    least = np.full(len(ends), np.inf)
    for _ in range(SEARCH_ROUNDS):
        shares = np.clip(middle + half * SEARCH_SHARES[:, None], 0.0, 1.0)
        places = ends[:, 0] + shares[..., None] * line
        gaps = obstacle.distance(places)[0] - (radii[0] + shares * rise)
        best = np.argmin(gaps, axis=0)
        middle, least, half = shares[best, own], gaps[best, own], half * SEARCH_SHRINK
    return middle, least


def is_touching(problem: SpacetimeProblem, phase: int, capsule: BodyCapsule, obstacle: ObstacleShape) -> bool:
    """Whether a capsule holds or stands on a shape in a phase, or on a box or bar just before or after it."""
    for p in range(max(phase - 1, 0), min(phase + 2, len(problem.phases))):
        for contact in problem.phases[p].contacts:
            is_own = contact.point in capsule.points or any(
                contact.point == f"{point.rpartition('_')[0]}_foot" and not point.endswith("hand")
                for point in capsule.points
            )
            if is_own and (p == phase or obstacle.name != "the floor"):
                away = float(obstacle.distance(np.asarray(contact.position, dtype=np.float64)[None])[0][0])
                if abs(away) < CONTACT_ROOM_M:
                    return True
    return False


def measure_gaps(
    tree: JointTree, problem: SpacetimeProblem, q: FloatArray, phases: IntArray
) -> list[tuple[BodyCapsule, ObstacleShape, FloatArray]]:
    """Gap ``(T,)`` [m] of every capsule to every shape along a motion; infinite where it holds or stands on it."""
    capsules, obstacles = build_capsules(tree), build_obstacles(problem)
    if not obstacles:
        return []
    links = [capsule.link for capsule in capsules for _ in range(2)]
    places = np.concatenate([capsule.ends for capsule in capsules])
    found = compute_point_positions(tree, q, links, places)
    out: list[tuple[BodyCapsule, ObstacleShape, FloatArray]] = []
    for i, capsule in enumerate(capsules):
        ends = found[:, 2 * i : 2 * i + 2]
        for obstacle in obstacles:
            gap = find_nearest(obstacle, ends, capsule.radii)[1]
            for p in range(len(problem.phases)):
                if is_touching(problem, p, capsule, obstacle):
                    gap = np.where(phases == p, np.inf, gap)
            out.append((capsule, obstacle, gap))
    return out
