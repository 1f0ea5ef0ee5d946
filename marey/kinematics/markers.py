"""Marker fit: simultaneous estimation of poses, bone lengths and marker sites.

Named marker sets assign each marker to a joint. Poses follow by inverse kinematics; bone lengths and marker
sites by one linear least-squares problem on the posed frames; the two steps take turns.

Places are those of the T-pose as fractions of the stature, x left, y up, z forward, seen from surface anatomy; they are
only a first guess that the fit corrects. Joints are those that carry the bone under the marker: a marker on the outer
knee belongs to the thigh, hence to the hip joint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.kinematics.ik.clip import track
from marey.kinematics.ik.tasks import PointTask, PoseTask
from marey.lie import SO3
from marey.motion import Markers, Motion
from marey.skeleton import HUMAN, NO_PARENT, Pose, Skeleton, role_map
from marey.skeleton import HUMAN_STATURE_M as STATURE_M

SitePosition = tuple[str, tuple[float, float, float]]

_MIDDLE: Final[Mapping[str, SitePosition]] = {
    "S2": ("pelvis", (0.0, 0.550, -0.062)),
    "C7": ("spine3", (0.0, 0.842, -0.045)),
    "T10": ("spine2", (0.0, 0.720, -0.062)),
    "CLAV": ("spine3", (0.0, 0.800, 0.035)),
    "STRN": ("spine3", (0.0, 0.715, 0.060)),
}
_LEFT: Final[Mapping[str, SitePosition]] = {  # of the left side; the right one is its mirror image
    "ASIS": ("pelvis", (0.070, 0.565, 0.055)),
    "PSIS": ("pelvis", (0.027, 0.565, -0.055)),
    "Shoulder": ("collar", (0.108, 0.850, -0.008)),
    "Clavicle": ("spine3", (0.014, 0.810, 0.035)),
    "Biceps": ("shoulder", (0.200, 0.818, 0.018)),
    "Elbow": ("shoulder", (0.300, 0.818, -0.032)),
    "Forearm": ("elbow", (0.370, 0.818, -0.015)),
    "Wrist": ("elbow", (0.442, 0.818, -0.025)),
    "TH1": ("hip", (0.090, 0.430, 0.030)),
    "TH2": ("hip", (0.095, 0.410, -0.010)),
    "TH3": ("hip", (0.088, 0.350, 0.010)),
    "TH4": ("hip", (0.088, 0.350, -0.020)),
    "Knee": ("hip", (0.082, 0.288, 0.004)),
    "SH1": ("knee", (0.080, 0.240, 0.015)),
    "SH2": ("knee", (0.085, 0.210, -0.020)),
    "SH3": ("knee", (0.080, 0.190, 0.010)),
    "SH4": ("knee", (0.080, 0.170, -0.020)),
    "Ankle": ("knee", (0.075, 0.040, -0.012)),
    "Heel": ("ankle", (0.052, 0.022, -0.045)),
    "MT5": ("ankle", (0.085, 0.015, 0.055)),
    "Toe": ("ankle", (0.050, 0.022, 0.095)),
    "LFC": ("hip", (0.082, 0.288, 0.004)),
    "MFC": ("hip", (0.022, 0.288, 0.004)),
    "TB1": ("knee", (0.080, 0.230, 0.020)),
    "TB2": ("knee", (0.080, 0.180, 0.020)),
    "TB3": ("knee", (0.075, 0.130, 0.015)),
    "LMAL": ("knee", (0.075, 0.040, -0.012)),
    "MMAL": ("knee", (0.030, 0.043, -0.008)),
    "CAL": ("ankle", (0.052, 0.022, -0.045)),
    "MT1": ("ankle", (0.035, 0.025, 0.065)),
    "MT2": ("ankle", (0.052, 0.030, 0.070)),
    "HJC": ("hip", (0.052, 0.530, 0.0)),
    "KJC": ("knee", (0.052, 0.285, 0.004)),
    "AJC": ("ankle", (0.052, 0.039, -0.010)),
}
_SHORT: Final = {"ASI": "ASIS", "PSI": "PSIS"}


@dataclass(frozen=True, slots=True)
class MarkerSite:
    """Where a marker sits: a joint's name and a point in its frame [m]."""

    joint: str
    point: tuple[float, float, float]


