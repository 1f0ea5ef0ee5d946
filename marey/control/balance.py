"""Balance: what a figure stands on, paths of its centre of mass that the soles allow, and falls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import acos, radians
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.dynamics import GRAVITY
from marey.motion import find_runs
from marey.numerics import convex_hull
from marey.simulate import Mechanics, Simulator, State, contact_spheres
from marey.simulate.monitor import joints_below
from marey.skeleton import Skeleton, role_map

if TYPE_CHECKING:
    from marey.control.reference import Reference
    from marey.control.tasks import Centre

SUPPORT_TOUCH_M: Final = 5e-3  # [m] points nearer to the ground than this support the figure
FADE_S: Final = 0.2  # [s] in which a support that is lost is forgotten
SOLE_ARM_M: Final = 0.1  # [m] half length of a sole: its rotation counts as much as a shift by this arm


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """Support of a figure."""

    points: FloatArray  # (n, 3) [m] that touch
    hull: FloatArray  # (h, 2) [m] corners (x, z), counterclockwise in (x, z)
    first_height_m: float  # of the centre of mass above the support, when it was first seen
    lost_s: float  # [s] since the last contact

    def middle(self, centre: Centre) -> FloatArray:
        """Place ``(3,)`` [m] above which the centre of mass is safest."""
        mean = self.points.mean(axis=0)
        if centre == "mean" or len(self.hull) < 3:
            return mean
        x, z = hull_centroid(self.hull)
        return np.array([x, mean[1], z])

    def hold(self, hold_s: float) -> float:
        """Remaining weight, from 1 to 0."""
        return float(np.clip(1.0 - (self.lost_s - hold_s) / FADE_S, 0.0, 1.0))


def next_support(last: Support | None, simulator: Simulator, here: Mechanics, dt: float) -> Support | None:
    """Support of a configuration; the last one, fading, where nothing touches."""
    found, constrainer = [np.zeros((0, 3))], simulator.constrainer
    if constrainer is not None:
        joints, offsets, radii = constrainer.spheres
        centres = here.joints[joints] + (here.frames[joints] @ offsets[:, :, None])[:, :, 0]
        for ground in constrainer.grounds:
            touches = ground.gaps(centres) - radii < SUPPORT_TOUCH_M
            found.append((centres - radii[:, None] * ground.normal)[touches])
    points = np.concatenate(found)
    if not len(points):
        return None if last is None else Support(last.points, last.hull, last.first_height_m, last.lost_s + dt)
    first = float(here.com[1] - points[:, 1].mean()) if last is None else last.first_height_m
    return Support(points, convex_hull(points[:, [0, 2]]), first, 0.0)


def hull_centroid(hull: FloatArray) -> FloatArray:
    """Centre of area ``(2,)`` of a hull; of a line or a point, the mean."""
    # Centroid of a polygon from the signed areas of its triangles; of a line, the mean
    after = np.roll(hull, -1, axis=0)
    areas = hull[:, 0] * after[:, 1] - hull[:, 1] * after[:, 0]
    whole = float(areas.sum())
    if abs(whole) < 1e-9:
        return hull.mean(axis=0)
    return ((hull + after) * areas[:, None]).sum(axis=0) / (3.0 * whole)


def hull_distances(hull: FloatArray, place: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inward normals ``(h, 2)`` of a hull's edges and how far inside them a place ``(2,)`` is, ``(h,)`` [m]."""
    edges = np.roll(hull, -1, axis=0) - hull
    normals = np.stack([-edges[:, 1], edges[:, 0]], axis=1) / np.linalg.norm(edges, axis=1, keepdims=True)
    return normals, np.einsum("hi,hi->h", normals, place - hull)


