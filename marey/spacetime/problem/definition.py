"""A problem as plain data: phases with contacts, keys, objective and space; poses of clips; style ([Fang2003]_ F30).

Keys that no motion of any character could satisfy together are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf
from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.dynamics import PRISMATIC, JointTree
from marey.world import Bar, Box

CONTACT_KINDS: Final = ("foot", "grip")
KEY_KINDS: Final = ("pose", "velocity", "range", "turn", "point", "com", "com_velocity", "clearance", "bar", "force")
SPACES: Final = ("full", "reduced")
FLIGHTS: Final = ("momentum", "force")
IMPACTS: Final = ("none", "bounded", "free")
AXES: Final = ("yaw", "pitch", "roll")

Vector3 = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Contact:
    """A point of the body that stays where it is while its phase lasts."""

    point: str  # named point of the character: left_foot, right_hand, feet, ...
    position: Vector3  # [m] centre of the support, in world
    kind: str = "foot"  # one of CONTACT_KINDS; a grip can pull
    normal: Vector3 = (0.0, 1.0, 0.0)
    heading_deg: float = 0.0  # turn of the support about its normal; 0 is +Z
    half_extents_m: tuple[float, float] = (0.12, 0.05)  # along the heading, across it
    friction: float = 0.8
    max_force: float = 6.0  # [body weights] along the normal; for a grip in any direction
    twist_m: float = 0.05  # largest moment about the normal over the normal force
    max_tilt_deg: float = 45.0  # full space, foot: how far the segment above it may lean from the normal


@dataclass(frozen=True, slots=True)
class ProblemPhase:
    """A stretch of time with one set of contacts; none is a flight."""

    name: str
    duration_s: float
    contacts: tuple[Contact, ...] = ()
    duration_range_s: tuple[float, float] | None = None  # free within it; None keeps duration_s
    span_s: float | None = None  # knot spacing; None takes the problem's

    @property
    def is_flight(self) -> bool:
        """Whether nothing is touched."""
        return not self.contacts


@dataclass(frozen=True, slots=True)
class Key:
    """Something that must hold at an instant, or through a phase.

    ``pose`` and ``velocity`` fix coordinates, ``range`` keeps the coordinates of ``joints`` between ``lower`` and
    ``upper`` [rad], ``turn`` the root's angle about ``axis``. ``point``, ``com`` and ``com_velocity`` reach
    ``target``. ``clearance`` keeps a point at least ``lower`` above the height 0, ``bar`` keeps the segment that
    carries a point at least ``lower`` away from a bar along X through ``target``, ``force`` keeps the contact
    force along the normal between ``lower`` and ``upper`` [body weights].
    """

    kind: str  # one of KEY_KINDS
    phase: str  # name of the phase
    at: float | None = 1.0  # share of the phase, 0 start to 1 end; None: all of it
    joints: Mapping[str, float] = field(default_factory=dict[str, float])  # pose, velocity: coordinate -> value
    pose: str | None = None  # pose: a clip and a time instead of joints, "walk.bvh@1.2"
    point: str | None = None  # point, clearance: named point
    target: tuple[float | None, ...] = ()  # [m], [m/s] or [rad]; None leaves a component free
    lower: float | None = None  # range, turn, clearance, bar, force: at least
    upper: float | None = None
    axis: str = "pitch"  # turn: about which axis of the world, one of AXES


@dataclass(frozen=True, slots=True)
class Objective:
    """Weights of the terms that are made small, each normalised as its docstring says; the last four: full space."""

    accel: float = 1.0
    torque: float = 0.0
    prior: float = 0.0
    energy: float = 0.0
    reference: float = 0.0
    contact_force: float = 0.0
    contact_jerk: float = 0.0
    min_jerk: float = 0.0  # of the hands that hold nothing
    min_torque_change: float = 0.0
    min_variance: float = 0.0  # of where the hands end, under noise that grows with torques
    balance: float = 0.0  # of the centre of mass over the feet, at an end that stands on them


@dataclass(frozen=True, slots=True, repr=False)
class SpacetimeProblem:
    """What :func:`marey.optimize` solves."""

    name: str
    phases: tuple[ProblemPhase, ...]
    character: str = "fang22"  # fang22, fang7, or a clip file with the body to use
    keys: tuple[Key, ...] = ()
    objective: Objective = field(default_factory=Objective)
    space: str = "full"
    span_s: float = 0.1
    frames_per_span: int = 2
    flight: str = "momentum"  # or "force", as printed
    impact: str = "none"  # none, bounded, free
    gravity: float = 9.81  # [m/s²] along -Y; 0 or more
    guess: str = "hang"  # neutral pose of the flat guess
    basis: str | None = None  # reduced space: file of the behaviour
    height_m: float = 1.65  # of fang22 and fang7
    mass_kg: float = 65.0
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """coordinate -> lowest and highest angle [rad], instead of the character's own"""
    torque_limits: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """coordinate -> lowest and highest torque [N m]"""
    strength: float | None = None  # times published isometric maxima, for coordinates that torque_limits does not name
    start_com: Vector3 = (0.0, 1.2, 0.0)  # [m] where a motion without any contact floats
    max_iterations: int = 300
    refine: int = 0  # full space: times every span is halved and the problem solved again from its solution
    floor_m: float | None = 0.0  # [m] height of the floor, lower where a foot is planted lower; None: no floor
    boxes: tuple[Box, ...] = ()  # obstacles that stand on the floor: the whole body stays out of them
    bars: tuple[Bar, ...] = ()  # round bars of any direction

    def __post_init__(self) -> None:
        if not self.phases:
            raise InputError(f"problem '{self.name}' has no phase", "Add at least one [[phase]]")
        for what, value, known in (
            ("space", self.space, SPACES),
            ("flight", self.flight, FLIGHTS),
            ("impact", self.impact, IMPACTS),
        ):
            if value not in known:
                raise InputError(f"{what} '{value}'", f"It is one of {', '.join(known)}")

    def __repr__(self) -> str:
        return f"SpacetimeProblem('{self.name}', {len(self.phases)} phases, {self.duration_s:.2f} s, {self.space})"

    @property
    def has_torque_limits(self) -> bool:
        """Whether any torque is limited."""
        return self.strength is not None or bool(self.torque_limits)

    @property
    def duration_s(self) -> float:
        """Sum of the phases [s]."""
        return float(sum(phase.duration_s for phase in self.phases))

    def phase_index(self, name: str) -> int:
        """Place of a phase by name; the first of that name."""
        names = [phase.name for phase in self.phases]
        if name not in names:
            raise UnknownNameError("phase", name, f"problem '{self.name}'", names)
        return names.index(name)