def known_sites() -> dict[str, SitePosition]:
    """All marker names that are known, both sides, in the spellings "R.ASIS", "RASI" and "RASIS"."""
    found: dict[str, SitePosition] = {**_MIDDLE}
    for side, letter, sign in (("left_", "L", 1.0), ("right_", "R", -1.0)):
        for name, (joint, (x, y, z)) in _LEFT.items():
            carrier = joint if joint in ("pelvis", "spine3") else side + joint
            place = (carrier, (sign * x, y, z))
            found[f"{letter}.{name}"] = found[letter + name] = place
            for short, long in _SHORT.items():
                if long == name:
                    found[letter + short] = place
    return found


MARKER_M: Final = 0.005  # [m] what skin and cameras move a marker
SITE_M: Final = 0.03  # [m] how far the first guess of a site may be off
SCALE: Final = 0.10  # [-] how far a bone's scale may be from that of the whole body


def fit_bones_and_sites(
    template: Skeleton,
    body: Skeleton,
    motion: Motion,
    joints: IntArray,
    first_points: FloatArray,
    places: FloatArray,
    seen: BoolArray,
) -> tuple[Skeleton, FloatArray]:
    r"""Bones and sites that put the markers nearest to where they were seen, poses held.

    .. math:: y_m = x_0 + \sum_{a \preceq j} s_a R_{p(a)}\,o_a + R_j\,c_m

    is linear in the scales s, one for each bone and its mirror image, and in the sites c. Frames count as one
    observation on the mean, since their errors are not independent; Gaussian priors hold what the motion does not show.
    """
    positions, frames = motion.joint_frames()
    groups = group_bones(template)
    count, num_groups = len(joints), int(groups.max()) + 1
    lengths, first_lengths = (np.linalg.norm(s.offsets[1:], axis=1) for s in (body, template))
    is_bone = first_lengths > 1e-6
    overall = float(np.median(lengths[is_bone] / first_lengths[is_bone]))
    # How each marker's joint moves with each scale: (F, M, 3, G) [m]
    steps = np.zeros((frames.shape[0], template.num_joints, 3))
    for j in range(1, template.num_joints):
        steps[:, j] = SO3(frames.wxyz[:, template.parents[j]]) @ template.offsets[j]
    columns = np.zeros((frames.shape[0], len(joints), 3, num_groups))
    for m, joint in enumerate(joints):
        j = int(joint)
        while j > 0:
            columns[:, m, :, groups[j]] += steps[:, j]
            j = int(template.parents[j])
    # Normal equations: rows of all markers, each the mean of its frames, and the priors
    size = num_groups + 3 * count
    normal, b = np.zeros((size, size)), np.zeros(size)
    for m in range(count):
        use = seen[:, m]
        if not use.any():
            continue
        site = slice(num_groups + 3 * m, num_groups + 3 * m + 3)
        R = SO3(frames.wxyz[use][:, joints[m]]).matrix()
        A = np.zeros((int(use.sum()), 3, size))
        A[:, :, :num_groups] = columns[use][:, m]
        A[:, :, site] = R
        y = places[use, m] - positions[use, 0]
        weight = 1.0 / (use.sum() * MARKER_M**2)
        normal += weight * np.einsum("fri,frj->ij", A, A)
        b += weight * np.einsum("fri,fr->i", A, y)
    prior = np.concatenate([np.full(num_groups, SCALE**-2), np.full(3 * count, SITE_M**-2)])
    centre = np.concatenate([np.full(num_groups, overall), first_points.ravel()])
    found = np.asarray(np.linalg.solve(normal + np.diag(prior), b + prior * centre), dtype=np.float64)
    scales = np.clip(found[:num_groups], 0.6 * overall, 1.6 * overall)
    # The template with the offset, and tip, of each joint scaled on its own
    factors = scales[groups][:, None]
    offsets, tips = template.offsets * factors, template.tips * factors
    fitted = Skeleton(template.names, template.parents, offsets, tips, template.limits, template.name)
    return fitted, found[num_groups:].reshape(-1, 3)


def group_bones(skeleton: Skeleton) -> IntArray:
    """Number of the scale that each joint's offset has ``(J,)``: left and right share one, and so do bones of a spine.

    Joints are mirror images when their rest positions are, and their parents too.
    """
    rest, groups = skeleton.rest_positions(), np.zeros(skeleton.num_joints, dtype=np.int64)
    near = 1e-3 * float(np.ptp(rest, axis=0).max())
    next_group = 1
    for j in range(1, skeleton.num_joints):
        # The joint on the other side, if it came before
        image = rest[j] * [-1.0, 1.0, 1.0]
        twins = [k for k in range(1, j) if np.linalg.norm(rest[k] - image) < near and abs(rest[j, 0]) > near]
        parent = int(skeleton.parents[j])
        is_only_child = parent != NO_PARENT and (skeleton.parents == parent).sum() == 1
        if twins:
            groups[j] = groups[twins[0]]
        elif is_only_child and abs(rest[j, 0]) <= near and groups[parent] > 0:
            groups[j] = groups[parent]  # a chain in the middle: the spine
        else:
            groups[j] = next_group
            next_group += 1
    return groups