@lru_cache(maxsize=64)
def sole_frame(skeleton: Skeleton, side: str) -> tuple[int, FloatArray, FloatArray]:
    """Joint of a foot, middle of its sole ``(3,)`` [m] and the sole's frame ``(3, 3)`` (left, up, ahead), in it.

    Raises:
        InputError: the skeleton has no such foot.
    """
    spheres, names = contact_spheres(skeleton)
    corners = [f"{side}_{part}_{way}" for part in ("heel", "ball") for way in ("left", "right")]
    if not set(corners) <= set(names):
        raise InputError(f"'{skeleton.name}' has no {side} foot", "Ask for a foot that it has")
    which = [names.index(corner) for corner in corners]
    heel_left, heel_right, ball_left, ball_right = spheres.offsets[which]
    ahead = ball_left + ball_right - heel_left - heel_right
    ahead = ahead / np.linalg.norm(ahead)
    left = heel_left - heel_right + ball_left - ball_right
    left = left - ahead * (ahead @ left)
    left = left / np.linalg.norm(left)
    frame = np.stack([left, np.cross(ahead, left), ahead], axis=1)
    return int(spheres.joints[which[0]]), spheres.offsets[which].mean(axis=0), frame


def sole_target(frame: FloatArray, normal: FloatArray, heading_rad: float | None) -> FloatArray:
    """Frame ``(3, 3)`` of a sole that lies flat, as far as it may turn as it is, or with a heading from +Z to +X."""
    ahead = frame[:, 2] if heading_rad is None else np.array([np.sin(heading_rad), 0.0, np.cos(heading_rad)])
    flat = ahead - normal * (normal @ ahead)
    length = float(np.linalg.norm(flat))
    if length < 1e-6:  # a foot that stands on its tip: its crown shows the way
        flat, length = np.cross(frame[:, 0], normal), float(np.linalg.norm(np.cross(frame[:, 0], normal)))
    flat = flat / max(length, 1e-9)
    return np.stack([np.cross(normal, flat), normal, flat], axis=1)


MARGIN_M: Final = 0.02  # [m] pressure is planned no nearer than this to the edge of the soles
LEAST_HEIGHT_M: Final = 0.2  # [m] of a centre of mass that is still balanced
LEAST_GRAVITY: Final = 1.0  # [m/s²]
LEAST_PULL: Final = 0.2  # [-] of gravity: in flight nothing is carried
HEIGHT_HZ: Final = 5.0  # [Hz] faster changes of height are those of feet that are put on the floor
FLIGHT_WEIGHT: Final = 1.0  # [s⁴] of squared accelerations other than gravity in flight
LEAST_FLIGHT_WEIGHT: Final = 1e-3  # [-] of the captured height in flight
END_WEIGHT: Final = 1e4  # [-] of the first and the last height
SMOOTH_S: Final = 0.05  # [s] over which the change of a clip's angular momentum is smoothed
PRESSURE_ROUNDS: Final = 6  # of moving the pressure so that the path stays near the clip's
PRESSURE_STEP: Final = 1.0  # [-] of the distance between the paths
HORIZONTAL_AXES: Final = [0, 2]  # the axes of the ground


@dataclass(frozen=True, slots=True, eq=False)
class CentreOfMassPath:
    r"""Path of the centre of mass as an inverted pendulum: :math:`\ddot c = \omega^2 (c - p)`.

    The pivot p is where the ground pushes, less a shift by what changes the angular momentum.
    """

    com: FloatArray  # (F, 3) [m]
    velocity: FloatArray  # (F, 3) [m/s]
    pivot: FloatArray  # (F, 2) [m] p, (x, z)
    shift: FloatArray  # (F, 2) [m] from the pivot to where the ground pushes
    stiffness: FloatArray  # (F,) [1/s²] omega²: (g + vertical acceleration) / height
    frequency: float  # [1/s] of the whole clip, for the capture point
    is_flight: BoolArray  # (F,) frames in which nothing bears the figure

    def capture(self, i: int) -> FloatArray:
        r"""Capture point ``(2,)`` [m] of a frame, :math:`c + \dot c/\omega`: where a stop would need support.

        The velocity is the one that led to the frame, as that of a simulated figure is.
        """
        return (self.com[i] + self.velocity[max(i - 1, 0)] / self.frequency)[HORIZONTAL_AXES]