SAME_TOL: Final = 1e-9  # [m], [m/s], [rad] values this near are the same
AXIS_NAMES: Final = ("x", "y", "z")
POSITION_KINDS: Final = ("point", "com", "com_velocity", "bar")  # kinds with a target of three components
VELOCITY_KINDS: Final = ("velocity", "com_velocity")  # where an impact may change the value between two phases


class KeyInterval(NamedTuple):
    """Interval that a key requires of one number, from one instant to another."""

    what: str
    low: float
    high: float
    begin: float  # number of the phase plus the share of it
    end: float
    key: Key

    @property
    def words(self) -> str:
        """The interval as text."""
        return f"{self.low:g}" if self.low == self.high else f"at least {self.low:g}"


def check_key_conflicts(problem: SpacetimeProblem) -> None:
    """Refuse two keys that require different values of one quantity at one instant.

    Raises:
        InputError: with both keys and both values.
    """
    intervals: list[KeyInterval] = []
    for key in problem.keys:
        begin = problem.phase_index(key.phase) + (0.0 if key.at is None else key.at)
        end = begin + (1.0 if key.at is None else 0.0)
        intervals += [KeyInterval(what, low, high, begin, end, key) for what, low, high in _key_ranges(key)]
    for one, other in combinations(intervals, 2):
        if one.what != other.what or max(one.low, other.low) <= min(one.high, other.high) + SAME_TOL:
            continue
        # Speeds before and after a border are two things
        if one.key.kind in VELOCITY_KINDS and one.key.phase != other.key.phase:
            continue
        if max(one.begin, other.begin) <= min(one.end, other.end):
            raise InputError(
                f"keys '{one.key.kind}' in phase '{one.key.phase}' and '{other.key.kind}' in phase "
                f"'{other.key.phase}' contradict: {one.what} cannot be {one.words} and {other.words}",
                "Change one of them",
            )


