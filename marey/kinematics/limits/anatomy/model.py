"""Anatomical joint limits of any skeleton with a role map: published ranges of motion and captured people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Final, final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError
from marey.kinematics.limits.anatomy.check import (
    PEAK_SLACK,
    PEAK_STEP_RAD,
    AnatomicalTables,
    check_anatomy,
    measure_anatomy,
)
from marey.kinematics.limits.anatomy.people import (
    HEIGHT_TOL,
    LEFT,
    MOST_MEMBERS,
    ORDER,
    OTHER,
    PARTS,
    REGIONS,
    STEP_RAD,
    STUB_RAD,
    SYNERGIES,
    TWIST_BONE_RAD,
    JointPart,
    PeopleRanges,
    load_people,
    swap_sides,
)
from marey.kinematics.limits.contract import Arrays, JointLimits, LimitCheck, contiguous_wxyz, run_check
from marey.kinematics.limits.distance_field import find_nearest_points
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import NO_PARENT, ROLES, Skeleton, assess_anatomy, role_map, t_pose
from marey.skeleton.body import is_drawn_as_person

REGION_MARGIN_RAD: Final = 0.05  # [rad] what a solver may leave of a coupling that captures only sample
MIRROR: Final = SO3.exp([np.pi, 0.0, 0.0])  # conjugation with it reflects a rotation in the plane between the sides
TRUNK: Final = ("pelvis", "spine1", "spine2", "spine3", "neck", "head")
SWEEP: Final = TRUNK + tuple(
    side + part
    for part in ("hip", "knee", "ankle", "foot", "collar", "shoulder", "elbow", "wrist")
    for side in (LEFT, OTHER)
)  # roles in the order in which they are bounded


NO_SYNERGIES: Final[dict[str, NDArray[Any]]] = {
    "spans": np.zeros(1, dtype=np.int64),
    "members": np.zeros((0, MOST_MEMBERS), dtype=np.int64),
    "metrics": np.zeros((0, MOST_MEMBERS, MOST_MEMBERS)),
    "inverses": np.zeros((0, MOST_MEMBERS, MOST_MEMBERS)),
    "reaches": np.zeros(0),
    "exemplars": np.zeros((0, MOST_MEMBERS), dtype=np.float32),
}


@dataclass(frozen=True, slots=True, eq=False)
class _JointChart:
    """A limited joint: its part of the body, and how its rotation turns into that part's coordinates."""

    joint: int
    role: str  # "" for joints between roles
    part: JointPart
    before: SO3
    after: SO3


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnatomicalLimits(JointLimits):
    r"""Swing, twist and their couplings as people can make them, for any skeleton with a role map.

    With :math:`W` the world rotations of the calibration pose and :math:`p` the parent, :math:`D = W_p R_j W_j^{-1}`
    turns a joint away from that pose in axes of the body, whatever the axes and the rest pose of the file are. Its
    coordinates are swing and twist about the bone: :math:`D = F c \exp(0, s_1, s_2) \exp(t, 0, 0) F^{-1}`.

    A coordinate outside its interval is off by the difference; two or three outside their region by the signed distance
    [Engell2012]_ §14 that its table holds, and those of a synergy by their distance to the nearest ball around a
    captured pose. The violation of a joint joins those of its coordinates.
    """

    kind: ClassVar[str] = "anatomical"

    skeleton: Skeleton
    _tables: AnatomicalTables
    is_advice: bool = False  # goals of a solver come before regions of several coordinates

    def check(self, rotations: SO3) -> LimitCheck:
        """Measure the coordinates, and clamp each to what those before it allow."""
        return run_check(check_anatomy, rotations, self._tables)

    def tables(self) -> AnatomicalTables:
        """What ``check_anatomy`` takes."""
        return self._tables

    def coordinates(self, rotations: SO3) -> FloatArray:
        """Flexion, side swing and twist ``(F, K, 3)`` [rad] of the limited joints of a batch ``(F, J)``."""
        found = measure_anatomy(contiguous_wxyz(self._check_rotations(rotations)), self._tables)
        return found.reshape(len(found), -1, 3)

    def widen(self, clips: Iterable[Motion]) -> AnatomicalLimits:
        """Return limits that hold the poses of clips too: intervals and regions grow to them and never shrink.

        Raises:
            InputError: a clip has other joints.
        """
        tables = self._tables
        for clip in clips:
            if clip.skeleton.names != self.skeleton.names:
                what = f"clip '{clip.name}' has other joints than '{self.skeleton.name}'"
                raise InputError(what, "Retarget it first")
            seen = measure_anatomy(contiguous_wxyz(clip.rotations), tables)
            distances = tables.distances.copy()
            for page in np.unique(tables.pages).tolist():
                rows = np.flatnonzero(tables.pages == page)
                points = np.concatenate([tables.signs[m] * seen[:, tables.axes[m]] for m in rows])
                # Lower the distances of the region so that the points (N, 3) are inside
                place, *shape = (int(n) for n in tables.grids[page])
                origin, spacing = tables.origins[page], tables.spacings[page]
                end = origin + spacing * (np.array(shape) - 1)
                is_axis = np.array(shape) > 1
                inside = np.clip(points, origin, end)[:, is_axis]
                # Samples a quarter of a cell apart tell as much as all
                step: FloatArray = 0.25 * spacing[is_axis]
                cells: FloatArray = np.round(inside / step)
                inside = np.unique(cells, axis=0) * step
                nodes = np.indices(tuple(shape)).reshape(3, -1).T
                away = find_nearest_points(inside, (origin + spacing * nodes)[:, is_axis])[0]
                # Between nodes a distance reads at most half a diagonal too much, and samples were moved by an eighth
                # of a cell
                radius = 0.75 * float(np.linalg.norm(spacing[is_axis]))
                grown = np.floor((away - radius) / STEP_RAD) * STEP_RAD
                span = slice(place, place + len(nodes))
                distances[span] = np.minimum(distances[span], np.maximum(grown, -127 * STEP_RAD))
            low, high = np.minimum(tables.low, seen.min(axis=0)), np.maximum(tables.high, seen.max(axis=0))
            # Poses of a clip are exemplars too: those of one cell are within reach of each other
            parts: list[NDArray[Any]] = []
            for s, (first, last) in enumerate(pairwise(tables.spans.tolist())):
                points = seen[:, tables.members[s]] @ tables.metrics[s]
                cell = tables.reaches[s] / np.sqrt(MOST_MEMBERS)
                chosen = np.unique(np.floor(points / cell), axis=0, return_index=True)[1]
                parts.append(np.concatenate([tables.exemplars[first:last], points[chosen]]))
            tables = _freeze_tables(
                tables._replace(
                    low=low,
                    high=high,
                    distances=distances,
                    spans=np.cumsum([0, *map(len, parts)]),
                    exemplars=np.concatenate([np.zeros((0, MOST_MEMBERS)), *parts]).astype(np.float32),
                )
            )
        return replace(self, _tables=tables)

    def hold_knees(self, least_rad: float) -> AnatomicalLimits:
        """Return limits whose knees bend by an angle [rad] at least; below zero is backwards."""
        roles, low = role_map(self.skeleton), self._tables.low.copy()
        straight = np.deg2rad(PARTS["knee"].centre_deg[0])
        for k in np.flatnonzero(np.isin(self._tables.joints, [roles[f"{side}knee"] for side in (LEFT, OTHER)])):
            low[3 * k] = max(low[3 * k], least_rad - straight)
        return replace(self, _tables=_freeze_tables(self._tables._replace(low=low)))

    def to_arrays(self) -> Arrays:
        """Charts, intervals and regions; distances in steps, a byte each."""
        arrays: Arrays = dict(self._tables._asdict())
        del arrays["rows"], arrays["peaks"]
        arrays["distances"] = np.clip(np.round(self._tables.distances / STEP_RAD), -127, 127).astype(np.int8)
        return arrays

    @classmethod
    def from_arrays(cls, skeleton: Skeleton, arrays: Arrays) -> AnatomicalLimits:
        """Undo :meth:`to_arrays`."""
        distances = (STEP_RAD * arrays["distances"]).astype(np.float32)
        # Files of earlier versions have no synergies, and name the bounded coordinate where a region is violated
        owners = np.take_along_axis(arrays["axes"], arrays["bounded"][:, None], axis=1)[:, 0]
        tables: dict[str, Any] = {"owners": owners, **NO_SYNERGIES, **arrays, "distances": distances}
        return cls(skeleton, _freeze_tables(AnatomicalTables(**tables)))

    def __repr__(self) -> str:
        bounded, coupled = len(self._tables.joints), len(self._tables.pages)
        return f"AnatomicalLimits({self.skeleton!r}, {bounded} joints bounded, {coupled} regions)"