def solve_com_path(reference: Reference, mass_kg: float, gravity: float = GRAVITY) -> CentreOfMassPath:
    r"""Nearest path of the centre of mass whose pressure stays within the soles.

    The pivot of the clip, :math:`p = c - \ddot c/\omega^2`, is moved so that the pressure is in the hull of the soles
    that bear; then :math:`c - \ddot c/\omega^2 = p` is solved for the path between ends that stay as they are. Without
    feet on the ground the path of the clip is kept.

    Args:
        reference: the clip.
        mass_kg: of the body.
        gravity: [m/s²], with a lower bound that still keeps a figure on the ground.
    """
    from scipy.linalg import solve_banded, solveh_banded  # pyright: ignore[reportUnknownVariableType]  # scipy is untyped here

    gravity = max(gravity, LEAST_GRAVITY)
    com, dt, bearing = reference.com, reference.dt, reference.bearing
    is_flight = np.asarray(~bearing.any(axis=(1, 2)), dtype=np.bool_)
    # Smooth heights that fall freely in flight: min sum_i w_i (y_i - y'_i)^2 + omega_s^-4 sum_stance a_i^2
    # + Lambda sum_flight (a_i + g)^2. The ends stay as they are. Captured heights jump where feet are put on the floor,
    # and captured flights are blurred.
    heights, count = com[:, 1], len(com)
    falls = np.array(is_flight)
    for start, stop in find_leaps(is_flight, dt):
        falls[max(0, start - round(PUSHED_S / dt)) : stop + round(LANDED_S / dt)] = True
    if count < 5:
        height = np.array(heights)
    else:
        weights = np.where(falls, LEAST_FLIGHT_WEIGHT, 1.0)
        weights[[0, -1]] = END_WEIGHT
        # Weights of the accelerations of inner frames, and what they should be
        stiff = np.where(falls[1:-1], FLIGHT_WEIGHT, (2.0 * np.pi * HEIGHT_HZ) ** -4) / dt**4
        wanted = dt**2 * (find_pushes(heights, falls, dt, gravity)[1:-1] - gravity)
        # Normal equations of second differences (1, -2, 1): five bands, upper form
        bands, known = np.zeros((3, count)), weights * heights
        bands[2] = weights
        for n, a in enumerate((1.0, -2.0, 1.0)):
            known[n : count - 2 + n] += a * stiff * wanted
            for m, b in enumerate((1.0, -2.0, 1.0)):
                if m >= n:
                    bands[2 - (m - n), m : count - 2 + m] += a * b * stiff
        height = np.asarray(solveh_banded(bands, known), dtype=np.float64)
    # omega^2 = (g + y'') / y and the pivot p = c - c'' / omega^2 of the clip
    lift = _second_differences(height, dt)
    stiffness = np.maximum(gravity + lift, LEAST_PULL * gravity) / np.maximum(height, LEAST_HEIGHT_M)
    level = com[:, HORIZONTAL_AXES]
    pivot = level - _second_differences(level, dt) / stiffness[:, None]
    # Pressure lies beside the pivot by (L_z', -L_x') / F_y, with smoothed rates of the angular momentum
    push_n = mass_kg * stiffness * height
    rates = np.asarray(np.gradient(reference.momenta, dt, axis=0), dtype=np.float64)
    calm = np.stack([smooth_values(column, max(1, round(SMOOTH_S / dt))) for column in rates.T], axis=1)
    shift = np.asarray(np.stack([calm[:, 2], -calm[:, 0]], axis=1) / push_n[:, None], dtype=np.float64)
    # c - c'' / omega^2 = p as a tridiagonal system, its ends fixed to the clip; in flight c'' = 0
    inner, k = np.arange(1, len(pivot) - 1), 1.0 / (stiffness * dt**2)[1:-1]
    carried = np.where(is_flight[inner], 0.0, 1.0)
    bands = np.zeros((3, len(pivot)))
    bands[0, 2:], bands[1, 1:-1], bands[2, :-2] = -k, carried + 2.0 * k, -k
    bands[1, [0, -1]] = 1.0
    path = np.array(com)
    hulls = {i: convex_hull(reference.corners[i][bearing[i]][:, HORIZONTAL_AXES]) for i in np.flatnonzero(~is_flight)}
    carrying = pivot
    for _ in range(PRESSURE_ROUNDS):
        # Pressure in the hull of the bearing soles; then, as far as these allow, the path back to that of the clip
        for i, hull in hulls.items():
            pivot[i] = project_into_hull(hull, pivot[i] + shift[i], MARGIN_M) - shift[i]
        known = np.where(is_flight[:, None], 0.0, pivot)
        known[[0, -1]] = level[[0, -1]]
        path[:, HORIZONTAL_AXES] = np.asarray(solve_banded((1, 1), bands, known), dtype=np.float64)
        carrying, pivot = pivot, pivot + PRESSURE_STEP * (level - path[:, HORIZONTAL_AXES])
    pivot = carrying
    path[:, 1] = height
    pivot[is_flight] = path[is_flight][:, HORIZONTAL_AXES]
    shift[is_flight] = 0.0
    frequency = float(np.sqrt(gravity / max(float(np.mean(com[:, 1])), LEAST_HEIGHT_M)))
    steps: FloatArray = np.diff(path, axis=0) / dt
    return CentreOfMassPath(path, np.concatenate([steps, steps[-1:]]), pivot, shift, stiffness, frequency, is_flight)