def _key_ranges(key: Key) -> Iterator[tuple[str, float, float]]:
    """Numbers that a key constrains: name, lower and upper bound."""
    names = {"point": key.point, "com": "the centre of mass", "com_velocity": "the velocity of the centre of mass"}
    if key.kind in names:
        for axis, value in zip(AXIS_NAMES, key.target, strict=False):
            if value is not None:
                yield f"{names[key.kind]} along {axis}", value, value
    elif key.kind == "clearance":
        yield f"{key.point} along y", 0.0 if key.lower is None else key.lower, inf
    elif key.kind in ("pose", "velocity"):
        for name, value in key.joints.items():
            yield f"the speed of {name}" if key.kind == "velocity" else name, value, value


ROOT_NAMES: Final = {"pitch": "root_rx", "yaw": "root_ry", "roll": "root_rz"}


def resolve_poses(problem: SpacetimeProblem, tree: JointTree) -> SpacetimeProblem:
    """The problem with the poses of clips as values of coordinates; where and which way the body stands stays open.

    Raises:
        InputError: a pose that names no time, or one outside its clip.
        MissingFileError: no such clip.
    """
    keys = tuple(key if key.pose is None else _resolve_key(key, tree) for key in problem.keys)
    return problem if keys == problem.keys else replace(problem, keys=keys)


def _resolve_key(key: Key, tree: JointTree) -> Key:
    from marey.io import load
    from marey.kinematics import retarget

    assert key.pose is not None
    file, _, instant = key.pose.rpartition("@")
    try:
        time_s = float(instant)
    except ValueError:
        file, time_s = "", 0.0
    if not file:
        raise InputError(f"pose '{key.pose}'", 'Write pose = "FILE@SECONDS", such as "walk.bvh@1.2"')
    clip = load(file)
    frame = round(time_s * clip.rate_hz)
    if not 0 <= frame < clip.num_frames:
        raise InputError(f"pose '{key.pose}' is outside its clip of {clip.duration_s:.2f} s", "Give a time inside it")
    # A few frames, so that angles are continuous; other bodies get the pose on their own skeleton
    start = max(frame - 1, 0)
    part = clip[start : start + 3]
    part = replace(part, contacts=None, translations=None)
    if part.skeleton.names == tree.skeleton.names:
        part = replace(part, skeleton=tree.skeleton)  # the same joints, bones of another length
    else:
        part = retarget(part, tree.skeleton, contacts=False)
    q = tree.from_motion(part)[frame - start]
    yaw = next((i for i in range(6) if tree.names[i] == "root_ry"), -1)
    known = {
        name: float(np.clip(q[i], tree.lower[i], tree.upper[i]))
        for i, name in enumerate(tree.names)
        if tree.kinds[i] != PRISMATIC and i != yaw
    }
    return replace(key, joints=known | dict(key.joints), pose=None)


def measure_pose(tree: JointTree, key: Key, q: np.ndarray) -> float:
    """Largest difference [rad] of coordinates ``(D,)`` from a key pose, whole turns left aside."""
    wanted = {tree.index(ROOT_NAMES.get(name, name)): value for name, value in key.joints.items()}
    apart = np.array([q[i] - value for i, value in wanted.items()])
    return float(np.abs((apart + np.pi) % (2.0 * np.pi) - np.pi).max(initial=0.0))


