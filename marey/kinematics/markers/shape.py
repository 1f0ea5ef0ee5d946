"""Which joint carries each marker, found from geometry and motion alone.

Markers lie on the surface of a body and move rigidly with one of its segments. A body is put under the markers of the
most upright frame from many headings, sizes and arm postures; the best few are bent to fit, followed through the other
frames, and each marker goes to the segment on whose surface it lies and with which it moves. The start that explains
the markers best wins. After the rigid-cluster idea of [Kirk2005]_, with a body in place of a free tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.kinematics.markers.poses import (
    LabelledPoints,
    MarkerPoses,
    SitePrior,
    StandingPrior,
    fit_bones_and_sites,
    solve_marker_poses,
)
from marey.kinematics.markers.sites import known_sites, place_site
from marey.lie import SO3
from marey.skeleton import HUMAN_STATURE_M, ROLES, Skeleton, capsules, joint_frames, role_map

RIGID_M: Final = 0.012  # [m] spread of the distance between two markers of one segment; skin moves that much
MOVING_M: Final = 0.02  # [m] median spread of all distances above which a capture counts as moving
SURFACE_M: Final = 0.025  # [m] how far a marker may be from the surface of a body of average girth
WANDER_M: Final = 0.015  # [m] how far a marker wanders in the frame of its segment
CAP: Final = 25.0  # [-] most that one marker may cost, in squares of the above
NUM_HEADINGS: Final = 24  # directions that a start may face
NUM_STARTS: Final = 12  # starts that are bent onto one frame
NUM_FOLLOWED: Final = 4  # of these that are followed through the others
# Of the stature, where the highest marker may sit: waist, chest, shoulder, neck, vertex
TOP_FRACTIONS: Final = (0.57, 0.62, 0.80, 0.86, 0.93, 1.0)
USUAL_M, USUAL_SPREAD = 1.70, 0.12  # [m], [-] stature of grown people, which is preferred where nothing tells
STATURE: Final = 0.15  # [-] what a stature one spread away costs
STATURES_M: Final = (0.9, 2.3)  # [m] of people
LANDMARK_M: Final = 0.06  # [m] a marker farther from every landmark of a segment is not on one
LANDMARK: Final = 2.0  # [-] what that costs
RARE: Final = {"head": 2.0, "wrist": 1.0}  # [-] a lone marker there is more often one of the segment before
HINT: Final = 9.0  # [-] what it costs to contradict a name
SEGMENTS: Final = ("pelvis", "spine3", "head", "hip", "knee", "ankle", "shoulder", "elbow", "wrist")
# Arms as rotation vectors of left shoulder and elbow on a T-pose [rad]: down, bent as in running, forward, held out,
# level; folded before the chest, hands at the shoulders
_ARMS: Final = (
    ((0.0, 0.0, -1.35), (0.0, -0.2, 0.0)),
    ((0.0, 0.0, -1.30), (0.0, -1.5, 0.0)),
    ((0.0, -0.8, -0.9), (0.0, -0.7, 0.0)),
    ((0.0, 0.0, -0.7), (0.0, -0.2, 0.0)),
    ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ((0.0, -1.0, -1.0), (0.0, -1.9, 0.0)),
    ((0.0, -0.4, -1.3), (0.0, -2.1, 0.0)),
)


_LEGS: Final = (  # left hip and knee: straight, heel to the buttock, thigh raised
    ((0.0, 0.0, 0.0), (0.1, 0.0, 0.0)),
    ((0.2, 0.0, 0.0), (1.4, 0.0, 0.0)),
    ((-0.9, 0.0, 0.0), (1.2, 0.0, 0.0)),
)


@dataclass(frozen=True, slots=True, eq=False)
class BodyShape:
    """The surface of a template as tapered capsules, and its landmarks, on the joints that may carry markers."""

    template: Skeleton
    joints: IntArray  # (K,) that may carry markers
    carriers: IntArray  # (S,) which of these carries each capsule
    starts: FloatArray  # (S, 3) [m] in the frame of the joint
    ends: FloatArray  # (S, 3) [m]
    radii: FloatArray  # (S, 2) [m] at start and end
    rarity: FloatArray  # (K,) [-] what it costs to put a marker there
    landmark_joints: IntArray  # (L,)
    landmarks: FloatArray  # (L, 3) [m]

    @classmethod
    def from_template(cls, template: Skeleton) -> BodyShape:
        """Surface and landmarks of a skeleton with the roles of the canonical human; toes belong to the foot.

        Raises:
            InputError: a role is missing.
        """
        solid, roles, rest = capsules(template), role_map(template), template.rest_positions()
        missing = [role for role in ROLES if role not in roles]
        if missing:
            raise InputError(
                f"the template has no {missing[0]}", "Give sites={'marker': 'joint', ...}, or another template"
            )
        names = {joint: role for role, joint in roles.joints.items()}
        wanted = {roles[side + name] for side in ("", "left_", "right_") for name in SEGMENTS if side + name in roles}
        joints, starts, ends = solid.joints.copy(), solid.starts.copy(), solid.ends.copy()
        for k, joint in enumerate(joints):
            parent = int(template.parents[joint])
            if int(joint) not in wanted and parent in wanted and parent in (roles["left_ankle"], roles["right_ankle"]):
                joints[k] = parent
                starts[k] += template.offsets[joint]
                ends[k] += template.offsets[joint]
            if joint == roles["spine2"]:
                # The trunk is one segment, down to the first joint of the spine; below that it is the pelvis
                waist = rest[roles["spine1"], 1] - rest[joint, 1]
                starts[k, 1], ends[k, 1] = max(starts[k, 1], waist), max(ends[k, 1], waist)
                starts[k] += rest[joint] - rest[roles["spine3"]]
                ends[k] += rest[joint] - rest[roles["spine3"]]
                joints[k] = roles["spine3"]
        keep = np.isin(joints, list(wanted))
        radii = np.stack([solid.start_radii, solid.end_radii], axis=1)
        used = np.unique(joints[keep])
        # Known sites; those of joints without a surface go to the segment round them
        moved = {roles[name]: roles["spine3"] for name in ("spine1", "spine2", "left_collar", "right_collar")}
        carriers, landmarks = list[int](), list[FloatArray]()
        for name in known_sites():
            if (site := place_site(name, template)) is not None:
                joint = template.index(site.joint)
                carrier = moved.get(joint, joint)
                carriers.append(carrier)
                landmarks.append(np.array(site.point) + rest[joint] - rest[carrier])
        return cls(
            template,
            used,
            np.searchsorted(used, joints[keep]),
            starts[keep],
            ends[keep],
            radii[keep],
            np.array([sum(cost for name, cost in RARE.items() if names[j].endswith(name)) for j in used.tolist()]),
            np.array(carriers),
            np.array(landmarks),
        )

    def sizes(self, body: Skeleton) -> FloatArray:
        """Size of each joint's segment over that of the template ``(J,)``: of its longest bone, else of the body."""
        ours, theirs = (np.linalg.norm(s.offsets, axis=1) for s in (body, self.template))
        sizes = np.full(body.num_joints, float(np.median(ours[1:] / np.maximum(theirs[1:], 1e-9))))
        longest = np.zeros(body.num_joints)
        for j in range(1, body.num_joints):
            parent = int(body.parents[j])
            if theirs[j] > longest[parent]:
                longest[parent], sizes[parent] = theirs[j], ours[j] / theirs[j]
        return sizes

    def nearest(
        self, points: FloatArray, starts: FloatArray, ends: FloatArray, girth: float
    ) -> tuple[FloatArray, FloatArray]:
        """Distance [m] of points ``(..., 3)`` from each capsule's surface (negative inside), and surface points."""
        along = ends - starts
        length = np.maximum((along**2).sum(axis=-1), 1e-12)
        t = np.clip(((points - starts) * along).sum(axis=-1) / length, 0.0, 1.0)
        axis = starts + t[..., None] * along
        away = points - axis
        distance = np.linalg.norm(away, axis=-1)
        radius = girth * ((1.0 - t) * self.radii[:, 0] + t * self.radii[:, 1])
        surface = axis + away * (radius / np.maximum(distance, 1e-6))[..., None]
        return distance - radius, surface