PUSH_S: Final = 0.12  # [s] in which a push that ends in flight, or a landing, comes from nothing to its whole force
SPENT_S: Final = 0.02  # [s] before its foot leaves the ground a leg is straight and pushes no more
SHORT_S: Final = 0.45  # [s] stances between two flights that are shorter are one bounce
LEAP_S: Final = 0.15  # [s] a flight that is longer, and no run's, is a jump
PUSHED_S: Final = 0.03  # [s] before a jump's feet seem to leave the ground they push no more ...
LANDED_S: Final = 0.02  # [s] ... and after they seem to land they do not yet


def find_bounces(is_flight: BoolArray, dt: float) -> BoolArray:
    """Frames ``(F,)`` in which a clip runs: short stances between two of its flights ``(F,)``, and what is near them.

    Both flights belong to the run, and the stances beside these up to ``SHORT_S``.
    """
    runs, near = np.zeros(len(is_flight), dtype=np.bool_), round(SHORT_S / dt)
    flights = find_runs(is_flight)
    for (start, first), (last, stop) in pairwise(flights):
        if (last - first) * dt < SHORT_S:
            before = max((end for _, end in flights if end <= start), default=0)
            after = min((begin for begin, _ in flights if begin >= stop), default=len(runs))
            runs[max(before, start - near) : min(after, stop + near)] = True
    return runs


def find_leaps(is_flight: BoolArray, dt: float) -> list[tuple[int, int]]:
    """First frame and end of each jump of a clip: flights ``(F,)`` that last and are no run's."""
    bounces = find_bounces(is_flight, dt)
    return [(a, b) for a, b in find_runs(is_flight) if (b - a) * dt >= LEAP_S and not bounces[a]]