StyleValues = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
# A style takes q, q' and q'' (N, D) of N frames and gives the cost of each frame (N,) and its gradients by q, q' and
# q'' (N, D). Frames are costed one by one, and a motion costs the mean.
Style = Callable[[FloatArray, FloatArray, FloatArray], StyleValues]


def evaluate_style(style: Style, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> StyleValues:
    """Call a style and check what it gives.

    Raises:
        InputError: an array of another shape, or a number that is not finite.
    """
    found = tuple(np.asarray(part, dtype=np.float64) for part in style(q, qd, qdd))
    name = getattr(style, "__name__", type(style).__name__)
    shapes = [q.shape[:1], q.shape, q.shape, q.shape]
    if len(found) != 4 or [part.shape for part in found] != shapes:
        raise InputError(
            f"style '{name}' gives arrays of shapes {[part.shape for part in found]}",
            f"It must give the cost and its gradients by q, q' and q'': {shapes}",
        )
    if not all(np.isfinite(part).all() for part in found):
        raise InputError(f"style '{name}' gives a number that is not finite", "Check it on the clip's own states")
    return found[0], found[1], found[2], found[3]


def check_coordinate_map(S: FloatArray, num_dofs: int) -> FloatArray:
    """The matrix ``S (D, d)`` of a simplified body as floats.

    Raises:
        InputError: another shape, or numbers that are not finite.
    """
    matrix = np.asarray(S, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != num_dofs or not np.isfinite(matrix).all():
        raise InputError(f"S has shape {matrix.shape}", f"It has one row for each of {num_dofs} coordinates, finite")
    return matrix


def build_pose_style(tree: JointTree, targets: Mapping[str, float], weight: float = 1.0) -> Style:
    r"""Style that draws coordinates towards values: :math:`w\sum_i (q_i - \bar q_i)^2`.

    Args:
        tree: whose coordinates are named.
        targets: value [rad] or [m] by the name of a coordinate.
        weight: w.

    Raises:
        InputError: a target or the weight is not finite.
        UnknownNameError: no such coordinate.
    """
    dofs = [tree.index(name) for name in targets]
    wanted = np.array(list(targets.values()), dtype=np.float64)
    if not (np.isfinite(wanted).all() and np.isfinite(weight)):
        raise InputError(f"a style with targets {dict(targets)} and weight {weight}", "Give finite numbers")

    def drawn(q: FloatArray, qd: FloatArray, qdd: FloatArray) -> StyleValues:
        away = q[:, dofs] - wanted
        gradient = np.zeros_like(q)
        gradient[:, dofs] = 2.0 * weight * away
        return weight * (away**2).sum(axis=1), gradient, np.zeros_like(qd), np.zeros_like(qdd)

    return drawn


def build_stillness_style(tree: JointTree, joints: Sequence[str], weight: float = 1.0) -> Style:
    r"""Style that keeps joints still: :math:`w\sum_i \dot q_i^2` over the coordinates of the named joints.

    Args:
        tree: whose joints are named.
        joints: names of joints.
        weight: w [s²].

    Raises:
        UnknownNameError: no such joint.
    """
    dofs = [i for i, group in enumerate(tree.groups) if group in joints]
    for joint in joints:
        if joint not in tree.groups:
            raise UnknownNameError("joint", joint, "this tree", sorted(set(tree.groups)))

    def calm(q: FloatArray, qd: FloatArray, qdd: FloatArray) -> StyleValues:
        gradient = np.zeros_like(qd)
        gradient[:, dofs] = 2.0 * weight * qd[:, dofs]
        return weight * (qd[:, dofs] ** 2).sum(axis=1), np.zeros_like(q), gradient, np.zeros_like(qdd)

    return calm
