r"""Tracking with a pose model as prior: what is not seen follows from what is, and from the motion before and after.

.. math:: \min_z \sum_{t,c} \rho\Big(\frac{\|y_{tc} - \Pi_c(f(z_t))\|}{s_c}\Big)
          + \sum_t \|\Lambda^{-1}\lambda_t\|^2 + \sum_t \|Q^{-1}(z_{t+1} - 2 z_t + z_{t-1})\|^2

over the root and the model's coordinates :math:`z_t = (R_t, x_t, \lambda_t)` of all frames; :math:`\Pi` is the identity
for points in space or the projection of a camera, :math:`\rho` is Huber's. [Tournier2011]_ §3.1.1 and 16 motivates the
prior and builds none. A first pass goes frame by frame, each from the constant-velocity prediction; the second solves
all frames at once, so that a point that reappears does not make the pose jump. A person of whom nothing is known is
tracked by key points alone: body, poses and place; poses and headings are tried in key frames, and the smoothest way
through the best begins the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray, Result
from marey.kinematics import JointLimits, posing_limits
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Markers, Motion
from marey.skeleton import HUMAN, Pose, Skeleton, contact_points
from marey.tracking.observation import (
    SEGMENTS,
    Observations,
    fit_body,
    load_people_poses,
    measure_segments,
    stretch_body,
    triangulate,
)
from marey.tracking.prior_problem import (
    FRAME_STEPS,
    MAX_STEPS,
    PriorProblem,
    PriorState,
    solve_body,
    solve_frames,
)

KEY_S: Final = 0.25  # [s] between key frames: few motions change their way within it
MIN_POINTS: Final = 4  # a frame with fewer says too little
NUM_HEADINGS: Final = 12
POSE_SIGMA: Final = 1.2  # [-] poses tried: the mean, and this far along each of the first modes
NUM_MODES: Final = 2
TILTS: Final = np.array(
    [(0.0, 0.0, 0.0), (1.5, 0.0, 0.0), (-1.5, 0.0, 0.0), (3.0, 0.0, 0.0), (0.0, 0.0, 1.5), (0.0, 0.0, -1.5)]
)
GOOD_COST: Final = 3.0  # [-] a point, the prior counted in: what poses cost that explain a frame
FIRST_STEPS, LAST_STEPS, NUM_KEPT = 6, 15, 8
BODY_STEPS: Final = 25  # of body and frames together; ten in practice
SAME_M: Final = 0.05  # [m] poses whose points are nearer on average are one
SPEEDS: Final = (3.0, 3.0, 4.0)  # [m/s], [rad/s], [1/s] of root, its turn, and a coordinate in standard deviations


def is_searchable(problem: PriorProblem) -> bool:
    """Whether any frame shows enough points."""
    return bool(((problem.trust > 0.0).sum(axis=1) >= MIN_POINTS).any())


def search_starts(problem: PriorProblem) -> PriorState:
    """Guess all frames of a clip from what is seen alone.

    In each key frame, poses in several headings are solved on their own. One of the best of each is chosen so that
    their costs and the way between them are least (dynamic programming); frames between are interpolated.

    Raises:
        InputError: no frame shows enough points.
    """
    counts = (problem.trust > 0.0).sum(axis=1)
    if not is_searchable(problem):
        raise InputError(f"no frame shows {MIN_POINTS} points", "Give detections of more points, or a start")
    stride, frames = max(1, round(KEY_S * problem.rate_hz)), list[int]()
    for first in range(0, problem.num_frames, stride):
        best = first + int(np.argmax(counts[first : first + stride]))
        if counts[best] >= MIN_POINTS:
            frames.append(best)
    kept = [solve_key_frame(problem, frame) for frame in frames]
    # Viterbi over what was kept
    totals, backs = kept[0][1], list[np.ndarray]()
    for (f, g), (before, _), (after, costs) in zip(pairwise(frames), kept[:-1], kept[1:], strict=True):
        # Cost of going from each of A poses to each of B, as a random walk
        root, turn, mode = ((g - f) / problem.rate_hz * speed for speed in SPEEDS)
        away = np.square((after.roots[None] - before.roots[:, None]) / root).sum(axis=-1)
        pairs = np.repeat(np.arange(len(before.x)), len(after.x)), np.tile(np.arange(len(after.x)), len(before.x))
        angles = (before.turns[pairs[0]].inverse() @ after.turns[pairs[1]]).log().reshape(*away.shape, 3)
        steps = (after.x[None] - before.x[:, None]) / (mode * problem.deviations)
        ways = totals[:, None] + (away + np.square(angles / turn).sum(axis=-1) + np.square(steps).sum(axis=-1))
        backs.append(np.argmin(ways, axis=0))
        totals = ways.min(axis=0) + costs
    chosen = [int(np.argmin(totals))]
    for back in reversed(backs):
        chosen.append(int(back[chosen[-1]]))
    keys = PriorState.join([state[i : i + 1] for (state, _), i in zip(kept, reversed(chosen), strict=True)])
    # Frames between are interpolated, those outside are as the nearest
    places = np.interp(np.arange(problem.num_frames), frames, np.arange(len(frames)))
    low = np.minimum(places.astype(np.int64), max(len(frames) - 2, 0))
    high, share = np.minimum(low + 1, len(frames) - 1), (places - low)[:, None]
    turns = (keys.turns[low].inverse() @ keys.turns[high]).log()
    return PriorState(
        (1.0 - share) * keys.roots[low] + share * keys.roots[high],
        keys.turns[low] @ SO3.exp(share * turns),
        (1.0 - share) * keys.x[low] + share * keys.x[high],
    )


def solve_key_frame(problem: PriorProblem, frame: int) -> tuple[PriorState, FloatArray]:
    """Solve one frame from many starts; return the best answers and their costs."""
    # Poses times headings; lying, bent over and upside down too if nobody upright explains what is seen
    modes = min(NUM_MODES, len(problem.deviations))
    poses = np.zeros((1 + 2 * modes, len(problem.deviations)))
    for m in range(modes):
        poses[1 + 2 * m, m], poses[2 + 2 * m, m] = np.array([POSE_SIGMA, -POSE_SIGMA]) * problem.deviations[m]
    headings = SO3.exp(2.0 * np.pi / NUM_HEADINGS * np.arange(NUM_HEADINGS)[:, None] * np.array([0.0, 1.0, 0.0]))
    found = list[tuple[PriorState, FloatArray]]()
    for tilts in (TILTS[:1], TILTS[1:]):
        turns = SO3.concatenate([headings @ SO3.exp(tilt) for tilt in tilts for _ in poses])
        x = np.tile(np.repeat(poses, NUM_HEADINGS, axis=0), (len(tilts), 1))
        state = PriorState(np.zeros((len(x), 3)), turns, x)
        # Places of the root that bring the points of each pose nearest to what is seen: a point p + t is seen at
        # (u, v) if f r . (p + t - c) = u d . (p + t - c), which is linear in t; likewise for v with the upward axis
        seen, points = problem.seen_points, problem.place_points(state)
        rows, sides = list[FloatArray](), list[FloatArray]()
        for k in np.flatnonzero(problem.trust[frame] > 0.0).tolist():
            c, target = int(seen.cameras[k]), seen.targets[frame, k]
            if c < 0:
                rows.extend(np.eye(3))
                sides.extend((target - points[:, k]).T)
                continue
            right, up, forward = seen.axes[c]
            u, v = (target[:2] - seen.centres_px[c]) / seen.focals_px[c]
            for row in (right - u * forward, up + v * forward):
                rows.append(row)
                sides.append((seen.positions[c] - points[:, k]) @ row)
        places = np.asarray(np.linalg.lstsq(np.array(rows), np.array(sides), rcond=None)[0].T, dtype=np.float64)
        state = PriorState(places, turns, x)
        # All a few steps, the best to their end
        state, costs = solve_rows(problem.choose_frames(np.full(len(x), frame)), state, FIRST_STEPS)
        best = choose_distinct(problem, state, costs, 2 * NUM_KEPT)
        found.append(solve_rows(problem.choose_frames(np.full(len(best), frame)), state[best], LAST_STEPS))
        if found[-1][1].min() < GOOD_COST * np.count_nonzero(problem.trust[frame]):
            break
    state, costs = PriorState.join([one for one, _ in found]), np.concatenate([costs for _, costs in found])
    kept = choose_distinct(problem, state, costs, NUM_KEPT)
    return state[kept], costs[kept]


def choose_distinct(problem: PriorProblem, state: PriorState, costs: FloatArray, count: int) -> IntArray:
    """Choose the cheapest poses of which no two have their points within ``SAME_M`` of each other."""
    points, kept = problem.place_points(state), list[int]()
    for i in np.argsort(costs).tolist():
        gaps = np.linalg.norm(points[kept] - points[i], axis=-1).mean(axis=-1)
        if len(kept) < count and (gaps > SAME_M).all():
            kept.append(i)
    return np.array(kept)


def solve_rows(problem: PriorProblem, state: PriorState, max_steps: int) -> tuple[PriorState, FloatArray]:
    """Levenberg-Marquardt on poses that have nothing to do with each other, each with its own damping."""
    damping = np.full(len(state.x), 1e-2)
    blocks, g, costs = problem.linearise(state)
    diagonal = np.arange(int(blocks.shape[1]))
    for _ in range(max_steps):
        damped = blocks.copy()
        damped[:, diagonal, diagonal] *= 1.0 + damping[:, None]
        delta = np.asarray(np.linalg.solve(damped, g[..., None])[..., 0], dtype=np.float64)
        tried = state.step(problem, delta)
        new_blocks, new_g, new_costs = problem.linearise(tried)
        better = new_costs < costs
        mask = better[:, None]
        state = PriorState(
            np.where(mask, tried.roots, state.roots),
            SO3(np.where(mask, tried.turns.wxyz, state.turns.wxyz)),
            np.where(mask, tried.x, state.x),
        )
        blocks, g = np.where(mask[..., None], new_blocks, blocks), np.where(mask, new_g, g)
        costs, damping = np.where(better, new_costs, costs), np.where(better, 0.3 * damping, 8.0 * damping)
    return state, costs


@dataclass(frozen=True, slots=True, eq=False)
class PriorTracker:
    """Settings of a tracker whose prior is a pose model; the root is free, any number of cameras may watch."""

    model: PoseModel
    limits: JointLimits | None = None  # of the joints of the model: a soft wall
    noise_px: float = 3.0  # [px] standard deviation of image points
    noise_m: float = 0.005  # [m] of points in space: a marker on skin
    huber: float = 2.0  # [-] standard deviations beyond which the cost grows linearly: a wrong detection pulls no more
    spring: float = 2.0  # [-] weight of the prior; 1 is the Gaussian that the model's samples have
    max_sigma: float = 3.0  # [-] largest standard deviation of a coordinate
    limit_rad: float = 0.03  # [rad] a joint this far outside its limit costs as much as one standard deviation
    upright_rad: float | None = None  # [rad] standard deviation of the root's tilt; None: as the points say
    floor_m: float | None = None  # [m] height on which soles rest that are near it
    floor_noise_m: float = 0.03  # [m] standard deviation of a sole on the floor
    coordinate_acceleration: float = 150.0  # [1/s²] standard deviations of a coordinate: a mode at 2 Hz has 158
    root_acceleration: float = 5.0  # [m/s²] of the root: half of gravity, as in a walk
    root_turn_acceleration: float = 15.0  # [rad/s²] of the root's turn
    lost_sigma: float = 10.0  # [-] a point this many standard deviations away is not explained
    size_sigma: float | None = None  # [-] of the logarithm of the size of the body; None: the body is known
    segment_sigma: float = 0.1  # [-] of the logarithm of a segment over its share of the size
    sole_sigma_m: float = 0.015  # [m] of the thickness of the soles, where the body is unknown
    sole_noise_m: float = 0.1  # [m] as floor_noise_m, of soles that stand still under an unknown body
    still_mps: float = 1.0  # [m/s] across the line of sight: a sole at this speed counts 1/e of one that stands still

    def run(
        self,
        seen: Observations | Sequence[Observations] | Markers,
        start: Pose | None = None,
        *,
        body: Skeleton | None = None,
    ) -> PriorTrack:
        """Find the motion that explains the points, the prior counted in.

        Args:
            seen: image points of one camera or of several over the same frames, or points in space whose names are
                those of body points (see ``body_points``).
            start: where the first frame begins, of a body with the joints of the model. In images, poses and headings
                are also searched in key frames, see :func:`search_starts`, and the better answer is taken.
            body: skeleton of the person where there is no start; that of the model by default.

        Raises:
            UnknownNameError: the body has no such point.
            InputError: the start is a pose of another skeleton, or the cameras saw different frames.
        """
        skeleton = start.skeleton if start is not None else body or self.model.skeleton
        problem = PriorProblem.compile(self, seen, skeleton)
        # From the start through the frames, and from key frames; the better of both where there is a start
        guesses = list[PriorState]()
        if start is not None:
            # The coordinates of the start, inside their limits
            clip = Motion(start.skeleton, problem.rate_hz, start.root_position[None], SO3(start.rotations.wxyz[None]))
            most = self.max_sigma * problem.deviations
            x = np.clip(self.model.encode(clip), -most, most)
            state, states = (
                PriorState(start.root_position[None], SO3(start.rotations.wxyz[None, 0]), x),
                list[PriorState](),
            )
            # Each frame from the constant-velocity prediction, which also pulls it
            for f in range(problem.num_frames):
                guess = state
                if len(states) > 1:
                    before, last = states[-2:]
                    turn = (before.turns.inverse() @ last.turns).log()
                    roots = 2.0 * last.roots - before.roots
                    guess = PriorState(roots, last.turns @ SO3.exp(turn), 2.0 * last.x - before.x)
                    guess = guess.step(problem, np.zeros((1, 6 + guess.x.shape[1])))
                state = solve_frames(problem, guess, slice(f, f + 1), FRAME_STEPS, pull=len(states) > 1)
                states.append(state)
            guesses.append(PriorState.join(states))
        if start is None or (problem.views and is_searchable(problem)):
            guesses.append(search_starts(problem))
        found = [solve_frames(problem, guess, slice(0, problem.num_frames), MAX_STEPS) for guess in guesses]
        state = min(found, key=problem.cost)
        if self.size_sigma is not None and skeleton.names == HUMAN.names:
            # Errors of joints and poses last: as the poses', the prior counts once in each time between key frames
            sigmas = np.array([self.size_sigma, *[self.segment_sigma] * len(SEGMENTS), self.sole_sigma_m])
            sigmas /= np.sqrt(max(problem.num_frames / (KEY_S * problem.rate_hz), 1.0))
            problem, state = solve_body(problem.plant_soles(state), state, sigmas, BODY_STEPS)
            skeleton = problem.skeleton
        motion = Motion(skeleton, problem.rate_hz, state.roots, state.rotations(self.model), name="tracked")
        # Huber's weights; a frame is lost if what is explained weighs less than half of what is seen
        errors, trust = problem.measure_errors(state), problem.trust
        scale = self.noise_px if problem.views else self.noise_m
        weights = np.minimum(1.0, self.huber * scale / np.maximum(errors, 1e-12)) * (trust > 0.0)
        is_lost = (trust * (errors < self.lost_sigma * scale)).sum(axis=1) < 0.5 * trust.sum(axis=1)
        return PriorTrack(motion, state.x, errors, weights, np.logical_not(trust.any(axis=1)), is_lost)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriorTrack(Result):
    """A tracked clip, and how far it is from what was seen."""

    motion: Motion
    coordinates: FloatArray  # (F, k) of the model
    errors: FloatArray  # (F, K) [px] or [m] of each point, camera after camera; 0 where it was not seen
    weights: FloatArray  # (F, K) Huber's, 0 where it was not seen; far below 1 for a wrong detection
    is_predicted: BoolArray  # (F,) frames in which nothing was seen
    is_lost: BoolArray  # (F,) frames of which most points are far from where they were seen

    def __repr__(self) -> str:
        frames, predicted, lost = len(self.errors), int(self.is_predicted.sum()), int(self.is_lost.sum())
        return f"PriorTrack({frames} frames, {predicted} without any point, {lost} lost)"


ADULT_STATURE_M: Final = 1.65  # [m] mean of women (1.59) and men (1.71) of all countries, NCD-RisC 2016
SHOE_M: Final = 0.02  # [m] what soles of shoes add to the height of ankles; captured people wear 2.3 cm (median of 25)
FLOOR_PERCENT: Final = 5.0  # [%] of the frames in which the lowest foot is said to stand


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PersonTrack(Result):
    """A tracked person."""

    track: PriorTrack
    body_source: str  # "given", "stature", "triangulated", "estimated" or "assumed": where the lengths come from

    @property
    def motion(self) -> Motion:
        """The motion, on the body that was found."""
        return self.track.motion

    @property
    def frame_errors_px(self) -> FloatArray:
        """Mean distance of the seen points of each frame, ``(F,)`` [px]; 0 where nothing was seen."""
        seen = self.track.weights > 0.0
        return self.track.errors.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)

    @property
    def states(self) -> tuple[str, ...]:
        """``"tracked"``, ``"occluded"`` or ``"lost"``, for each frame."""
        pairs = zip(self.track.is_predicted.tolist(), self.track.is_lost.tolist(), strict=True)
        return tuple("occluded" if unseen else "lost" if lost else "tracked" for unseen, lost in pairs)

    def __repr__(self) -> str:
        return f"PersonTrack({self.track!r}, body {self.body_source})"


@dataclass(frozen=True, slots=True, eq=False)
class PersonTracker:
    """Settings of a tracker of whole people: shipped pose model and anatomical limits unless others are given.

    Two cameras measure the segments of a body and need no floor. One camera tells the proportions of an unknown body,
    which are estimated with the motion; its size cannot be told from its distance but by the ``stature_m``, by soles
    on the floor, or by the stature that people usually have.
    """

    model: PoseModel | None = None
    limits: JointLimits | None = None  # of the joints of the model
    has_limits: bool = True  # take anatomical limits where none are given
    body: Skeleton | None = None
    stature_m: float | None = None
    floor_m: float | None = 0.0  # [m] height of the floor; None: unknown, as where a camera is assumed
    noise_px: float = 3.0  # [px] as in PriorTracker
    upright_rad: float | None = 0.3  # [rad] as in PriorTracker
    spring: float = 1.0  # [-] as in PriorTracker; chosen on clips of other people than those of the model
    max_sigma: float = 5.0  # [-] as in PriorTracker
    size_sigma: float = 0.08  # [-] of a body of unknown stature; adults of both sexes differ by 0.06
    stature_sigma: float = 0.01  # [-] of a stature that is given
    segment_sigma: float = 0.08  # [-] as in PriorTracker; people differ by 0.03 to 0.08

    def __post_init__(self) -> None:
        if self.stature_m is not None and not 0.3 <= self.stature_m <= 3.0:
            raise InputError(f"a stature of {self.stature_m} m", "Give metres")

    def run(self, views: Observations | Sequence[Observations], start: Pose | None = None) -> PersonTrack:
        """Find the motion of a person from what one camera or several saw.

        Raises:
            InputError: the cameras saw different frames, or no frame shows enough points.
        """
        seen = (views,) if isinstance(views, Observations) else tuple(views)
        model = self.model or load_people_poses()
        body, source = self.body, "given"
        if start is not None:
            body = start.skeleton
        elif body is None:
            body, source = self._find_body(seen, model.skeleton)
        sigmas = {"stature": self.stature_sigma, "estimated": self.size_sigma}
        limits = self.limits
        if limits is None and self.has_limits:
            limits = posing_limits(body)
        # One camera tells the depth of feet by where they stand; several need no floor
        tracker = PriorTracker(
            model,
            limits,
            self.noise_px,
            spring=self.spring,
            max_sigma=self.max_sigma,
            upright_rad=self.upright_rad,
            floor_m=self.floor_m if len(seen) == 1 else None,
            size_sigma=sigmas.get(source),
            segment_sigma=self.segment_sigma,
        )
        track = tracker.run(seen, start, body=body)
        body = track.motion.skeleton
        if self.floor_m is not None or start is not None:
            return PersonTrack(track, source)
        # The height of an assumed camera means nothing: the lowest feet stand at zero
        motion = track.motion
        soles = contact_points(body).positions(*motion.joint_frames())[..., 1].min(axis=1)
        roots = motion.root_positions - (0.0, float(np.percentile(soles, FLOOR_PERCENT)), 0.0)
        return PersonTrack(replace(track, motion=replace(motion, root_positions=roots)), source)

    def _find_body(self, views: Sequence[Observations], skeleton: Skeleton) -> tuple[Skeleton, str]:
        """Body of the person: by stature, by triangulated segments, or usual and in shoes, to be estimated."""
        rest, is_human = skeleton.rest_positions(), skeleton.names == HUMAN.names
        tall = float(np.ptp(np.concatenate([rest, rest + skeleton.tips])[:, 1]))
        usual = skeleton.scaled((self.stature_m or ADULT_STATURE_M) / tall)
        if is_human:
            usual = stretch_body(usual, 1.0, {}, sole_m=SHOE_M)
        if self.stature_m is not None:
            return usual, "stature"
        if len(views) > 1 and is_human:
            lengths = measure_segments(*triangulate(views))
            if lengths:
                return fit_body(lengths), "triangulated"
        return (usual, "estimated") if is_human else (skeleton, "assumed")