def find_pushes(heights: FloatArray, is_flight: BoolArray, dt: float, gravity: float) -> FloatArray:
    """Vertical pushes ``(F,)`` [m/s²] on the centre of mass: none in flight, the weight where it stands.

    A stance between two flights is a bounce: half a sine with the momentum that leads from one flight to the other,
    whose speeds follow from where they begin and end. Smoothed captures push on while the foot is lifted.
    """
    pushes, bounces = np.where(is_flight, 0.0, gravity), find_bounces(is_flight, dt)
    for (start, first), (last, stop) in pairwise([(0, 0), *find_runs(is_flight), (len(heights), len(heights))]):
        # Frames since the landing from a flight of a run, and until the push-off to one or to a jump
        count = last - first
        since, until = np.arange(count) + 0.5, count - 0.5 - np.arange(count)
        lands = start < first and bounces[first - 1]
        leaves = last < stop and (bounces[last] or (stop - last) * dt >= LEAP_S)
        if lands and leaves and count * dt < SHORT_S:
            speeds = [
                (heights[min(b, len(heights) - 1)] - heights[a]) / ((b - a) * dt) + sign * 0.5 * gravity * (b - a) * dt
                for (a, b), sign in (((start, first), -1.0), ((last, stop), 1.0))
            ]
            bounce = np.sin(np.pi * np.minimum(since / (count - SPENT_S / dt), 1.0))
            pushes[first:last] = max(gravity + (speeds[1] - speeds[0]) / (count * dt), 0.0) * bounce / bounce.mean()
            continue
        near = np.minimum(since if lands else np.inf, until if leaves else np.inf) * dt / PUSH_S
        pushes[first:last] = gravity * np.sin(0.5 * np.pi * np.minimum(near, 1.0))
    return pushes


def smooth_values(values: FloatArray, width: int) -> FloatArray:
    """Values ``(F,)``, each the mean of its neighbours up to a width, weighted by Hann's window; ends are repeated."""
    window = np.hanning(2 * width + 3)[1:-1]
    padded = np.pad(values, width, mode="edge")
    return np.asarray(np.convolve(padded, window / window.sum(), mode="valid"), dtype=np.float64)


def _second_differences(values: FloatArray, dt: float) -> FloatArray:
    """Second differences; at the ends those of the neighbours."""
    second: FloatArray = np.diff(values, n=2, axis=0) / dt**2
    return np.concatenate([second[:1], second, second[-1:]])


def project_into_hull(hull: FloatArray, place: FloatArray, margin_m: float = 0.0) -> FloatArray:
    """Place ``(2,)`` or the nearest to it that is a margin inside a hull ``(h, 2)``; of a narrow hull, its middle."""
    # A point or an edge has no inside
    if len(hull) < 3:
        if len(hull) < 2:
            return place if not len(hull) else hull[0]
        way = hull[1] - hull[0]
        along = float(np.clip((place - hull[0]) @ way / max(float(way @ way), 1e-12), 0.0, 1.0))
        return hull[0] + along * way
    # The margin shrinks with the hull
    inside = hull_distances(hull, place)[1]
    widest = float(hull_distances(hull, hull.mean(axis=0))[1].min())
    margin = min(margin_m, 0.9 * widest)
    if (inside >= margin).all():
        return place
    # Nearest place on the edges of the shrunk hull
    middle = hull.mean(axis=0)
    shrink = 1.0 - margin / max(widest, 1e-9)
    smaller = middle + shrink * (hull - middle)
    ends = np.roll(smaller, -1, axis=0) - smaller
    along = np.einsum("hi,hi->h", place - smaller, ends) / np.maximum(np.einsum("hi,hi->h", ends, ends), 1e-12)
    candidates = smaller + np.clip(along, 0.0, 1.0)[:, None] * ends
    if (hull_distances(smaller, place)[1] >= 0.0).all():
        return place
    return candidates[np.argmin(np.linalg.norm(candidates - place, axis=1))]


_SENTENCES: Final = {
    "low": "sank",
    "lean": "doubled over",
    "balance": "lost its balance",
    "unstable": "came apart",
}
LIMB_ENDS: Final = ("left_ankle", "right_ankle", "left_wrist", "right_wrist")


