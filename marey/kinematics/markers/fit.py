"""Marker fit: simultaneous estimation of poses, bone lengths and marker sites.

Which joint carries a marker comes from its name where the name says so, else from geometry and motion; both are checked
against how the marker moves. Poses follow by Gauss-Newton steps; bone lengths and marker sites by one linear
least-squares problem on the posed frames; the two take turns.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    locate_sites,
    solve_marker_poses,
)
from marey.kinematics.markers.shape import CAP, STATURES_M, BodyShape, assign_segments, expect_landmarks, find_segments
from marey.kinematics.markers.sites import CLUSTER_SITES, Belt, MarkerSite, find_belt, parse_marker_name, place_site
from marey.lie import SO3
from marey.motion import Markers, Motion, standing_height
from marey.skeleton import HUMAN, HUMAN_STATURE_M, Skeleton, role_map

ROUNDS: Final = 20  # alternations of poses and body
CONVERGED_FRACTION: Final = 5e-3  # [-] stop when a round improves the error by less than this part
NUM_SAMPLES: Final = 40  # frames on which the body is fitted
NUM_SHAPE_SAMPLES: Final = 14  # frames on which markers without names are assigned
MIN_MARKERS: Final = 4  # fewer seen in a frame do not make a pose
MIN_HINTS: Final = 8  # named markers below which names are not trusted to start from
MIN_SEEN: Final = 0.05  # [-] part of the frames in which a marker must be seen
LANDMARK_M, CLUSTER_M = 0.03, 0.08  # [m] how far a site may be from the landmark, or the segment, that a name says
SCALE, KNOWN_SCALE = 0.10, 0.05  # [-] spread of bone scales round that of the body, its stature unknown or known
GHOST_M: Final = 0.06  # [m] a marker whose typical distance is larger moves with no segment
SWAPPED_M: Final = 0.15  # [m] a single sighting farther from its site is a swap or a ghost
NAMED_SHARE: Final = 0.5  # [-] of the markers that must have names before geometry is not asked
NO_HUMAN_M: Final = 0.035  # [m] markers that are farther from a body than this, on the whole, are not on one
SMALLEST_M, LARGEST_M = 0.2, 20.0  # [m] that the markers of one frame may span
POOR_M: Final = 0.04  # [m] a fit from names that is worse is tried without them
PATH_S: Final = 0.03  # [s] standard deviation of the window over which the path of a joint is averaged
FLIP_RADPS: Final = 10.0  # [rad/s] of a joint of the trunk: walks and runs have up to 4, spines that flip 24 to 63
PATH_RAD: Final = 0.2  # [rad] how far a joint is from there in a landing
TRUNK_RAD: Final = 0.1  # [rad] the same of joints between pelvis, head and arms, which markers show worst
TRUNK: Final = ("spine1", "spine2", "spine3", "neck", "head", "left_collar", "right_collar")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MarkerFit:
    """A body that fits a capture."""

    motion: Motion  # of the frames from ``first_frame`` on
    first_frame: int  # of the markers, where the motion starts
    start_s: float  # [s] time of the motion's first frame on the clock of the capture
    sites: Mapping[str, MarkerSite]  # where each marker sits on the fitted skeleton
    scales: Mapping[str, float]  # length of each joint's offset over that of the template
    marker_rms_m: Mapping[str, float]  # [m] distance between marker and site, root mean square
    rms_m: float  # [m] over all markers and frames that were seen
    history: tuple[float, ...]  # [m] the same on the sample frames, before each round
    left_out: Mapping[str, str]  # markers that were not used, and why
    unnamed: tuple[str, ...]  # markers whose segment was found by geometry, not by name
    swapped: int  # sightings that were left out, since they are far from where the marker sits
    belt: Belt | None  # the treadmill under the feet, where there is one

    @property
    def skeleton(self) -> Skeleton:
        """The template with its bones scaled."""
        return self.motion.skeleton

    @property
    def unused(self) -> tuple[str, ...]:
        """Markers that were left out."""
        return tuple(self.left_out)

    @property
    def height_m(self) -> float:
        """Stature of the fitted body [m]."""
        return standing_height(self.skeleton)

    def over_ground(self) -> Motion:
        """The motion as it would be on a floor: a treadmill's belt is added to the root; else the motion itself."""
        return self.motion if self.belt is None else self.belt.over_ground(self.motion)

    def __repr__(self) -> str:
        count, frames = len(self.sites), self.motion.num_frames
        return f"MarkerFit({count} markers, {frames} frames, {1e3 * self.rms_m:.1f} mm rms, {len(self.history)} rounds)"