def anatomical_limits(skeleton: Skeleton, *, clips: Iterable[Motion] = ()) -> AnatomicalLimits:
    """Limits of a human skeleton: published ranges of motion and captured people, widened by a person's own clips.

    Args:
        skeleton: any skeleton whose joints have roles; axes and rest pose do not matter.
        clips: motion of the same joints that must be allowed. They widen the limits and never narrow them.

    Raises:
        InputError: the skeleton has no legs or arms with roles, or a clip has other joints.
    """
    shipped, own = _build_shipped_limits(skeleton, 0.0), list(clips)
    return shipped.widen(own) if own else shipped


def posing_limits(skeleton: Skeleton, *, clips: Iterable[Motion] = ()) -> AnatomicalLimits:
    """Anatomical limits as solvers take them by default: regions are wider by ``REGION_MARGIN_RAD`` and are advice.

    A solver keeps the interval of each coordinate in any case, and regions of several where its goals allow it.
    Synergies are left out: a person can be posed as nobody was captured. Arguments as in :func:`anatomical_limits`.
    """
    shipped, own = _build_shipped_limits(skeleton, REGION_MARGIN_RAD), list(clips)
    return shipped.widen(own) if own else shipped


@lru_cache(maxsize=64)
def _build_shipped_limits(skeleton: Skeleton, margin_rad: float) -> AnatomicalLimits:
    """Limits without clips: every solve asks for them."""
    return build_limits(skeleton, load_people(), margin_rad)