def group_rigid(places: FloatArray, seen: BoolArray) -> IntArray:
    """Number of the rigid group of each marker ``(M,)``: all distances inside a group stay the same.

    In a capture that hardly moves every marker is a group of its own, since there all distances stay the same.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    # Standard deviation of the distance between each two markers [m]; large where they never met
    both = seen[:, :, None] & seen[:, None]
    distance = np.linalg.norm(places[:, :, None] - places[:, None], axis=-1) * both
    times = np.maximum(both.sum(axis=0), 1)
    mean = distance.sum(axis=0) / times
    square = (((distance - mean) * both) ** 2).sum(axis=0) / times
    spread = np.where(both.sum(axis=0) >= 3, np.sqrt(square), 1.0)
    count = len(spread)
    met = spread[spread < 1.0]
    if count < 3 or not len(met) or float(np.median(met)) < MOVING_M:
        return np.arange(count)
    np.fill_diagonal(spread, 0.0)
    tree = linkage(squareform(np.minimum(spread, spread.T), checks=False), method="complete")
    return np.asarray(fcluster(tree, RIGID_M, criterion="distance"), dtype=np.int64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class SegmentFit:
    """Markers on the segments of a body, and how well they are explained."""

    body: Skeleton
    poses: MarkerPoses  # of the sample frames
    joints: IntArray  # (M,)
    points: FloatArray  # (M, 3) [m]
    surface: FloatArray  # (M, 3) [m] the nearest points of the body's surface
    costs: FloatArray  # (M,) [-] squares of surface and wander distances, at most CAP
    score: float  # lower is better


def assign_segments(
    body: Skeleton,
    shape: BodyShape,
    poses: MarkerPoses,
    places: FloatArray,
    seen: BoolArray,
    groups: IntArray,
    hints: IntArray,
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """The joint of each marker, its mean point in that joint's frame, the surface point below it, and the cost.

    Args:
        body: the fitted skeleton.
        shape: surface and landmarks of its template.
        poses: of the frames.
        places: ``(F, M, 3)`` [m].
        seen: ``(F, M)``.
        groups: rigid group of each marker; a group goes to one joint.
        hints: joint that the name of each marker hints at, or -1.
    """
    positions, frames = joint_frames(body, poses.roots, poses.rotations.wxyz, None)
    joints, sizes = shape.joints, shape.sizes(body)
    R = SO3(frames.wxyz[:, joints]).matrix()
    # Markers in the frames of all joints: robust means and how far they wander (M, J)
    local = np.einsum("fjrc,fmjr->fmjc", R, places[:, :, None] - positions[:, None, joints])
    weight = np.broadcast_to(seen[..., None], local.shape[:3]).astype(np.float64)
    mean, away = np.zeros(local.shape[1:]), np.zeros(local.shape[:3])
    for _ in range(4):
        total = np.maximum(weight.sum(axis=0), 1e-9)
        mean = (weight[..., None] * local).sum(axis=0) / total[..., None]
        away = ((local - mean) ** 2).sum(axis=-1)
        weight = seen[..., None] / (1.0 + away / (2.0 * WANDER_M) ** 2)
    count = np.maximum(seen.sum(axis=0), 1)[:, None]
    wander = (np.log1p(away / (2.0 * WANDER_M) ** 2) * seen[..., None]).sum(axis=0) / count * 4.0
    # Distance from the surface of each joint's capsules
    index = shape.carriers
    size = sizes[joints[index], None]
    gap, points = shape.nearest(mean[:, index], size * shape.starts, size * shape.ends, float(np.median(sizes)))
    cost = np.full((len(mean), len(joints)), np.inf)
    below = np.zeros((len(mean), len(joints), 3))
    for s, j in enumerate(index):
        here = (np.where(gap[:, s] < 0.0, 0.5, 1.0) * gap[:, s] / SURFACE_M) ** 2
        nearer = here < cost[:, j]
        cost[nearer, j] = here[nearer]
        below[nearer, j] = points[nearer, s]
    cost = np.minimum(cost, CAP) + np.minimum(wander, CAP)
    # Laboratories mark bony landmarks: a segment without one nearby is less likely
    anchors = sizes[shape.landmark_joints, None] * shape.landmarks
    away_m = np.full(cost.shape, np.inf)
    for k, joint in enumerate(joints):
        here = shape.landmark_joints == joint
        if here.any():
            away_m[:, k] = np.linalg.norm(mean[:, k, None] - anchors[here], axis=-1).min(axis=1)
    cost += LANDMARK * np.minimum(away_m / LANDMARK_M, 1.0) ** 2
    cost += shape.rarity
    told = np.flatnonzero(hints >= 0)
    for m in told:
        near = joints == hints[m]
        cost[m] += np.where(near, 0.0, HINT)
    # A rigid group goes to the joint that suits all of it
    chosen = np.zeros(len(mean), dtype=np.int64)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        chosen[members] = int(np.minimum(cost[members], CAP).sum(axis=0).argmin())
    rows = np.arange(len(mean))
    return joints[chosen], mean[rows, chosen], below[rows, chosen], np.minimum(cost[rows, chosen], CAP)


def find_segments(
    shape: BodyShape,
    places: FloatArray,
    seen: BoolArray,
    forward: FloatArray,
    *,
    height_m: float | None = None,
    reference: int,
) -> SegmentFit:
    """Put a body under markers of which nothing is known but that +Y is up.

    Args:
        shape: of the canonical human, or of a skeleton with its roles at rest in a T-pose.
        places: ``(F, M, 3)`` [m] of sample frames.
        seen: ``(F, M)``.
        forward: horizontal direction ``(3,)`` in which the body walks, as long as it is sure; zero where it does not.
        height_m: stature, where it is known.
        reference: the most upright of the frames.

    Raises:
        InputError: no start explains the markers as a human.
    """
    prior = StandingPrior.standing(shape.template)
    groups = group_rigid(places, seen)
    # Bend many starts onto the reference frame, try other limbs on the best, and follow these through all frames
    bent = [
        (*_bend_onto_frame(shape, prior, size, start, places[[reference]], seen[[reference]], groups, rounds=5), size)
        for size, start in _rank_starts(shape, places[reference], seen[reference], forward, height_m)
    ]
    bent.sort(key=lambda one: one[0])
    best: SegmentFit | None = None
    for cost, start, size in bent[:NUM_FOLLOWED]:
        pose = _try_limbs(shape, prior, size, cost, start, places[[reference]], seen[[reference]], groups)
        # Follow a pose of one frame through the others, and settle which segment carries each marker
        template = shape.template
        body, trust, hints = template.scaled(size), np.ones(places.shape[1]), np.full(places.shape[1], -1)
        here = slice(reference, reference + 1)
        joints, points, below, costs = assign_segments(body, shape, pose, places[here], seen[here], groups, hints)
        # From each frame to the one that is most like it
        roots, wxyz = np.tile(pose.roots, (len(places), 1)), np.tile(pose.rotations.wxyz, (len(places), 1, 1))
        # Frames and, for each, the earlier one that is most like it: distances between markers differ least (Prim)
        distance = np.linalg.norm(places[:, :, None] - places[:, None], axis=-1)
        shown = seen[:, :, None] & seen[:, None]
        count = len(places)
        apart = np.zeros((count, count))
        for f in range(count):
            common = shown & shown[f]
            apart[f] = (np.abs(distance - distance[f]) * common).sum(axis=(1, 2)) / np.maximum(
                common.sum(axis=(1, 2)), 1
            )
        done, order = [reference], list[tuple[int, int]]()
        while len(done) < count:
            left = [f for f in range(count) if f not in done]
            table = apart[np.ix_(left, done)]
            place, column = np.unravel_index(int(table.argmin()), table.shape)
            order.append((left[int(place)], done[int(column)]))
            done.append(left[int(place)])
        for f, last in order:
            row = slice(f, f + 1)
            both = seen[f] & seen[last]
            shift = (places[f] - places[last])[both].mean(axis=0) if both.any() else np.zeros(3)
            before = MarkerPoses(roots[last : last + 1] + shift, SO3(wxyz[last : last + 1]))
            data = LabelledPoints(joints, points, places[row], seen[row])
            before = solve_marker_poses(body, data, before, prior, steps=4, weights=trust, far_m=0.3)
            after = solve_marker_poses(body, data, before, prior, steps=3, weights=trust)
            roots[row], wxyz[row] = after.roots, after.rotations.wxyz
        poses = MarkerPoses(roots, SO3(wxyz))
        for round_ in range(6):
            single = groups if round_ < 4 else np.arange(len(groups))
            joints, points, below, costs = assign_segments(body, shape, poses, places, seen, single, hints)
            trust = 1.0 / (1.0 + (costs / 9.0) ** 2)
            data = LabelledPoints(joints, points, places, seen)
            expected = SitePrior(below, np.full(len(joints), SURFACE_M))
            body, points = fit_bones_and_sites(template, poses, data, expected, scale=size, spread=0.05)
            data = LabelledPoints(joints, points, places, seen)
            poses = solve_marker_poses(body, data, poses, prior, steps=5, weights=trust)
        joints, points, below, costs = assign_segments(body, shape, poses, places, seen, np.arange(len(groups)), hints)
        turn = (prior.neutral.inverse() @ poses.rotations)[:, 1:].log() / prior.spread[1:]
        strain = float(np.minimum((turn**2).mean(axis=(0, 2)), 9.0).mean())
        found = SegmentFit(body, poses, joints, points, below, costs, float(costs.mean()) + strain)
        facing = SO3(found.poses.rotations.wxyz[reference, 0]) @ np.array([0.0, 0.0, 1.0])
        score = found.score + 1.0 * (1.0 - float(facing @ forward)) * bool(forward.any())
        score += STATURE * stature_cost(size * HUMAN_STATURE_M) if height_m is None else 0.0
        if best is None or score < best.score:
            best = replace(found, score=score)
    if best is None:
        raise InputError("the markers do not stand as a human", "Give sites={'marker': 'joint', ...}")
    return best


def stature_cost(height_m: float) -> float:
    """Square of how unusual a stature is, in spreads."""
    return float((np.log(height_m / USUAL_M) / USUAL_SPREAD) ** 2)


def _rank_starts(
    shape: BodyShape, places: FloatArray, seen: BoolArray, forward: FloatArray, height_m: float | None
) -> list[tuple[float, MarkerPoses]]:
    """The best starts: scale of the template and its pose in one frame; headings differ or arms do."""
    shown = places[seen]
    bottom, top = float(shown[:, 1].min()), float(shown[:, 1].max())
    heights = [height_m] if height_m else [(top - bottom + 0.02) / fraction for fraction in TOP_FRACTIONS]
    template = shape.template
    roles, ranked = role_map(template), list[tuple[float, float, int, int, MarkerPoses]]()
    angles = 2.0 * np.pi * np.arange(NUM_HEADINGS) / NUM_HEADINGS
    carriers = shape.joints[shape.carriers]
    middle = np.median(shown[shown[:, 1] >= bottom + 0.45 * (top - bottom)], axis=0)
    for height in heights:
        if not STATURES_M[0] < height < STATURES_M[1]:
            continue
        scale = height / HUMAN_STATURE_M
        body = template.scaled(scale)
        floor_m = float(body.rest_positions()[:, 1].min()) - 0.02 * scale
        for arm, (shoulder, elbow) in enumerate(_ARMS):
            vectors = np.zeros((body.num_joints, 3))
            for side, sign in (("left_", 1.0), ("right_", -1.0)):
                vectors[roles[side + "shoulder"]] = np.array(shoulder) * [1.0, sign, sign]
                vectors[roles[side + "elbow"]] = np.array(elbow) * [1.0, sign, sign]
            wxyz = np.tile(SO3.exp(vectors).wxyz, (NUM_HEADINGS, 1, 1))
            wxyz[:, 0] = SO3.exp(angles[:, None] * np.array([0.0, 1.0, 0.0])).wxyz
            roots = np.tile(middle, (NUM_HEADINGS, 1))
            roots[:, 1] = bottom - floor_m + body.rest_positions()[0, 1] - 0.01
            a = b = np.zeros((NUM_HEADINGS, len(carriers), 3))
            distance = np.zeros((NUM_HEADINGS, len(shown)))
            for _ in range(6):
                positions, frames = joint_frames(body, roots, wxyz, None)
                R = SO3(frames.wxyz[:, carriers])
                a, b = (positions[:, carriers] + R @ (scale * p) for p in (shape.starts, shape.ends))
                gap, points = shape.nearest(shown[None, :, None], a[:, None], b[:, None], scale)
                near = np.abs(gap).argmin(axis=2)[..., None]
                distance = np.take_along_axis(np.abs(gap), near, axis=2)[..., 0]
                pull = shown - np.take_along_axis(points, near[..., None], axis=2)[:, :, 0]
                trust = 1.0 / (1.0 + (distance / 0.05) ** 2)
                shift = (trust[..., None] * pull).sum(axis=1) / trust.sum(axis=1)[:, None]
                roots = roots + shift * [1.0, 0.5, 1.0]
            # How far markers are from the body, and how far legs are from markers
            cost = np.log1p((distance / 0.04) ** 2).mean(axis=1)
            legs = np.isin(
                carriers, [roles[side + name] for side in ("left_", "right_") for name in ("hip", "knee", "ankle")]
            )
            bare = np.linalg.norm(((a + b) / 2.0)[:, legs, None] - shown, axis=-1).min(axis=2)
            cost += 0.2 * STATURE * stature_cost(height) + 0.5 * np.log1p(
                (np.maximum(bare - 0.15, 0.0) / 0.10) ** 2
            ).mean(axis=1)
            facing = np.stack([np.sin(angles), np.zeros_like(angles), np.cos(angles)], axis=1)
            cost += 0.3 * (1.0 - facing @ forward) * bool(forward.any())
            ranked += [
                (float(cost[k]), scale, k, arm, MarkerPoses(roots[k : k + 1], SO3(wxyz[k : k + 1])))
                for k in range(NUM_HEADINGS)
            ]
    ranked.sort(key=lambda start: start[0])
    # Starts that differ: the best size of each heading (to 45 degrees) and arm posture, opposite headings first
    chosen: list[tuple[float, MarkerPoses]] = []
    taken: set[tuple[int, int]] = set()
    for _, scale, k, arm, pose in ranked:
        key = (k // 3, arm + len(_ARMS) * round(6.0 * scale))
        if key not in taken and len(chosen) < NUM_STARTS:
            taken.add(key)
            chosen.append((scale, pose))
    return chosen


def _bend_onto_frame(
    shape: BodyShape,
    prior: StandingPrior,
    scale: float,
    pose: MarkerPoses,
    places: FloatArray,
    seen: BoolArray,
    groups: IntArray,
    *,
    rounds: int,
) -> tuple[float, MarkerPoses]:
    """Bend a pose onto the markers of its frame: surface points below the markers are drawn to them, by turns."""
    body = shape.template.scaled(scale)
    no_hints, trust = np.full(places.shape[1], -1), np.ones(places.shape[1])
    for _ in range(rounds):
        joints, _, below, _ = assign_segments(body, shape, pose, places, seen, groups, no_hints)
        data = LabelledPoints(joints, below, places, seen)
        pose = solve_marker_poses(body, data, pose, prior, steps=3, weights=trust)
    *_, costs = assign_segments(body, shape, pose, places, seen, groups, no_hints)
    return float(costs.mean()), pose


def _try_limbs(
    shape: BodyShape,
    prior: StandingPrior,
    scale: float,
    cost: float,
    pose: MarkerPoses,
    places: FloatArray,
    seen: BoolArray,
    groups: IntArray,
) -> MarkerPoses:
    """The best of a pose with each arm and each leg in other postures."""
    roles = role_map(shape.template)
    for limb, postures in ((("hip", "knee"), _LEGS), (("shoulder", "elbow"), _ARMS)):
        for side, sign in (("left_", 1.0), ("right_", -1.0)):
            for posture in postures:
                wxyz = pose.rotations.wxyz.copy()
                for joint, turn in zip(limb, posture, strict=True):
                    wxyz[0, roles[side + joint]] = SO3.exp(np.array(turn) * [1.0, sign, sign]).wxyz
                start = MarkerPoses(pose.roots, SO3(wxyz))
                other, bent = _bend_onto_frame(shape, prior, scale, start, places, seen, groups, rounds=3)
                if other < cost - 1e-9:
                    cost, pose = other, bent
    return pose


def expect_landmarks(
    shape: BodyShape, body: Skeleton, joints: IntArray, points: FloatArray, below: FloatArray
) -> SitePrior:
    """Where markers of unknown name are expected: on a bony landmark that is near, else on the surface.

    Laboratories put most markers on landmarks; each landmark takes one marker, by least distance in all.
    """
    from scipy.optimize import linear_sum_assignment

    carriers, anchors = shape.landmark_joints, shape.sizes(body)[shape.landmark_joints, None] * shape.landmarks
    distance = np.linalg.norm(points[:, None] - anchors, axis=-1)
    distance = np.where(joints[:, None] == carriers, distance, 1.0)
    expected, spread = below.copy(), np.full(len(points), 2.0 * SURFACE_M)
    for m, site in zip(*linear_sum_assignment(np.minimum(distance, 0.06)), strict=True):
        if distance[m, site] < 0.06:
            expected[m], spread[m] = anchors[site], 0.04
    return SitePrior(expected, spread)