@dataclass(frozen=True, slots=True)
class FallSettings:
    """When a figure that follows a clip counts as fallen."""

    low_height: float = 0.75  # [-] of the height of the clip's centre of mass; lower is a fall, not a bent knee
    capture_m: float = 0.6  # [m] error of the capture point that one step cannot reach: nothing catches it any more
    lean_rad: float = radians(50.0)  # [rad] between the trunk and that of the clip; more is doubled over
    resting_m: float = 0.2  # [m] parts that the clip has lower than this may touch the ground
    watched_s: float = 1.0  # [s] that a run goes on after a fall


DEFAULT_FALLS: Final = FallSettings()


@dataclass(frozen=True, slots=True)
class Fall:
    """When and how a figure fell."""

    time_s: float
    cause: str  # "low", "lean", "balance" (beyond recovery), "unstable"; or the part that hit the ground

    def __str__(self) -> str:
        what = _SENTENCES.get(self.cause, f"fell on its {self.cause}")
        return f"{what} at {self.time_s:.2f} s"


def detect_fall(
    simulator: Simulator,
    state: State,
    height_m: float,
    wanted_m: float,
    capture_error_m: float = 0.0,
    *,
    lean_rad: float = 0.0,
    may_rest: Callable[[int], bool] | None = None,
    settings: FallSettings = DEFAULT_FALLS,
) -> Fall | None:
    """Tell whether a figure falls: it is bent over, too low, on something other than a foot, or nothing can save it.

    Args:
        simulator: after a step.
        state: that the step led to.
        height_m: of the centre of mass above the ground [m].
        wanted_m: height that it should have [m].
        capture_error_m: how far its capture point is from where it should be [m].
        lean_rad: how far its trunk leans from where it should be [rad].
        may_rest: whether the segment of a joint may lie on the ground, as in a clip of a kneeling person.
        settings: thresholds.
    """
    # Lean, height, contact of other parts than limbs, balance: the first that fails
    if lean_rad > settings.lean_rad:
        return Fall(state.time_s, "lean")
    if height_m < settings.low_height * wanted_m:
        return Fall(state.time_s, "low")
    hit = find_grounded_part(simulator, may_rest)
    if hit is not None:
        return Fall(state.time_s, hit)
    return Fall(state.time_s, "balance") if capture_error_m > settings.capture_m else None


def trunk_direction(skeleton: Skeleton, joints: FloatArray) -> FloatArray:
    """Direction ``(3,)`` from the hips to the neck, for joints ``(J, 3)`` [m]."""
    # Both hips, and the neck or the highest part of the trunk that there is
    roles = role_map(skeleton)
    left, right = roles.get("left_hip") or 0, roles.get("right_hip") or 0
    top = next((roles[role] for role in ("neck", "spine3", "head", "spine2") if role in roles), 0)
    way = joints[top] - 0.5 * (joints[left] + joints[right])
    return way / max(float(np.linalg.norm(way)), 1e-9)


def trunk_angle(skeleton: Skeleton, joints: FloatArray, wanted: FloatArray) -> float:
    """Angle [rad] between the trunks of two poses, joints ``(J, 3)`` [m] each."""
    return acos(float(np.clip(trunk_direction(skeleton, joints) @ trunk_direction(skeleton, wanted), -1.0, 1.0)))


def find_grounded_part(simulator: Simulator, may_rest: Callable[[int], bool] | None = None) -> str | None:
    """Name of a segment in contact with the ground other than feet, hands and permitted ones."""
    contacts = simulator.contacts
    if contacts is None:
        return None
    limbs = _limb_ends(simulator.body.skeleton)
    for joint, impulse in zip(contacts.joints, contacts.impulses, strict=True):
        j = int(joint)
        if float(impulse @ impulse) > 0.0 and j not in limbs and not (may_rest is not None and may_rest(j)):
            return simulator.body.skeleton.names[j]
    return None


@lru_cache(maxsize=64)
def _limb_ends(skeleton: Skeleton) -> frozenset[int]:
    """Ankles, wrists, and all that hangs on them."""
    roles = role_map(skeleton)
    return joints_below(skeleton, [roles[role] for role in LIMB_ENDS if role in roles])