def build_limits(skeleton: Skeleton, people: PeopleRanges, margin_rad: float = 0.0) -> AnatomicalLimits:
    """Limits of one skeleton from ranges of people, without couplings of roles that it lacks.

    Regions with a margin [rad] are advice.
    """
    charts = _find_charts(skeleton)
    numbers = {chart.role: 3 * k for k, chart in enumerate(charts) if chart.role}
    low, high = np.empty((len(charts), 3)), np.empty((len(charts), 3))
    for k, chart in enumerate(charts):
        bounds = np.deg2rad(chart.part.ranges_deg) - np.deg2rad([*chart.part.centre_deg, 0.0])[:, None]
        low[k], high[k] = bounds.T
        if chart.role:
            row = ORDER.index(chart.role.replace(OTHER, LEFT))
            low[k], high[k] = people.low[row], people.high[row]
    # Every region once for each side; its last coordinate in the order of the joints is the one that it bounds
    rows: list[tuple[int, list[int], list[float], int, int, int]] = []
    for page, (region, _) in enumerate(REGIONS):
        is_paired = any("_" in role for role, _ in region)
        for is_right in (False, True) if is_paired else (False,):
            roles = [swap_sides(role) if is_right else role for role, _ in region]
            if not all(role in numbers for role in roles):
                continue
            axes = [numbers[role] + c for role, (_, c) in zip(roles, region, strict=True)]
            signs = [-1.0 if is_right and "_" not in role and c > 0 else 1.0 for role, c in region]
            # The side of a region is that of the joint which is said to violate it
            parts = [SWEEP.index(role.replace(OTHER, LEFT)) for role, _ in region]
            owner = axes[int(np.argmax(parts))]
            pad = 3 - len(region)
            axes, signs = [axes[0]] * pad + axes, [1.0] * pad + signs
            bounded = int(np.argmax(axes))
            rows.append((axes[bounded], axes, signs, max(bounded, pad), page, owner))
    rows.sort(key=lambda row: row[0])
    return AnatomicalLimits(
        skeleton,
        _freeze_tables(
            AnatomicalTables(
                np.array([chart.joint for chart in charts], dtype=np.int64),
                np.stack([chart.before.wxyz for chart in charts]),
                np.stack([chart.after.wxyz for chart in charts]),
                low.ravel(),
                high.ravel(),
                np.searchsorted([row[0] for row in rows], np.arange(3 * len(charts) + 1)).astype(np.int64),
                np.array([row[1] for row in rows], dtype=np.int64).reshape(-1, 3),
                np.array([row[2] for row in rows]).reshape(-1, 3),
                np.array([row[3] for row in rows], dtype=np.int64),
                np.array([row[5] for row in rows], dtype=np.int64),
                np.array([row[4] for row in rows], dtype=np.int64),
                people.grids,
                people.origins,
                people.spacings,
                (STEP_RAD * people.distances - margin_rad).astype(np.float32),
                **(NO_SYNERGIES if margin_rad > 0.0 else _find_synergies(skeleton, numbers, people)),
            )
        ),
        margin_rad > 0.0,
    )


