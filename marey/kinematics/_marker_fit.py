"""From markers to a body: poses, bone lengths and where the markers sit, found together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.kinematics._marker_fit_lsq import fit_bones_and_sites
from marey.kinematics._marker_fit_sets import MarkerSite, known_sites
from marey.kinematics._tasks import PointTask, PoseTask
from marey.kinematics._track import track
from marey.lie import SO3
from marey.motion import Markers, Motion
from marey.skeleton import HUMAN, Pose, Skeleton, role_map
from marey.skeleton import HUMAN_STATURE_M as STATURE_M

SPRING: Final = (
    2e-3  # [m²/rad²] of the pose prior: 1 rad weighs like 4.5 cm of one marker; settles joints without markers
)
ROUNDS: Final = 12  # alternations of poses and body
CONVERGED_FRACTION: Final = 2e-3  # [-] stop when a round improves the error by less than this part
NUM_SAMPLES: Final = 40  # frames on which the body is fitted
MIN_MARKERS: Final = 4  # fewer seen in a frame do not make a pose


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MarkerFit:
    """A body that fits a capture."""

    motion: Motion  # of the frames from ``first_frame`` on
    first_frame: int  # of the markers, where the motion starts
    sites: Mapping[str, MarkerSite]  # where each marker sits on the fitted skeleton
    scales: Mapping[str, float]  # length of each joint's offset over that of the template
    marker_rms_m: Mapping[str, float]  # [m] distance between marker and site, root mean square
    rms_m: float  # [m] over all markers and frames that were seen
    history: tuple[float, ...]  # [m] the same on the sample frames, before each round
    unused: tuple[str, ...]  # markers that no site is known for

    @property
    def skeleton(self) -> Skeleton:
        """The template with its bones scaled."""
        return self.motion.skeleton

    def __repr__(self) -> str:
        count, frames = len(self.sites), self.motion.num_frames
        return f"MarkerFit({count} markers, {frames} frames, {1e3 * self.rms_m:.1f} mm rms, {len(self.history)} rounds)"


def fit_markers(
    markers: Markers,
    skeleton: Skeleton = HUMAN,
    *,
    sites: Mapping[str, MarkerSite | str] | None = None,
    rounds: int = ROUNDS,
    num_samples: int = NUM_SAMPLES,
) -> MarkerFit:
    """Fit a skeleton to markers: alternate inverse kinematics with least squares on bone lengths and marker sites.

    Poses come from :func:`track` with one place for each marker and a weak pull to the rest pose; then, poses held,
    bone scales (the same left and right) and sites solve a linear problem with priors ([Tournier2011]_ §16, markers as
    incomplete observation). Markers with known names need no sites.

    Args:
        markers: from ``load_markers``; what was not seen is left out.
        skeleton: the template; its joints must have the roles of the canonical human for known marker names.
        sites: marker name to :class:`MarkerSite`, or to a joint's name when the place on it is not known.
        rounds: most alternations.
        num_samples: frames on which the body is fitted, spread over the capture.

    Raises:
        InputError: fewer than four markers have a site, or no frame shows four of them.
        UnknownNameError: a site names a marker or joint that does not exist.
    """
    chosen, unused = _match_sites(markers, skeleton, sites)
    columns = np.array([markers.names.index(name) for name in chosen], dtype=np.int64)
    seen = markers.valid[:, columns]
    span = _visible_span(seen)
    places, seen = markers.positions[span][:, columns], seen[span]
    body, points = _scale_template(skeleton, list(chosen.values()), places, seen)
    joints = np.array([body.index(site.joint) for site in chosen.values()], dtype=np.int64)
    samples = _choose_frames(seen, num_samples)
    body, points, history = _alternate_fits(skeleton, body, joints, points, places[samples], seen[samples], rounds)
    motion = _solve_poses(body, joints, points, places, seen, markers.rate_hz, markers.name)
    return _build_fit(skeleton, motion, span.start, tuple(chosen), joints, points, places, seen, history, unused)


def _match_sites(
    markers: Markers, skeleton: Skeleton, sites: Mapping[str, MarkerSite | str] | None
) -> tuple[dict[str, MarkerSite], tuple[str, ...]]:
    """The site of each marker that has one, sizes those of the template; and the markers without."""
    if sites is None:
        roles, known = role_map(skeleton), known_sites()
        scale = float(np.ptp(skeleton.rest_positions()[:, 1])) / float(np.ptp(HUMAN.rest_positions()[:, 1]))
        found: dict[str, MarkerSite] = {}
        for name in markers.names:
            if name in known and known[name][0] in roles:
                joint, place = known[name]
                away = STATURE_M * np.array(place) - HUMAN.rest_positions()[HUMAN.index(joint)]
                x, y, z = (scale * away).tolist()
                found[name] = MarkerSite(skeleton.names[roles[joint]], (x, y, z))
    else:
        found = {}
        for name, site in sites.items():
            markers.track(name)
            found[name] = MarkerSite(site, (0.0, 0.0, 0.0)) if isinstance(site, str) else site
            skeleton.index(found[name].joint)
    if len(found) < MIN_MARKERS:
        raise InputError(
            f"only {len(found)} of {markers.num_markers} markers have a known site",
            "Give sites={'marker': 'joint', ...}",
        )
    return found, tuple(name for name in markers.names if name not in found)


def _visible_span(seen: BoolArray) -> slice:
    enough = np.flatnonzero(seen.sum(axis=1) >= max(MIN_MARKERS, seen.shape[1] // 3))
    if not len(enough):
        raise InputError("no frame shows enough of the markers that have a site", "Name more sites, or fill gaps")
    return slice(int(enough[0]), int(enough[-1]) + 1)


def _choose_frames(seen: BoolArray, count: int) -> IntArray:
    """Frames spread over those that show the most markers."""
    total = seen.sum(axis=1)
    good = np.flatnonzero(total >= 0.9 * total.max())
    return good[np.unique(np.linspace(0, len(good) - 1, min(count, len(good))).round().astype(np.int64))]


def _scale_template(
    skeleton: Skeleton, sites: Sequence[MarkerSite], places: FloatArray, seen: BoolArray
) -> tuple[Skeleton, FloatArray]:
    """Scale the template so that distances between markers of one joint and of neighbours agree on the whole."""
    joints = np.array([skeleton.index(site.joint) for site in sites])
    points = np.array([site.point for site in sites])
    rest = skeleton.rest_positions()[joints] + points
    ours, theirs = list[float](), list[float]()
    for a in range(len(sites)):
        for b in range(a):
            both = seen[:, a] & seen[:, b]
            if both.any() and (joints[a] == joints[b] or _are_neighbours(skeleton, int(joints[a]), int(joints[b]))):
                ours.append(float(np.linalg.norm(rest[a] - rest[b])))
                theirs.append(float(np.median(np.linalg.norm(places[both, a] - places[both, b], axis=-1))))
    scale = sum(theirs) / sum(ours) if sum(ours) > 0.05 else 1.0
    scale = float(np.clip(scale, 0.5, 2.0))
    return skeleton.scaled(scale), scale * points


def _are_neighbours(skeleton: Skeleton, a: int, b: int) -> bool:
    return bool(skeleton.parents[a] == b or skeleton.parents[b] == a)


def _alternate_fits(
    template: Skeleton,
    body: Skeleton,
    joints: IntArray,
    points: FloatArray,
    places: FloatArray,
    seen: BoolArray,
    rounds: int,
) -> tuple[Skeleton, FloatArray, tuple[float, ...]]:
    first, history = points, list[float]()
    start: Pose | None = None
    for _ in range(rounds):
        motion = _solve_poses(body, joints, points, places, seen, 1.0, "sample", start)
        history.append(_marker_rms(motion, joints, points, places, seen))
        if len(history) > 1 and history[-1] > (1.0 - CONVERGED_FRACTION) * history[-2]:
            break
        body, points = fit_bones_and_sites(template, body, motion, joints, points, first, places, seen)
        start = Pose(body, motion.root_positions[0], motion.rotations[0])
    return body, points, tuple(history)


def _solve_poses(
    body: Skeleton,
    joints: IntArray,
    points: FloatArray,
    places: FloatArray,
    seen: BoolArray,
    rate_hz: float,
    name: str,
    start: Pose | None = None,
) -> Motion:
    tasks = [PointTask(int(j), places[:, m], point=points[m]) for m, j in enumerate(joints)]
    valid = np.concatenate([seen, np.ones((len(seen), 1), dtype=np.bool_)], axis=1)
    spring = PoseTask(weight=SPRING, priority=0)
    found = track(body, [*tasks, spring], rate_hz=rate_hz, valid=valid, start=start, max_iterations=60).motion
    return Motion(body, rate_hz, found.root_positions, found.rotations, name=name)


def site_positions(motion: Motion, joints: IntArray, points: FloatArray) -> FloatArray:
    """Where the sites are ``(F, M, 3)`` [m]."""
    positions, frames = motion.joint_frames()
    return positions[:, joints] + SO3(frames.wxyz[:, joints]) @ points


def _marker_rms(motion: Motion, joints: IntArray, points: FloatArray, places: FloatArray, seen: BoolArray) -> float:
    away = np.linalg.norm(site_positions(motion, joints, points) - places, axis=-1)
    return float(np.sqrt((away[seen] ** 2).mean()))


def _build_fit(
    template: Skeleton,
    motion: Motion,
    first_frame: int,
    names: tuple[str, ...],
    joints: IntArray,
    points: FloatArray,
    places: FloatArray,
    seen: BoolArray,
    history: tuple[float, ...],
    unused: tuple[str, ...],
) -> MarkerFit:
    body = motion.skeleton
    away = np.linalg.norm(site_positions(motion, joints, points) - places, axis=-1)
    rms = {name: float(np.sqrt((away[seen[:, m], m] ** 2).mean())) for m, name in enumerate(names) if seen[:, m].any()}
    sites = {
        name: MarkerSite(body.names[int(j)], (p[0], p[1], p[2]))
        for name, j, p in zip(names, joints.tolist(), points.tolist(), strict=True)
    }
    long, short = np.linalg.norm(body.offsets, axis=1), np.linalg.norm(template.offsets, axis=1)
    scales = {name: float(long[j] / short[j]) if short[j] > 0.0 else 1.0 for j, name in enumerate(body.names) if j > 0}
    total = float(np.sqrt((away[seen] ** 2).mean()))
    return MarkerFit(motion, first_frame, sites, scales, rms, total, history, unused)