@dataclass(slots=True, eq=False)
class _Draft:
    """A fit on sample frames while it improves."""

    body: Skeleton
    poses: MarkerPoses
    joints: IntArray  # (M,)
    points: FloatArray  # (M, 3) [m]
    expected: SitePrior
    scale: float
    spread: float


def fit_markers(
    markers: Markers,
    skeleton: Skeleton = HUMAN,
    *,
    sites: Mapping[str, MarkerSite | str] | None = None,
    height_m: float | None = None,
    names: bool = True,
    rounds: int = ROUNDS,
    num_samples: int = NUM_SAMPLES,
) -> MarkerFit:
    """Fit a skeleton to markers: segments by name or geometry, then poses, bone lengths and sites by turns.

    Poses settle what the markers leave open by how people stand; then, poses held, bone scales (the same left and
    right) and sites solve a linear problem with priors ([Tournier2011]_ §16, markers as incomplete observation).
    Markers whose names say nothing are put on the segment on whose surface they lie and with which they move.

    Args:
        markers: from ``load_markers``; what was not seen is left out.
        skeleton: the template; its joints must have the roles of the canonical human unless sites are given.
        sites: marker name to :class:`MarkerSite`, or to a joint's name when the place on it is not known.
        height_m: stature of the person [m], where it is known.
        names: whether names of markers are used as hints.
        rounds: most alternations.
        num_samples: frames on which the body is fitted, spread over the capture.

    Raises:
        InputError: the markers do not make a human, or no frame shows four of them.
        UnknownNameError: a site names a marker or joint that does not exist.
    """
    if height_m is not None and not 0.3 < height_m < 3.0:
        raise InputError(f"height_m is {height_m:g}", "Give the stature in metres, between 0.3 and 3")
    hints = _find_hints(markers, skeleton, sites, names=names)
    # Markers that are seen often enough, from the first frame that shows enough of them to the last
    left_out = _leave_out_rare(markers, None if sites is None else hints)
    kept = [m for m, name in enumerate(markers.names) if name not in left_out]
    seen = markers.valid[:, kept]
    enough = np.flatnonzero(seen.sum(axis=1) >= max(MIN_MARKERS, seen.shape[1] // 3))
    if not len(enough):
        raise InputError("no frame shows enough of the markers", "Give a capture with at least four markers in a frame")
    span = slice(int(enough[0]), int(enough[-1]) + 1)
    places, seen = markers.positions[span][:, kept], seen[span]
    labels = [markers.names[m] for m in kept]
    # The body is fitted on frames spread over those that show the most markers
    total = seen.sum(axis=1)
    good = np.flatnonzero(total >= 0.9 * total.max())
    samples = good[np.unique(np.linspace(0, len(good) - 1, min(num_samples, len(good))).round().astype(np.int64))]
    shown = places[samples], seen[samples]
    told = [hints.get(label) for label in labels]
    extent = float(np.median([np.ptp(x[s], axis=0).max() for x, s in zip(*shown, strict=True)]))
    if not SMALLEST_M < extent < LARGEST_M:
        raise InputError(
            f"the markers of a frame span {extent:.3g} m", "Check the unit, and leave out what is no person"
        )
    draft, num_named = None, sum(hint is not None for hint in told)
    if sites is not None or num_named >= MIN_HINTS:
        draft = _start_from_hints(skeleton, *shown, told, height_m, is_given=sites is not None)
        num_named = sum(hint is not None for hint in told)
    is_doubtful = False
    if draft is not None and sites is None:
        # Names alone make a poor start where few of the markers have one, or the body is no person's
        is_few = num_named < NAMED_SHARE * len(told)
        is_doubtful = is_few or not _is_stature(draft) or _typical_distance(draft, *shown) > POOR_M
    if draft is None or is_doubtful:
        found = _start_from_shape(skeleton, places, seen, samples, markers.rate_hz, height_m)
        if (
            draft is None
            or not _is_stature(draft)
            or _typical_distance(found, *shown) < _typical_distance(draft, *shown)
        ):
            draft, told = found, [None] * len(labels)
    prior = StandingPrior.standing(skeleton)
    trust, history = _alternate(draft, *shown, skeleton, prior, rounds, has_ghosts=sites is None)
    ghosts = np.flatnonzero(trust < 0.5)
    left_out |= {labels[m]: "it moves with no segment of the body" for m in ghosts}
    on_body = np.flatnonzero(trust > 0.5)
    if len(on_body) < MIN_MARKERS:
        raise InputError(f"only {len(on_body)} of {markers.num_markers} markers move with a body", "Give sites")
    # The fitted body in all frames, and how near its sites come to the markers
    data = LabelledPoints(draft.joints[on_body], draft.points[on_body], places[:, on_body], seen[:, on_body])
    poses = _solve_all_frames(draft.body, data, draft.poses, samples, prior)
    poses = _follow_paths(draft.body, data, poses, prior, markers.rate_hz)
    away = np.linalg.norm(locate_sites(draft.body, poses, data.joints, data.points) - data.places, axis=-1)
    good = data.seen & (away < SWAPPED_M)
    swapped = int((data.seen & ~good).sum())
    if sites is None and _root_mean_square(away[good]) > NO_HUMAN_M:
        raise InputError(
            f"the markers do not move as a human: {1e3 * _root_mean_square(away[good]):.0f} mm from the nearest body",
            "Give sites={'marker': 'joint', ...}",
        )
    used_labels = [labels[m] for m in on_body]
    rms = {label: _root_mean_square(away[good[:, m], m]) for m, label in enumerate(used_labels) if good[:, m].any()}
    found_sites = {
        label: MarkerSite(draft.body.names[int(j)], (p[0], p[1], p[2]))
        for label, j, p in zip(used_labels, data.joints.tolist(), data.points.tolist(), strict=True)
    }
    long, short = np.linalg.norm(draft.body.offsets, axis=1), np.linalg.norm(skeleton.offsets, axis=1)
    scales = {n: float(long[j] / short[j]) if short[j] > 0.0 else 1.0 for j, n in enumerate(draft.body.names) if j > 0}
    motion = Motion(draft.body, markers.rate_hz, poses.roots, poses.rotations.continuous(), name=markers.name)
    return MarkerFit(
        motion=motion,
        first_frame=span.start,
        start_s=markers.start_s + span.start / markers.rate_hz,
        sites=found_sites,
        scales=scales,
        marker_rms_m=rms,
        rms_m=_root_mean_square(away[good]),
        history=tuple(history),
        left_out=left_out,
        unnamed=tuple(label for label in used_labels if told[labels.index(label)] is None),
        swapped=swapped,
        belt=find_belt(motion),
    )


def _leave_out_rare(markers: Markers, given: Mapping[str, object] | None) -> dict[str, str]:
    """Markers that are hardly ever seen, or have no site where sites are ``given``, with the reason."""
    left_out: dict[str, str] = {}
    for m, name in enumerate(markers.names):
        part = float(markers.valid[:, m].mean()) if markers.num_frames else 0.0
        if part < MIN_SEEN or markers.valid[:, m].sum() < 2 <= markers.num_frames:
            left_out[name] = "never seen" if part == 0.0 else f"seen in {100 * part:.1f} % of the frames"
        elif given is not None and name not in given:
            left_out[name] = "no site was given"
    return left_out


def _alternate(
    draft: _Draft,
    places: FloatArray,
    seen: BoolArray,
    template: Skeleton,
    prior: StandingPrior,
    rounds: int,
    *,
    has_ghosts: bool,
) -> tuple[FloatArray, list[float]]:
    """Improve poses, and body with sites, by turns; a marker that moves with no segment loses its weight on the way.

    Returns:
        Weight of each marker ``(M,)``, next to nothing for ghosts, and the RMS distance [m] in each round.
    """
    trust, history = np.ones(len(draft.joints)), list[float]()
    for _ in range(max(rounds, 1)):
        data = LabelledPoints(draft.joints, draft.points, places, seen)
        draft.poses = solve_marker_poses(draft.body, data, draft.poses, prior, steps=3, weights=trust)
        away = _distances(draft, places, seen)
        if has_ghosts and len(history) == 3:
            trust = np.where(_median_where_seen(away, seen) > GHOST_M, 1e-6, 1.0)
        used = seen & (trust > 0.5)
        history.append(float(np.sqrt((np.minimum(away, SWAPPED_M)[used] ** 2).mean())))
        if len(history) > 5 and history[-1] > (1.0 - CONVERGED_FRACTION) * history[-2]:
            break
        data = LabelledPoints(draft.joints, draft.points, places, used)
        draft.body, draft.points = fit_bones_and_sites(
            template, draft.poses, data, draft.expected, scale=draft.scale, spread=draft.spread
        )
    return trust, history


def _find_hints(
    markers: Markers, skeleton: Skeleton, sites: Mapping[str, MarkerSite | str] | None, *, names: bool
) -> dict[str, tuple[MarkerSite, float]]:
    """What is known of markers before any look at them: site, and how far it may be off [m]."""
    found: dict[str, tuple[MarkerSite, float]] = {}
    if sites is not None:
        for name, site in sites.items():
            markers.track(name)
            given = MarkerSite(site, (0.0, 0.0, 0.0)) if isinstance(site, str) else site
            skeleton.index(given.joint)
            found[name] = (given, CLUSTER_M if isinstance(site, str) else LANDMARK_M)
        if len(found) < MIN_MARKERS:
            raise InputError(f"only {len(found)} of {markers.num_markers} markers have a site", "Name at least four")
        return found
    for name in markers.names if names else ():
        site = parse_marker_name(name)
        place = None if site is None else place_site(site, skeleton)
        if site is not None and place is not None:
            found[name] = (place, CLUSTER_M if site.split(".")[-1] in CLUSTER_SITES else LANDMARK_M)
    return found


def _start_from_hints(
    skeleton: Skeleton,
    places: FloatArray,
    seen: BoolArray,
    told: list[tuple[MarkerSite, float] | None],
    height_m: float | None,
    *,
    is_given: bool,
) -> _Draft:
    """Pose the body by its hinted markers, then put the others on the segments with which they move."""
    prior = StandingPrior.standing(skeleton)
    known = np.array([m for m, hint in enumerate(told) if hint is not None])
    hinted = [hint for hint in told if hint is not None]
    joints = np.array([skeleton.index(site.joint) for site, _ in hinted], dtype=np.int64)
    points = np.array([site.point for site, _ in hinted])
    # Scale of the template at which distances between markers of one joint and of neighbours agree on the whole
    found, shown = places[:, known], seen[:, known]
    unscaled = skeleton.rest_positions()[joints] + points
    ours, theirs = list[float](), list[float]()
    for a in range(len(joints)):
        for b in range(a):
            both, i, j = shown[:, a] & shown[:, b], joints[a], joints[b]
            if both.any() and (i == j or skeleton.parents[i] == j or skeleton.parents[j] == i):
                ours.append(float(np.linalg.norm(unscaled[a] - unscaled[b])))
                theirs.append(float(np.median(np.linalg.norm(found[both, a] - found[both, b], axis=-1))))
    scale = sum(theirs) / sum(ours) if sum(ours) > 0.05 else 1.0
    scale = float(np.clip(scale, 0.5, 2.0))
    spread = SCALE
    if height_m is not None:
        scale, spread = height_m / HUMAN_STATURE_M, KNOWN_SCALE
    body, points = skeleton.scaled(scale), scale * points
    expected = SitePrior(points, np.array([width for _, width in hinted]))
    trust = np.ones(len(known))
    data = LabelledPoints(joints, points, places[:, known], seen[:, known])
    # Neutral poses, each turned and moved rigidly onto the markers of trunk and pelvis (Kabsch's rotation)
    frames, roles = len(data.places), role_map(body)
    wxyz = np.tile(prior.neutral.wxyz, (frames, 1, 1))
    sites = locate_sites(body, MarkerPoses(np.zeros((frames, 3)), SO3(wxyz)), data.joints, data.points)
    core = [roles[name] for name in ("pelvis", "spine1", "spine2", "spine3") if name in roles]
    is_core = np.isin(data.joints, core)
    thigh = np.isin(
        data.joints, [roles[n] for n in ("left_hip", "right_hip", "left_collar", "right_collar") if n in roles]
    )
    weight = np.where(is_core, 1.0, np.where(thigh, 0.1, 0.01)) * data.seen
    total = np.maximum(weight.sum(axis=1), 1e-9)[:, None]
    ours = (weight[..., None] * sites).sum(axis=1) / total
    theirs = (weight[..., None] * data.places).sum(axis=1) / total
    cross = np.einsum("fm,fmi,fmj->fij", weight, sites - ours[:, None], data.places - theirs[:, None])
    left, _, right = np.linalg.svd(cross)
    flip = np.linalg.det(left @ right)
    left[:, :, 2] *= flip[:, None]
    turn = SO3.from_matrix(np.swapaxes(left @ right, 1, 2))
    wxyz[:, 0] = (turn @ SO3(wxyz[:, 0])).wxyz
    poses = MarkerPoses(theirs - turn @ ours, SO3(wxyz))
    poses = solve_marker_poses(body, data, poses, prior, steps=10, weights=trust, far_m=0.3)
    for _ in range(4):
        poses = solve_marker_poses(body, data, poses, prior, steps=4, weights=trust)
        body, points = fit_bones_and_sites(skeleton, poses, data, expected, scale=scale, spread=spread)
        data = LabelledPoints(joints, points, places[:, known], seen[:, known])
    away = np.linalg.norm(locate_sites(body, poses, joints, points) - data.places, axis=-1)
    wander = _median_where_seen(away, data.seen)
    if is_given or (len(known) == len(told) and float(wander.max()) < GHOST_M):
        return _Draft(body, poses, joints, points, expected, scale, spread)
    # Other markers go where they lie and move; a name that contradicts the motion is overruled
    shape = BodyShape.from_template(skeleton)
    said = np.full(len(told), -1)
    said[known] = joints
    alone = np.arange(len(told))
    all_joints, all_points, below, costs = assign_segments(body, shape, poses, places, seen, alone, said)
    prior_all = expect_landmarks(shape, body, all_joints, all_points, below)
    new_points, width = prior_all.points.copy(), prior_all.spread.copy()
    for k, m in enumerate(known):
        if wander[k] < GHOST_M or costs[m] >= CAP:
            all_joints[m], all_points[m] = joints[k], points[k]
            new_points[m], width[m] = expected.points[k], expected.spread[k]
        else:
            told[m] = None
    return _Draft(body, poses, all_joints, all_points, SitePrior(new_points, width), scale, spread)


def _start_from_shape(
    skeleton: Skeleton,
    places: FloatArray,
    seen: BoolArray,
    samples: IntArray,
    rate_hz: float,
    height_m: float | None,
) -> _Draft:
    """Put a body under markers of which no name is known, in all sample frames."""
    shape, prior = BodyShape.from_template(skeleton), StandingPrior.standing(skeleton)
    few = samples[np.unique(np.linspace(0, len(samples) - 1, NUM_SHAPE_SAMPLES).round().astype(np.int64))]
    x, is_seen = places[few], seen[few]
    # The most upright frame: tall for its width
    tallness = [
        np.ptp(x[f][s][:, 1]) / (1e-3 + np.sqrt(x[f][s][:, [0, 2]].var(axis=0).sum())) for f, s in enumerate(is_seen)
    ]
    # The direction in which the body walks, as long as it is sure: a foot on the ground moves backward under the
    # body, on a floor as on a belt
    weight = seen.astype(np.float64)
    centre = (places * weight[..., None]).sum(axis=1) / np.maximum(weight.sum(axis=1), 1.0)[:, None]
    apart = places - centre[:, None]
    speed = np.gradient(apart, axis=0) * rate_hz if len(places) > 2 else np.zeros_like(apart)
    low = np.where(seen, places[..., 1], np.inf)
    floor = np.percentile(low[np.isfinite(low)], 2)
    on_floor = (low < floor + 0.10) & seen & (np.abs(speed[..., 1]) < 0.6)
    on_floor[1:] &= seen[:-1]
    on_floor[:-1] &= seen[1:]
    if on_floor.sum() < 10:
        forward = np.zeros(3)
    else:
        back = np.median(speed[on_floor], axis=0) * [1.0, 0.0, 1.0]
        size = float(np.linalg.norm(back))
        forward = -back / size if size > 0.3 else np.zeros(3)
    found = find_segments(shape, x, is_seen, forward, height_m=height_m, reference=int(np.argmax(tallness)))
    # From the frames of the search to all samples, each from the nearest
    near = np.abs(samples[:, None] - few).argmin(axis=1)
    start = MarkerPoses(found.poses.roots[near], found.poses.rotations[near])
    shift = _shift_between(places[samples], seen[samples], places[few[near]], seen[few[near]])
    start = MarkerPoses(start.roots + shift, start.rotations)
    trust = 1.0 / (1.0 + (found.costs / 9.0) ** 2)
    data = LabelledPoints(found.joints, found.points, places[samples], seen[samples])
    poses = solve_marker_poses(found.body, data, start, prior, steps=8, weights=trust, far_m=0.3)
    poses = solve_marker_poses(found.body, data, poses, prior, steps=4, weights=trust)
    count = int(places.shape[1])
    alone = np.arange(count)
    joints, points, below, _ = assign_segments(
        found.body, shape, poses, places[samples], seen[samples], alone, np.full(count, -1)
    )
    expected = expect_landmarks(shape, found.body, joints, points, below)
    scale = float(np.median(shape.sizes(found.body)))
    return _Draft(found.body, poses, joints, points, expected, scale, SCALE if height_m is None else KNOWN_SCALE)


def _shift_between(places: FloatArray, seen: BoolArray, others: FloatArray, seen_other: BoolArray) -> FloatArray:
    """Mean way ``(F, 3)`` [m] of the markers that two rows of frames share."""
    both = (seen & seen_other)[..., None]
    return ((places - others) * both).sum(axis=1) / np.maximum(both.sum(axis=1), 1)


def _solve_all_frames(
    body: Skeleton, data: LabelledPoints, poses: MarkerPoses, samples: IntArray, prior: StandingPrior
) -> MarkerPoses:
    """Poses of every frame: first of few, each from the nearest sample, then of more and more between them."""
    count, trust = len(data.places), np.ones(len(data.joints))
    known = samples
    for stride, steps in ((16, 8), (4, 4), (1, 3)):
        rows = np.arange(0, count, stride)
        near = np.abs(rows[:, None] - known).argmin(axis=1) if len(known) < 4096 else np.searchsorted(known, rows) - 1
        near = np.clip(near, 0, len(known) - 1)
        part = LabelledPoints(data.joints, data.points, data.places[rows], data.seen[rows])
        shift = _shift_between(part.places, part.seen, data.places[known[near]], data.seen[known[near]])
        start = MarkerPoses(poses.roots[near] + shift, poses.rotations[near])
        poses, known = solve_marker_poses(body, part, start, prior, steps=steps, weights=trust), rows
    # Frames that show too little take the pose between their neighbours
    dark = data.seen.sum(axis=1) < MIN_MARKERS
    if dark.any():
        light = np.flatnonzero(~dark)
        after = np.clip(np.searchsorted(light, np.flatnonzero(dark)), 1, len(light) - 1)
        a, b, f = light[after - 1], light[after], np.flatnonzero(dark)
        t = ((f - a) / np.maximum(b - a, 1))[:, None]
        roots, wxyz = poses.roots.copy(), poses.rotations.wxyz.copy()
        roots[f] = (1.0 - t) * roots[a] + t * roots[b]
        wxyz[f] = SO3(wxyz[a]).slerp(SO3(wxyz[b]), t).wxyz
        poses = MarkerPoses(roots, SO3(wxyz))
    return poses


def _follow_paths(
    body: Skeleton, data: LabelledPoints, poses: MarkerPoses, prior: StandingPrior, rate_hz: float
) -> MarkerPoses:
    """Poses once more, each joint near the mean of its own path, where the trunk turns faster than trunks do.

    A spine that is pressed together bends either way with markers as near, and frames that are solved on their own go
    from one to the other: by a radian within a frame, and several times gravity in the centre of mass.
    """
    from scipy.ndimage import gaussian_filter1d

    roles, turns = role_map(body), poses.rotations.continuous()
    trunk = [roles[name] for name in TRUNK if name in roles]
    speed = rate_hz * np.linalg.norm((turns[:-1, trunk].inverse() @ turns[1:, trunk]).log(), axis=-1)
    if speed.max(initial=0.0) < FLIP_RADPS:
        return poses
    paths = np.asarray(gaussian_filter1d(turns.wxyz, PATH_S * rate_hz, axis=0, mode="nearest"), dtype=np.float64)
    paths = paths / np.linalg.norm(paths, axis=-1, keepdims=True)
    spread = np.minimum(prior.spread, PATH_RAD)
    spread[trunk], spread[0] = np.minimum(spread[trunk], TRUNK_RAD), prior.spread[0]
    near = replace(prior, neutral=SO3(paths), spread=spread)
    return solve_marker_poses(body, data, poses, near, steps=4, weights=np.ones(len(data.joints)))


def _distances(draft: _Draft, places: FloatArray, seen: BoolArray) -> FloatArray:
    """Distance of each marker from its site ``(F, M)`` [m]; 0 where it was not seen."""
    return np.linalg.norm(locate_sites(draft.body, draft.poses, draft.joints, draft.points) - places, axis=-1) * seen


def _typical_distance(draft: _Draft, places: FloatArray, seen: BoolArray) -> float:
    return float(np.sqrt((np.minimum(_distances(draft, places, seen), SWAPPED_M)[seen] ** 2).mean()))


def _is_stature(draft: _Draft) -> bool:
    low, high = STATURES_M
    return low < standing_height(draft.body) < high


def _median_where_seen(values: FloatArray, seen: BoolArray) -> FloatArray:
    """Median over the frames in which each marker was seen ``(M,)``; 0 where it never was."""
    return np.array([np.median(values[seen[:, m], m]) if seen[:, m].any() else 0.0 for m in range(values.shape[1])])


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt((values**2).mean())) if values.size else 0.0