def _find_synergies(skeleton: Skeleton, numbers: Mapping[str, int], people: PeopleRanges) -> dict[str, NDArray[Any]]:
    """Synergies of the roles that a skeleton has, with exemplars of both sides."""
    roles, p_world = role_map(skeleton), t_pose(skeleton).joint_positions()
    spans, parts = [0], [NO_SYNERGIES["exemplars"]]
    reaches: list[float] = []
    members, metrics, inverses = (list(NO_SYNERGIES[name]) for name in ("members", "metrics", "inverses"))
    for n, (synergy, (first, last)) in enumerate(zip(SYNERGIES, pairwise(people.spans.tolist()), strict=True)):
        axes, size = synergy.axes, len(synergy.axes)
        if not all(role in numbers for role, _ in axes):
            continue
        if synergy.heights:
            ends = [p_world[roles[role]] for role in ("pelvis", "neck") if role in roles]
            length = np.linalg.norm(ends[-1] - ends[0]) if len(ends) == 2 else 0.0
            places = [np.linalg.norm(p_world[roles[role]] - ends[0]) for role, _ in synergy.heights]
            shares = np.array([share for _, share in synergy.heights])
            if length == 0.0 or np.abs(np.array(places) / length - shares).max() > HEIGHT_TOL:
                continue
        # In a mirror sides are exchanged, and the trunk turns the other way
        other = [axes.index((swap_sides(role), c)) for role, c in axes]
        signs = [-1.0 if "_" not in role and c > 0 else 1.0 for role, c in axes]
        shown = STEP_RAD * people.exemplars[first:last]
        both = np.concatenate([shown[:, :size], (signs * shown[:, :size])[:, other]])
        inverse = np.zeros((MOST_MEMBERS, MOST_MEMBERS))
        inverse[:size, :size] = np.linalg.inv(people.metrics[n, :size, :size])
        parts.append((both @ people.metrics[n, :size]).astype(np.float32))
        spans.append(spans[-1] + len(both))
        members.append(np.array([numbers[role] + c for role, c in axes] + [0] * (MOST_MEMBERS - size)))
        metrics.append(people.metrics[n])
        inverses.append(inverse)
        reaches.append(synergy.reach_rad)
    return {
        "spans": np.array(spans, dtype=np.int64),
        "members": np.array(members, dtype=np.int64).reshape(-1, MOST_MEMBERS),
        "metrics": np.array(metrics).reshape(-1, MOST_MEMBERS, MOST_MEMBERS),
        "inverses": np.array(inverses).reshape(-1, MOST_MEMBERS, MOST_MEMBERS),
        "reaches": np.array(reaches),
        "exemplars": np.concatenate(parts),
    }


def _freeze_tables(tables: AnatomicalTables) -> AnatomicalTables:
    """Contiguous read-only arrays, so that the check is compiled once, and the rows that they make."""
    grids = (tables.grids[tables.pages], tables.origins[tables.pages], 1.0 / tables.spacings[tables.pages])
    rows = np.concatenate([*grids, tables.axes, tables.signs, tables.bounded[:, None]], axis=1)
    # The largest distance in each cell is that of one of its corners
    steps: FloatArray = np.ceil(tables.distances / PEAK_STEP_RAD - PEAK_SLACK)
    peaks = np.clip(steps, -127, 127).astype(np.int8)
    for place, *shape in tables.grids.tolist():
        region = peaks[place : place + int(np.prod(shape))].reshape(shape)
        for axis in range(3):
            along = np.moveaxis(region, axis, 0)
            along[:-1] = np.maximum(along[:-1], along[1:])
    arrays: list[Any] = [np.ascontiguousarray(array) for array in tables._replace(rows=rows, peaks=peaks)]
    for array in arrays:
        array.setflags(write=False)
    return AnatomicalTables(*arrays)


