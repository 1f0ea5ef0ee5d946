"""A path through the graph as poses in the world, and its planted feet, each in one place from landing to leaving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, IntArray
from marey.blending import BlendSettings, BlendSource, blend_duration, blend_sources
from marey.contacts import HoldSettings, hold_feet
from marey.contacts.easing import spread_corrections
from marey.contacts.limbs import measure_flexion, measure_length
from marey.graph.arrays import PICKS, compose_planar, to_frame, wrap_angles
from marey.graph.database.clips import lower_root
from marey.graph.paths import TWO_PI, UP, PathStep, SearchResult, planted_feet
from marey.graph.reconstruction.joins import PoseTrack, Velocity, hold_last_pose, join_tracks, spread_discontinuities
from marey.kinematics import Limb, solve_two_bone
from marey.lie import SO3
from marey.motion import Contacts, Motion, contact_positions, find_runs
from marey.numerics import smootherstep
from marey.skeleton import contact_points

if TYPE_CHECKING:
    from marey.graph.motion_graph import MotionGraph


SETTLE_S: Final = 1.0  # [s] in which a stand at the end is looked through for its stillest pose
REST_S: Final = 0.4  # [s] for which that pose is shown; what is left of speed goes in this time
REST_DISTANCE: Final = 2e-4  # [rad], [m] a frame: as still as the stillest pose
SIDES: Final = ("left", "right")


def build_path_track(graph: MotionGraph, result: SearchResult) -> tuple[PoseTrack, FloatArray]:
    """Poses of a way with its jumps spread out, and the times ``(C,)`` [s] at which its constraints are met.

    Poses in which something is picked up are the database's own, unchanged: there a hand is where the search has seen
    it. A path that ends in a stand continues until rest.
    """
    parts = [split_step(graph, step) for step in result.steps]
    # After the last step: its last pose, and the transition to rest if it ends in a stand
    step, table = result.steps[-1], graph.database.phases
    if step.is_blended:
        tail = [step_track(graph, step).rows(slice(-1, None), np.zeros(1))]
    else:
        through = graph.database.phase[(step.stretches or graph.stretches(step.edge))[-1][1] - 1]
        after = int(table.after[through])
        if not graph.arrays.is_standing[graph.arrays.target[step.edge]]:
            tail = [place_poses(graph, table.start[[after]], after, result.places[-1])]
        else:
            last = min(int(table.stop[after]), int(table.start[after]) + round(SETTLE_S * graph.database.rate_hz))
            stand: IntArray = np.arange(int(table.start[after]), last)
            # Rest in the first pose that is left about as slowly as any
            wxyz = SO3(graph.database.wxyz[stand])
            turned = np.linalg.norm((wxyz[:-1].inverse() @ wxyz[1:]).log(), axis=-1).mean(axis=1)
            moved = np.linalg.norm(np.diff(graph.database.roots[stand], axis=0), axis=1)
            speed = np.append(turned + moved, np.inf)
            stillest = int(np.flatnonzero(speed <= speed.min() + REST_DISTANCE)[0]) if len(stand) > 1 else 0
            shown = _load_range(graph, stand[: stillest + 1], after, result.places[-1])
            # Longer where a foot of the stand is elsewhere than it was planted: it takes a step first
            plants = np.array([shown.plants[0], parts[-1][-1].plants[-1]])
            has_step = bool(np.any(np.linalg.norm(np.diff(plants[..., :2], axis=0), axis=-1) > SHUFFLE_M))
            rest_s = REST_S + has_step * (2.0 * HALF_STEP_S + SETTLED_S)
            rest = hold_last_pose(shown, rest_s, graph.database.rate_hz)
            tail = [shown, rest] if len(shown.times) > 1 else [rest]
    parts.append(tail)
    pieces, ends = list[PoseTrack](), list[float]()
    for own, after, step in zip(parts, parts[1:], result.steps, strict=False):
        pieces.extend(own)
        ends.append(sum(piece.seconds for piece in pieces))
        if step.hold_s > 0.0:
            pieces.append(hold_last_pose(after[0].rows(slice(0, 1), np.zeros(1)), step.hold_s, graph.database.rate_hz))
    track, cuts = join_tracks([*pieces, *parts[-1]])
    met = np.array([ends[step] for step in result.met])
    picks = [time for time, step in zip(met, result.met, strict=True) if is_pick(graph, result.steps[step])]
    return spread_discontinuities(track, cuts, np.array(picks)), met


def is_pick(graph: MotionGraph, step: PathStep) -> bool:
    """Whether something is picked up at the end of a step."""
    return int(graph.arrays.event[graph.arrays.target[step.edge]]) in PICKS


def split_step(graph: MotionGraph, step: PathStep) -> list[PoseTrack]:
    """Poses of one step in stretches, each with the pose after its last."""
    if not step.is_blended or step.weight == 1.0:
        return _load_pose_ranges(graph, step.stretches or graph.stretches(step.edge), step.place, step.warp)
    return [step_track(graph, step)]


def step_track(graph: MotionGraph, step: PathStep) -> PoseTrack:
    """Poses of one step, the last one being where it ends."""
    first = _load_edge_track(graph, step.stretches or graph.stretches(step.edge), step.place)
    if not step.is_blended or step.weight == 1.0:
        return first
    second = _load_edge_track(graph, graph.stretches(step.other), step.place)
    return _blend_edges(graph, first, second, step)


def _load_edge_track(graph: MotionGraph, stretches: Sequence[tuple[int, int]], place: FloatArray) -> PoseTrack:
    """An edge alone; its ends stay as they are."""
    track, cuts = join_tracks(_load_pose_ranges(graph, stretches, place))
    return spread_discontinuities(track, cuts, np.array([0.0, track.seconds]))


def _load_pose_ranges(
    graph: MotionGraph,
    stretches: Sequence[tuple[int, int]],
    place: FloatArray,
    warp: Sequence[float] = (0.0, 0.0, 0.0),
) -> list[PoseTrack]:
    """Poses of stretches, all placed by their anchors, each from its first pose to that after its last.

    A warp carries the body away from its anchor smoothly, from the first pose to that after the last.
    """
    database, pieces = graph.database, list[PoseTrack]()
    done, count = 0, sum(stop - start for start, stop in stretches)
    for start, stop in stretches:
        has_next = stop < database.num_poses and database.clip[stop] == database.clip[stop - 1]
        poses = np.append(np.arange(start, stop), stop if has_next else stop - 1)
        share = smootherstep((done + np.arange(-1, stop - start + 1)) / count)
        pieces.append(_load_range(graph, poses, int(database.phase[stop - 1]), place, share[:, None] * np.array(warp)))
        done += stop - start
    return pieces


def _load_range(
    graph: MotionGraph, poses: IntArray, phase: int, place: FloatArray, carried: FloatArray | None = None
) -> PoseTrack:
    """Poses of a clip, and how fast the clip comes to the first of them; ``carried`` begins with the pose before it."""
    before, carried = int(poses[0]) - 1, np.zeros((len(poses) + 1, 3)) if carried is None else carried
    if before < 0 or graph.database.clip[before] != graph.database.clip[poses[0]]:
        return place_poses(graph, poses, phase, place, carried[1:])
    track = place_poses(graph, np.append(before, poses), phase, place, carried)
    return replace(track.rows(slice(1, None), track.times[:-1]), arrival=track.velocity(0))


def place_poses(
    graph: MotionGraph, poses: IntArray, phase: int, place: FloatArray, carried: FloatArray | None = None
) -> PoseTrack:
    """Poses with the anchor of a phase at ``place``; each is ``carried`` away from it by x, z [m] and yaw [rad]."""
    database = graph.database
    anchor, feet = database.phases.anchor[phase], database.phases.feet[phase]
    at = compose_planar(place, np.zeros((len(poses), 3)) if carried is None else carried)
    R = SO3.exp((at[:, 2:] - anchor[2]) * UP)
    here, there = np.array([anchor[0], 0.0, anchor[1]]), np.insert(at[:, :2], 1, 0.0, axis=1)
    wxyz = database.wxyz[poses].copy()
    wxyz[:, 0] = (R @ SO3(wxyz[:, 0])).wxyz
    plants = np.tile(compose_planar(place, to_frame(feet, anchor)), (len(poses), 1, 1))
    is_anchor = ~np.isnan(feet[:, 0]) & (feet == anchor).all(axis=1)
    return PoseTrack(
        np.arange(len(poses)) / database.rate_hz,
        R @ (database.roots[poses] - here) + there,
        wxyz,
        plants,
        np.tile(is_anchor, (len(poses), 1)),
    )


def _blend_edges(graph: MotionGraph, first: PoseTrack, second: PoseTrack, step: PathStep) -> PoseTrack:
    """Two edges as one; both stand on the same anchor."""
    body, rate = graph.database.body, graph.database.rate_hz
    weights = np.array([step.weight, 1.0 - step.weight])
    seconds = float(blend_duration([first.seconds, second.seconds], weights, "sqrt"))
    count = max(2, round(seconds * rate))
    shares = np.linspace(0.0, 1.0, count + 1)
    source = int(np.searchsorted(graph.arrays.first, step.edge, side="right")) - 1
    feet = planted_feet(graph.database.classes[int(graph.arrays.kind[source])])
    a, b = (
        BlendSource.from_motion(Motion(body.skeleton, rate, t.roots, SO3(t.wxyz)), body, feet) for t in (first, second)
    )
    b = replace(b, yaw=b.yaw - TWO_PI * np.round((b.yaw[0] - a.yaw[0]) / TWO_PI))
    poses = blend_sources((a, b), weights, shares, feet, rule=BlendSettings(), body=body)
    plants = np.tile(blend_positions(first.plants[0], second.plants[0], step.weight), (count + 1, 1, 1))
    # Velocity of the blend at its first pose, where both clips have one
    arrival: Velocity | None = np.zeros(3), np.zeros((first.wxyz.shape[1], 3))
    for track, weight in zip((first, second), weights, strict=True):
        if track.arrival is None:
            arrival = None
            break
        share = weight * track.seconds / seconds
        arrival = arrival[0] + share * track.arrival[0], arrival[1] + share * track.arrival[1]
    is_anchor = np.tile(first.is_anchor[0], (count + 1, 1))
    return PoseTrack(shares * seconds, poses.roots, poses.wxyz, plants, is_anchor, arrival)


def blend_positions(first: FloatArray, second: FloatArray, weight: float) -> FloatArray:
    """Places ``(..., 3)`` between two, headings the shorter way."""
    change = second - first
    change[..., 2] = wrap_angles(change[..., 2])
    return first + (1.0 - weight) * change


SHUFFLE_M: Final = 0.08  # [m] a foot that two stretches have farther apart than this takes a step
HALF_STEP_S: Final = 0.2  # [s] half of the time that this takes
SETTLED_S: Final = 0.05  # [s] after the landing of the other foot it may begin
# A plant above the ground keeps its own height: how thick the soles of a skeleton are is known to a centimetre or two.
# Knees turn no faster than in the clips: joins and the lean ask for more than feet of one clip do
PATH_HOLD: Final = HoldSettings(level_m=0.0, step_share=1.0, step_rad=0.02)
MAX_SOLE_M: Final = 0.025  # [m] from the ground: farther than soles of captures differ
LEVEL: Final = 0.7  # [-] part of the foot's length seen from above: below, its heading is not measured


def plant_positions(track: PoseTrack) -> FloatArray:
    """One place for each stance of each foot ``(F, 2, 3)``: the mean of where it is while poses are placed by it.

    NaN while in the air. A stance in which a foot never is the anchor stands where it stood first. Where stretches meet
    that have a foot in quite other places, and the other foot carries the body, it takes a small step.
    """
    held = np.full_like(track.plants, np.nan)
    for foot in range(2):
        for start, stop in find_runs(~np.isnan(track.plants[:, foot, 0])):
            for own in _split_stances(track, foot, np.arange(start, stop)):
                placed = own[track.is_anchor[own, foot]]
                places = track.plants[placed if len(placed) else own[:1], foot]
                places = np.concatenate([places[:, :2], np.unwrap(places[:, 2:], axis=0)], axis=1)
                held[own, foot] = places.mean(axis=0)
    return held


def _split_stances(track: PoseTrack, foot: int, own: IntArray) -> list[IntArray]:
    """Knots of a stance, cut where its foot is suddenly elsewhere, with time for a step between the parts."""
    places = track.plants[own, foot, :2]
    jumps = 1 + np.flatnonzero(np.linalg.norm(np.diff(places, axis=0), axis=1) > SHUFFLE_M)
    for jump in jumps:
        t, at = track.times[own], float(track.times[own[jump]])
        # Times [s] from which to which a foot stands
        found = find_runs(~np.isnan(track.plants[:, 1 - foot, 0]))
        carried = next(
            (r for r in [(float(track.times[a]), float(track.times[b - 1])) for a, b in found] if r[0] <= at <= r[1]),
            (at, at),
        )
        begin = max(at - HALF_STEP_S, carried[0] + SETTLED_S)
        end = begin + 2.0 * HALF_STEP_S
        before, after = own[t <= begin], own[t >= end]
        if len(before) > 1 and len(after) > 1 and end <= carried[1]:
            return [before, *_split_stances(track, foot, after)]
    return [own]


def hold_path_feet(motion: Motion, places: FloatArray, shift: FloatArray | None = None) -> Motion:
    """Hold planted feet at ``places`` (F, 2, 3) on the ground, by :func:`marey.contacts.hold_feet`.

    Heel and toe are called down for the whole stance of a foot; from when to when each of them rests is found there.
    The contact track is that of the plants. A foot whose stance the path puts elsewhere than its poses do is moved and
    turned there. With ``shift`` (F, 2) [m] the body is moved over its feet, as a balance asks for.
    """
    names = contact_points(motion.skeleton).names
    # Joins of unlike stretches leave a body too high: the root moves, evenly from stance to stance, where no standing
    # sole is near the ground; what soles of captures differ by stays
    heights, lowest = contact_positions(motion)[:, :, 1], np.full(motion.num_frames, np.inf)
    for n, side in enumerate(SIDES):
        own = heights[:, [names.index(f"{side}_{part}") for part in ("heel", "toe")]].min(axis=1)
        lowest = np.where(np.isnan(places[:, n, 0]), lowest, np.minimum(lowest, own))
    motion = lower_root(motion, lowest - np.clip(lowest, -MAX_SOLE_M, MAX_SOLE_M), HALF_STEP_S)
    points, ankles = contact_positions(motion), motion.joint_positions()
    active = np.zeros((motion.num_frames, len(names)), dtype=bool)
    # Of each stance: its ankle in the middle, and what carries its ball to its place and turns the foot about it
    moves: dict[str, list[tuple[FloatArray, FloatArray, FloatArray, float]]] = {side: [] for side in SIDES}
    for n, side in enumerate(SIDES):
        heel, toe = (names.index(f"{side}_{part}") for part in ("heel", "toe"))
        is_planted = ~np.isnan(places[:, n, 0])
        active[:, [heel, toe]] = is_planted[:, None]
        along = points[:, toe] - points[:, heel]
        # A foot that stands on its toes has no heading of its own
        is_level = np.hypot(along[:, 0], along[:, 2]) > LEVEL * np.linalg.norm(along, axis=1).max()
        ankle = ankles[:, Limb.from_name(motion.skeleton, f"{side}_leg").end]
        stances = [own for own in find_runs(is_planted) if is_level[slice(*own)].any()]
        for start, stop in stances:
            own = start + np.flatnonzero(is_level[start:stop])
            ball, place = np.median(points[own, toe], axis=0), places[own[len(own) // 2], n]
            turn = wrap_angles(place[2] - np.arctan2(along[own, 0], along[own, 2]))
            there = np.array([place[0] - ball[0], 0.0, place[1] - ball[2]])
            moves[side].append((np.median(ankle[start:stop], axis=0), ball, there, float(np.median(turn))))

    def move_to_place(foot: str, ankle: FloatArray, heading_rad: float) -> tuple[FloatArray, float]:
        if not moves[foot]:
            return ankle, heading_rad
        _, ball, there, turn = min(moves[foot], key=lambda move: float(np.linalg.norm(move[0] - ankle)))
        return SO3.exp(turn * UP) @ (ankle - ball) + ball + there, heading_rad + turn

    held = hold_feet(motion, Contacts(names, active), PATH_HOLD, floor_m=0.0, edit=move_to_place, shift=shift)
    assert held.motion.contacts is not None
    # A plant that could not be kept is no contact, nor is what little of it is left beside
    shown = held.motion.contacts
    kept, brief = shown.active.copy(), round(HALF_STEP_S * motion.rate_hz)
    for broken in held.broken:
        for column in (n for n, name in enumerate(shown.names) if name.startswith(f"{broken.foot}_")):
            kept[broken.start : broken.stop, column] = False
            for start, stop in find_runs(kept[:, column]):
                if stop - start < brief and (stop == broken.start or start == broken.stop):
                    kept[start:stop, column] = False
    return replace(held.motion, contacts=Contacts(shown.names, kept))


LEG_SLACK_M: Final = 0.0005  # [m] that a leg is too long or too short count as much
KNEE_RAD_PER_S2: Final = 40.0  # [rad/s²] as this acceleration of what a knee is bent further than in its clip
LEAST_BEND_RAD: Final = 0.05  # [rad] at which a straighter knee is taken to change its length
NUM_ROUNDS: Final = 3  # of finding weights at the bend that they lead to
STRAIGHTEST: Final = 0.99999  # [-] extension of a leg


def smooth_knees(held: Motion, shown: Motion) -> Motion:
    r"""Knees that turn as evenly as those of the clips shown, for some tenths of a millimetre of the lengths of legs.

    A foot held by a straight leg bends its knee by degrees for a millimetre. Of :math:`c = \theta - \theta_0`, what a
    knee is bent further for its plants, the smoothest change that keeps lengths :math:`\ell(\theta)` is taken:

    .. math:: \min_x \sum_t \Big(\frac{\ell'(\theta_t)\,(x_t - c_t)}{\sigma}\Big)^2 + \Big(\frac{\ddot x_t}{a}\Big)^2

    Feet keep their headings and tilts; root and hips stay.

    Args:
        held: the motion with planted feet.
        shown: the same before its feet were held.
    """
    positions, own = held.joint_positions(), shown.joint_positions()
    for side in SIDES:
        leg = Limb.from_name(held.skeleton, f"{side}_leg")
        bones = [
            np.linalg.norm(positions[:, b] - positions[:, a], axis=-1)
            for a, b in ((leg.upper, leg.middle), (leg.middle, leg.end))
        ]
        away = positions[:, leg.end] - positions[:, leg.upper]
        far = np.linalg.norm(away, axis=-1)
        bend = measure_flexion(far, *bones)
        usual = measure_flexion(np.linalg.norm(own[:, leg.end] - own[:, leg.upper], axis=-1), *bones)
        further = bend - usual
        for _ in range(NUM_ROUNDS):
            # Change of length for a change of the bend, from where it was to where it comes to
            mean = np.clip(0.5 * (bend + usual + further), LEAST_BEND_RAD, np.pi - LEAST_BEND_RAD)
            weights = (bones[0] * bones[1] * np.sin(mean) / (far * LEG_SLACK_M)) ** 2
            further = spread_corrections(
                (bend - usual)[:, None], weights, held.rate_hz, KNEE_RAD_PER_S2**-0.5, rest=0.0
            )[:, 0]
        goals = positions[:, leg.upper] + (measure_length(usual + further, *bones) / far)[:, None] * away
        held = solve_two_bone(held, leg, goals, stretch=STRAIGHTEST).motion
    return held