SPRING: Final = 2e-3  # [m²/rad²] of the pose prior: 1 rad weighs like 4.5 cm of one marker
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
    # Markers with a known site, from the first frame that shows enough of them to the last
    chosen, unused = _match_sites(markers, skeleton, sites)
    columns = np.array([markers.names.index(name) for name in chosen], dtype=np.int64)
    seen = markers.valid[:, columns]
    enough = np.flatnonzero(seen.sum(axis=1) >= max(MIN_MARKERS, seen.shape[1] // 3))
    if not len(enough):
        raise InputError("no frame shows enough of the markers that have a site", "Name more sites, or fill gaps")
    span = slice(int(enough[0]), int(enough[-1]) + 1)
    places, seen = markers.positions[span][:, columns], seen[span]
    # The template is scaled so that distances between markers of one joint and of neighbours agree on the whole
    joints = np.array([skeleton.index(site.joint) for site in chosen.values()], dtype=np.int64)
    points = np.array([site.point for site in chosen.values()])
    rest = skeleton.rest_positions()[joints] + points
    ours, theirs = list[float](), list[float]()
    for a in range(len(joints)):
        for b in range(a):
            both, i, j = seen[:, a] & seen[:, b], joints[a], joints[b]
            if both.any() and (i == j or skeleton.parents[i] == j or skeleton.parents[j] == i):
                ours.append(float(np.linalg.norm(rest[a] - rest[b])))
                theirs.append(float(np.median(np.linalg.norm(places[both, a] - places[both, b], axis=-1))))
    scale = sum(theirs) / sum(ours) if sum(ours) > 0.05 else 1.0
    scale = float(np.clip(scale, 0.5, 2.0))
    body, points = skeleton.scaled(scale), scale * points
    # The body is fitted on frames spread over those that show the most markers
    total = seen.sum(axis=1)
    good = np.flatnonzero(total >= 0.9 * total.max())
    samples = good[np.unique(np.linspace(0, len(good) - 1, min(num_samples, len(good))).round().astype(np.int64))]
    goals, is_goal = places[samples], seen[samples]
    first_points, history = points, list[float]()
    start: Pose | None = None
    for _ in range(rounds):
        posed = _solve_poses(body, joints, points, goals, is_goal, 1.0, "sample", start)
        away = np.linalg.norm(site_positions(posed, joints, points) - goals, axis=-1)
        history.append(float(np.sqrt((away[is_goal] ** 2).mean())))
        if len(history) > 1 and history[-1] > (1.0 - CONVERGED_FRACTION) * history[-2]:
            break
        body, points = fit_bones_and_sites(skeleton, body, posed, joints, first_points, goals, is_goal)
        start = Pose(body, posed.root_positions[0], posed.rotations[0])
    # The fitted body in all frames, and how near its sites come to the markers
    motion = _solve_poses(body, joints, points, places, seen, markers.rate_hz, markers.name)
    away = np.linalg.norm(site_positions(motion, joints, points) - places, axis=-1)
    rms = {name: float(np.sqrt((away[seen[:, m], m] ** 2).mean())) for m, name in enumerate(chosen) if seen[:, m].any()}
    found = {
        name: MarkerSite(body.names[int(j)], (p[0], p[1], p[2]))
        for name, j, p in zip(chosen, joints.tolist(), points.tolist(), strict=True)
    }
    long, short = np.linalg.norm(body.offsets, axis=1), np.linalg.norm(skeleton.offsets, axis=1)
    scales = {name: float(long[j] / short[j]) if short[j] > 0.0 else 1.0 for j, name in enumerate(body.names) if j > 0}
    overall = float(np.sqrt((away[seen] ** 2).mean()))
    return MarkerFit(motion, span.start, found, scales, rms, overall, tuple(history), unused)


def _match_sites(
    markers: Markers, skeleton: Skeleton, sites: Mapping[str, MarkerSite | str] | None
) -> tuple[dict[str, MarkerSite], tuple[str, ...]]:
    """The site of each marker that has one, sizes those of the template; and the markers without."""
    if sites is None:
        # Sites of known names, from the places on a T-pose
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