@lru_cache(maxsize=64)
def _find_charts(skeleton: Skeleton) -> tuple[_JointChart, ...]:
    """Charts of all joints that have limits, in the order in which they are bounded.

    Joints with a role have those of their part. Joints on the way from one role to the next have none of their own:
    those of trunk and neck take that of the spine, those between pelvis and hip or between spine and collar stay where
    they are, those inside a long bone twist.
    """
    roles = role_map(skeleton)
    if "left_hip" not in roles and "left_shoulder" not in roles:
        reason = "; ".join(roles.report) or "no joint has a role"
        what = f"anatomical limits of '{skeleton.name}', whose joints have no human roles: {reason}"
        raise InputError(what, "Learn limits from its clips, or give a role map")
    if roles.profile == "guessed" and not is_drawn_as_person(skeleton, roles):
        # Names that were guessed fit animals too
        reason = "; ".join(assess_anatomy(skeleton).reasons)
        what = f"anatomical limits of '{skeleton.name}', which is no person: {reason}"
        raise InputError(what, "Learn limits from its clips, or give a role map")
    rest = t_pose(skeleton, roles)
    W = rest.joint_rotations()
    named = {roles[role]: role for role in roles}
    # Parts of joints without a role that lie between two that have one
    between: dict[int, JointPart] = {}
    for joint, role in named.items():
        part = role.removeprefix("left_").removeprefix("right_")
        if part == "pelvis":
            # What lies above it carries the whole body
            continue
        j = int(skeleton.parents[joint])
        while j != NO_PARENT and j not in named:
            if part in ("hip", "collar") or (part == "shoulder" and role.replace("shoulder", "collar") in roles):
                between[j] = _still(PARTS["hip" if part == "hip" else "collar"], STUB_RAD, STUB_RAD)
            elif part in TRUNK:
                between[j] = PARTS[part]
            else:
                between[j] = _still(PARTS[part], TWIST_BONE_RAD, 0.5 * np.pi)
            j = int(skeleton.parents[j])
        if j == NO_PARENT:
            # Nothing above has a role: these joints carry the whole body
            j = int(skeleton.parents[joint])
            while j != NO_PARENT and j not in named:
                between.pop(j, None)
                j = int(skeleton.parents[j])
    charts: list[_JointChart] = []
    for j in range(skeleton.num_joints):
        parent, role = int(skeleton.parents[j]), named.get(j, "")
        part = PARTS.get(role.removeprefix("left_").removeprefix("right_")) or between.get(j)
        if parent == NO_PARENT or part is None:
            continue
        before, after = W[parent], W[j].inverse()
        side = role or _side_of(skeleton, named, j)
        if side.startswith("right_"):
            before, after = MIRROR @ before, after @ MIRROR.inverse()
        frame = part.frame()
        before, after = part.centre().inverse() @ frame.inverse() @ before, after @ frame
        charts.append(_JointChart(j, role, part, before, after))
    # The trunk first, then limbs outwards; joints between roles are coupled to none
    return tuple(sorted(charts, key=lambda chart: SWEEP.index(chart.role) if chart.role else len(SWEEP)))


def _side_of(skeleton: Skeleton, named: Mapping[int, str], joint: int) -> str:
    """Role of the next joint below that has one."""
    below = [joint]
    while below:
        j = below.pop()
        if j in named:
            return named[j]
        below += [int(k) for k in skeleton.children(j)]
    return ""


def _still(part: JointPart, swing_rad: float, twist_rad: float) -> JointPart:
    """The axes of a part, with hardly any swing."""
    swing, twist = (float(np.rad2deg(a)) for a in (swing_rad, twist_rad))
    return JointPart(part.bone, part.flexion, ((-swing, swing), (-swing, swing), (-twist, twist)))


def measure_poses(motion: Motion) -> FloatArray:
    """Coordinates ``(F, 22, 3)`` [rad] of all roles, the right side as in a mirror; zero for a role that is missing."""
    charts = _find_charts(motion.skeleton)
    none, empty = np.zeros(0, dtype=np.int64), np.zeros((0, 3))
    bounds = np.full(3 * len(charts), np.inf)
    tables = AnatomicalTables(
        np.array([chart.joint for chart in charts], dtype=np.int64),
        np.stack([chart.before.wxyz for chart in charts]),
        np.stack([chart.after.wxyz for chart in charts]),
        -bounds,
        bounds,
        np.zeros(3 * len(charts) + 1, dtype=np.int64),
        none.reshape(0, 3),
        empty,
        none,
        none,
        none,
        none.reshape(0, 4),
        empty,
        empty,
        np.zeros(0, dtype=np.float32),
        **NO_SYNERGIES,
    )
    found = measure_anatomy(contiguous_wxyz(motion.rotations), _freeze_tables(tables)).reshape(len(motion), -1, 3)
    poses = np.zeros((len(motion), len(ROLES), 3))
    for k, chart in enumerate(charts):
        if chart.role:
            poses[:, ROLES.index(chart.role)] = found[:, k]
    return poses
