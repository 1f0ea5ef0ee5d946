"""The keys of a problem as rows of the full space, and the validation of a problem before the solve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from itertools import combinations, pairwise, product

import numpy as np

from marey.base import FloatArray, InputError, IntArray, UnknownNameError
from marey.spacetime.full.layout import (
    AT_JOINT,
    MAX_SPANS,
    SNAP_S,
    BodyState,
    FullBodyModel,
    FullLayout,
    InstantBuilder,
)
from marey.spacetime.full.physics_rows import POSITION_ROW, SPEED_ROW, FullRows, WorldVector, compute_support_wrench
from marey.spacetime.problem.definition import (
    AXES,
    CONTACT_KINDS,
    KEY_KINDS,
    POSITION_KINDS,
    Contact,
    Key,
    SpacetimeProblem,
    check_key_conflicts,
)
from marey.spacetime.problem.supply import build_support, build_torque_limits, contact_frame, is_shared
from marey.spacetime.programme import Factors, StateJet

CLEARANCE_PER_SPAN = 4  # instants per span at which something is kept clear of something


def world_vector(
    layout: FullLayout, phase: int, times: FloatArray, at: IntArray, point: str, order: int = 0
) -> WorldVector:
    """Place (order 0) or velocity (1) of a named point, or of ``com``, in the world at instants of one phase."""

    def local(state: BodyState, name: str) -> StateJet:
        jets = (state.com, state.com_velocity) if name == "com" else state.points[name]
        return jets[order].at(at)

    flight = layout.flight_of(phase)
    if flight is None:
        contact = layout.timeline.phases[phase].contacts[0]
        plant = np.asarray(contact.position) if order == 0 else np.zeros(3)
        return WorldVector(at, lambda s, _: local(s, point) - local(s, contact.point) + plant, None, None)
    # In flight the centre of mass is on its parabola, linear in the unknowns of the flight
    axes, after = layout.figure.axes, (times - flight.start_s)[:, None]
    drop = (0.5 * after**2, after)[order] * layout.gravity
    parts = [(flight.place, np.ones_like(after)), (flight.speed, after)]
    parts = parts if order == 0 else [(flight.speed, np.ones_like(after))]
    columns, coefficients = np.zeros((len(at), 3, len(parts)), dtype=np.int64), np.zeros((len(at), 3, len(parts)))
    for k, (unknowns, factor) in enumerate(parts):
        columns[:, axes, k], coefficients[:, axes, k] = unknowns, factor

    def fly(state: BodyState, x: FloatArray) -> StateJet:
        centre = drop.copy()
        centre[:, axes] += sum(factor * x[unknowns] for unknowns, factor in parts)
        return local(state, point) - local(state, "com") + centre

    return WorldVector(at, fly, columns, coefficients)


def key_rows(layout: FullLayout, builder: InstantBuilder, key: Key) -> list[FullRows]:
    """Rows of one key; those that only bound control points give none (see :func:`find_point_bounds`)."""
    if _find_bounded_points(layout, key) is not None:
        return []
    phase = layout.problem.phase_index(key.phase)
    if key.at is not None:
        times = np.array([layout.timeline.time_of(phase, key.at)])
    else:
        times = layout.timeline.even_frames(phase, CLEARANCE_PER_SPAN)
    at = builder.add(phase, times)
    if key.kind in ("pose", "velocity", "range", "turn"):
        wanted = key_angle_ranges(layout, key)
        chosen = np.array([i for i, _, _ in wanted], dtype=np.int64)
        lower, upper = (np.tile([ends[k] for ends in wanted], (len(at), 1)) for k in (1, 2))
        is_speed = key.kind == "velocity"
        labels = tuple(f"{'speed' if is_speed else 'angle'} of {layout.figure.names[i]}" for i in chosen)

        def coordinates(state: BodyState, _: FloatArray) -> tuple[StateJet, Factors]:
            return (state.speeds if is_speed else state.angles).at(at).columns(chosen), None

        return [FullRows(at, lower, upper, labels, coordinates, is_linear=True)]
    if key.kind == "force":
        contact = layout.timeline.phases[phase].contacts[0]
        normal = contact_frame(contact)[0][None]
        low, high = -np.inf if key.lower is None else key.lower, np.inf if key.upper is None else key.upper
        ends = np.full((len(at), 1), low), np.full((len(at), 1), high)

        def evaluate(state: BodyState, _: FloatArray) -> tuple[StateJet, Factors]:
            return compute_support_wrench(state, at, contact, layout)[0].apply_matrix(normal), None

        return [FullRows(at, *ends, ("force along the normal",), evaluate)]
    if key.kind == "bar":
        return [_bar_rows(layout, key, phase, times, at)]
    if key.kind == "com_velocity":
        return [_target_rows(layout, key, world_vector(layout, phase, times, at, "com", 1), SPEED_ROW)]
    placed = world_vector(layout, phase, times, at, "com" if key.kind == "com" else key.point or "com")
    return [_target_rows(layout, key, placed, POSITION_ROW)]


def find_point_bounds(layout: FullLayout) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest control points ``(K, D)``, by joint limits and by keys that hold through a phase.

    A spline stays within the hull of its control points, so this is enough at every instant.
    """
    keys, timeline, tree = layout.problem.keys, layout.timeline, layout.figure.tree
    lower, upper = (np.tile(end[layout.figure.angles], (layout.num_points, 1)) for end in (tree.lower, tree.upper))
    for name, (low, high) in layout.problem.limits.items():
        i = layout.figure.angle_index(name)
        lower[:, i], upper[:, i] = low, high
    for key in keys:
        points = _find_bounded_points(layout, key)
        for i, low, high in key_angle_ranges(layout, key) if points is not None else ():
            lower[points, i] = np.maximum(lower[points, i], low)
            upper[points, i] = np.minimum(upper[points, i], high)
    # An angle that is fixed and stopped at an end of the motion fixes the next control point too
    for end, inner, edge in ((0, 1, 0.0), (-1, -2, timeline.duration_s)):
        for key in keys:
            if key.kind != "velocity" or key.at is None:
                continue
            if abs(timeline.time_of(layout.problem.phase_index(key.phase), key.at) - edge) >= SNAP_S:
                continue
            for i, value, _ in key_angle_ranges(layout, key):
                if value == 0.0 and lower[end, i] == upper[end, i]:
                    lower[inner, i], upper[inner, i] = lower[end, i], upper[end, i]
    return lower, upper


def _find_bounded_points(layout: FullLayout, key: Key) -> IntArray | None:
    """Control points that a key on angles bounds: all of a phase, or the one at an end of the motion."""
    if key.kind not in ("pose", "range", "turn"):
        return None
    phase = layout.problem.phase_index(key.phase)
    if key.at is None:
        knots, edges = layout.timeline.spline.knots, layout.timeline.edges
        return np.flatnonzero((knots[:-4] < edges[phase + 1] - 1e-9) & (knots[4:] > edges[phase] + 1e-9))
    time = layout.timeline.time_of(phase, key.at)
    if time <= 0.0:
        return np.array([0])
    return np.array([layout.num_points - 1]) if time >= layout.timeline.duration_s - SNAP_S else None


def key_angle_ranges(layout: FullLayout, key: Key) -> list[tuple[int, float, float]]:
    """Angle, lowest and highest value that a key on coordinates asks for."""
    figure = layout.figure
    low = -np.inf if key.lower is None else key.lower
    high = np.inf if key.upper is None else key.upper
    if key.kind == "turn":
        return [(figure.angle_index(key.axis), low, high)]
    if key.kind == "range":
        return [(figure.angle_index(name), low, high) for name in key.joints]
    if key.kind == "velocity" and not key.joints:
        return [(i, 0.0, 0.0) for i in range(layout.num_angles)]
    return [(figure.angle_index(name), value, value) for name, value in key.joints.items()]


def _target_rows(layout: FullLayout, key: Key, placed: WorldVector, scale: float) -> FullRows:
    """A vector in the world at a target, components without a value free; of a clearance, its height between ends."""
    axes = [int(i) for i in layout.figure.axes if i < len(key.target) and key.target[i] is not None]
    what = key.point or {"com": "centre of mass", "com_velocity": "velocity of the centre of mass"}.get(key.kind, "")
    labels = tuple(f"{what} along {'xyz'[i]}" for i in axes)
    target, low, high = np.array([key.target[i] for i in axes], dtype=np.float64), 0.0, 0.0
    if key.kind == "clearance":
        axes, labels, target = [1], (f"height of {key.point}",), np.zeros(1)
        low, high = scale * (key.lower or 0.0), np.inf if key.upper is None else scale * key.upper
    if not axes:
        raise InputError(f"key '{key.kind}' in phase '{key.phase}' has no target", "Give at least one component")
    chosen = np.array(axes, dtype=np.int64)
    columns = None if placed.columns is None else placed.columns[:, chosen]
    coefficients = None if placed.coefficients is None else scale * placed.coefficients[:, chosen]

    def evaluate(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        return (placed.jet(state, x).columns(chosen) - target) * scale, coefficients

    shape = (len(placed.at), len(axes))
    return FullRows(placed.at, np.full(shape, low), np.full(shape, high), labels, evaluate, columns)


def _bar_rows(layout: FullLayout, key: Key, phase: int, times: FloatArray, at: IntArray) -> FullRows:
    r"""Keep the segment of a point off a bar along X: the square of its nearest distance in the plane across.

    At the nearest point of the segment the distance does not change with the place along it (envelope theorem), so
    the derivative is that of the fixed combination of the segment's ends.
    """
    assert key.point is not None
    end = world_vector(layout, phase, times, at, key.point)
    start = world_vector(layout, phase, times, at, key.point + AT_JOINT)
    centre = np.array([0.0, *[0.0 if v is None else v for v in key.target[1:3]]])
    across = np.array([0.0, 1.0, 1.0])
    radius = key.lower or 0.0

    def evaluate(state: BodyState, x: FloatArray) -> tuple[StateJet, Factors]:
        a, b = start.jet(state, x), end.jet(state, x)
        off, along = (a.value - centre) * across, (b.value - a.value) * across
        share = np.clip(-(off * along).sum(1) / np.maximum((along * along).sum(1), 1e-12), 0.0, 1.0)[:, None]
        gap = off + share * along
        partials = (1.0 - share)[..., None] * a.partials + share[..., None] * b.partials
        slope = gap / (2.0 * radius)
        value = np.einsum("ni,ni->n", gap, gap) / (4.0 * radius)
        jet = StateJet(value[:, None], np.einsum("ni,pnid->pnd", slope, partials)[:, :, None]) * POSITION_ROW
        coefficients = None if end.coefficients is None else np.einsum("ni,nig->nig", slope, end.coefficients)
        if coefficients is None:
            return jet, None
        return jet, POSITION_ROW * coefficients.reshape(len(at), 1, -1)

    columns = None if end.columns is None else end.columns.reshape(len(at), 1, -1)
    lower = np.full((len(at), 1), POSITION_ROW * radius / 4.0)
    return FullRows(at, lower, np.full_like(lower, np.inf), (f"bar clear of {key.point}",), evaluate, columns)


SAME_ANGLE_RAD = 1e-9  # [rad] values of two keys this near are the same
REACH_TOL_M = 1e-6  # [m]
TORQUE_WEIGHTS = ("torque", "min_torque_change", "min_variance", "contact_force", "contact_jerk")
MAX_FRAMES = 100  # [per span] beyond it rows only repeat one another
MAX_REFINE = 6  # halvings: a span of 0.1 s is then 1.6 ms long


def validate_numbers(problem: SpacetimeProblem) -> None:
    """Refuse what no space can use: bad durations, contacts and keys.

    Raises:
        InputError: with the phase or key it is about.
        UnknownNameError: a key names a phase or kind that does not exist.
    """
    # Phases last some finite time, and have no more spans than memory holds
    for phase in problem.phases:
        if not np.isfinite(phase.duration_s) or phase.duration_s < 0.0:
            raise InputError(f"phase '{phase.name}' lasts {phase.duration_s} s", "Give a duration above 0")
        if phase.duration_s == 0.0:
            raise InputError(f"phase '{phase.name}' has zero duration", "Give a duration above 0, or leave it out")
        span = problem.span_s if phase.span_s is None else phase.span_s
        if not (np.isfinite(span) and span > 0.0):
            raise InputError(f"knot spacing of phase '{phase.name}' is {span} s", "Give span_s above 0")
        if phase.duration_s > MAX_SPANS * span:
            raise InputError(
                f"phase '{phase.name}' of {phase.duration_s:g} s has more than {MAX_SPANS} spans of {span:g} s",
                "Shorten it, or give a longer span_s",
            )
    for name in ("span_s", "gravity", "height_m", "mass_kg", "start_com"):
        _require_finite(getattr(problem, name), f"{name} of problem '{problem.name}'")
    if problem.gravity < 0.0:
        raise InputError(f"gravity is {problem.gravity:g} m/s²", "It pulls down along Y: give 0 or more")
    for name, (low, high) in problem.limits.items():
        if not low <= high:
            raise InputError(f"limits of {name} from {low} to {high} rad", "Give the lowest angle first")
    for name, (low, high) in problem.torque_limits.items():
        if not (low <= 0.0 <= high and low < high):
            raise InputError(f"torque_limits of {name} from {low} to {high} N m", "Give the lowest first; 0 is between")
    if problem.strength is not None and not (np.isfinite(problem.strength) and problem.strength > 0.0):
        raise InputError(f"strength is {problem.strength}", "It is above 0; 1 is the table of isometric maxima")
    if not 1 <= problem.frames_per_span <= MAX_FRAMES or problem.max_iterations < 1:
        raise InputError(
            f"frames_per_span is {problem.frames_per_span}, max_iterations {problem.max_iterations}",
            f"Both are at least 1, frames_per_span at most {MAX_FRAMES}",
        )
    if not 0 <= problem.refine <= MAX_REFINE:
        raise InputError(f"refine is {problem.refine}", f"Spans are halved 0 to {MAX_REFINE} times")
    for item in fields(problem.objective):
        weight = getattr(problem.objective, item.name)
        if not np.isfinite(weight) or weight < 0.0:
            raise InputError(f"weight {item.name} is {weight}", "Weights are finite and not negative")
    for phase in problem.phases:
        if phase.duration_range_s is not None:
            low, high = phase.duration_range_s
            _require_finite((low, high), f"duration_range_s of phase '{phase.name}'")
            if not 0.0 < low <= phase.duration_s <= high:
                raise InputError(
                    f"phase '{phase.name}' lasts {phase.duration_s:g} s, outside its range {low:g} to {high:g} s",
                    "Give 0 < lowest <= duration_s <= highest",
                )
        for contact in phase.contacts:
            where = f"contact '{contact.point}' of phase '{phase.name}'"
            if contact.kind not in CONTACT_KINDS:
                raise UnknownNameError("kind", contact.kind, where, CONTACT_KINDS)
            _require_finite((*contact.position, *contact.normal, *contact.half_extents_m, contact.heading_deg), where)
            if abs(float(np.linalg.norm(contact.normal)) - 1.0) > 1e-6:
                raise InputError(
                    f"the normal of {where} has length {np.linalg.norm(contact.normal):.4g}", "Give a unit vector"
                )
            if min(contact.half_extents_m) <= 0.0:
                raise InputError(f"{where} has half extents {contact.half_extents_m} m", "Give lengths above 0")
            _require_finite((contact.friction, contact.twist_m), f"friction or twist_m of {where}")
            if not (contact.friction >= 0.0 and contact.max_force > 0.0 and contact.twist_m >= 0.0):
                raise InputError(
                    f"{where} has friction {contact.friction:g}, twist_m {contact.twist_m:g}, "
                    f"max_force {contact.max_force:g}",
                    "None of them is negative, and max_force is above 0",
                )
            if not 0.0 <= contact.max_tilt_deg <= 180.0:
                raise InputError(f"{where} may tilt by {contact.max_tilt_deg:g}°", "Give max_tilt_deg from 0 to 180")
    for key in problem.keys:
        label = f"key '{key.kind}' in phase '{key.phase}'"
        if key.kind not in KEY_KINDS:
            raise UnknownNameError("kind of key", key.kind, f"problem '{problem.name}'", KEY_KINDS)
        own = problem.phases[problem.phase_index(key.phase)]
        if key.at is not None and not 0.0 <= key.at <= 1.0:
            raise InputError(f"{label} is at {key.at}", "Give a share of the phase, 0 to 1")
        _require_finite((*key.joints.values(), *key.target, key.lower, key.upper), label)
        if key.lower is not None and key.upper is not None and key.lower > key.upper:
            raise InputError(f"{label} asks for at least {key.lower:g} and at most {key.upper:g}", "Swap them")
        if key.axis not in AXES:
            raise UnknownNameError("axis", key.axis, label, AXES)
        if key.kind in ("point", "clearance", "bar") and key.point is None:
            raise InputError(f"{label} names no point", "Give point")
        if key.kind in POSITION_KINDS and len(key.target) not in (0, 3):
            raise InputError(
                f"{label} has {len(key.target)} components as target",
                'Give x, y and z; "free" in a file leaves one open',
            )
        if key.kind in ("point", "com", "com_velocity") and all(value is None for value in key.target):
            raise InputError(f"{label} has no target", "Give at least one component")
        if key.pose is not None and key.kind != "pose":
            raise InputError(f"{label} has a pose of a clip", "Only keys of the kind 'pose' take one")
        if key.kind in ("pose", "range") and not key.joints and key.pose is None:
            raise InputError(f"{label} names no coordinate", "Give joints")
        if key.kind == "bar" and not (key.lower and key.lower > 0.0 and len(key.target) == 3):
            raise InputError(f"{label} has no radius or no place", "Give lower above 0, and target")
        if key.kind == "force" and not own.contacts:
            raise InputError(f"{label} asks for a force in flight", "Name a phase with a contact")
    check_key_conflicts(problem)


def validate_full(layout: FullLayout) -> None:
    """Refuse what this character cannot do: unknown points, contradicting keys, plants out of reach."""
    problem, figure = layout.problem, layout.figure
    build_torque_limits(figure.tree, problem)
    for p, phase in enumerate(problem.phases):
        for contact in phase.contacts:
            figure.point(contact.point)
        if phase.contacts:
            if not is_shared(problem, p):
                build_support(phase)
            elif sum(getattr(problem.objective, name) for name in TORQUE_WEIGHTS) > 0.0:
                raise InputError(
                    f"phase '{phase.name}' has {len(phase.contacts)} contacts that share the load",
                    f"Leave {', '.join(TORQUE_WEIGHTS)} at 0: torques and forces of one contact are not known there",
                )
            for one, other in combinations(phase.contacts, 2):
                _check_pair(figure, one, other, f"in phase '{phase.name}'")
    # Contacts of two supports in a row hold at one instant
    for before, after in pairwise(problem.phases):
        for one, other in product(before.contacts, after.contacts):
            _check_pair(figure, one, other, f"from phase '{before.name}' to '{after.name}'")
    for key in problem.keys:
        if key.point is not None:
            figure.point(key.point)
        phase = problem.phases[problem.phase_index(key.phase)]
        if key.kind == "point" and key.point is not None and phase.contacts and len(key.target) == 3:
            if any(value is None for value in key.target):
                continue
            x, y, z = (float(value or 0.0) for value in key.target)
            goal = Contact(key.point, (x, y, z))
            _check_pair(figure, phase.contacts[0], goal, f"(a key in phase '{phase.name}')")
    # Keys that leave a coordinate no value: at one instant, or inside its limits
    seen: dict[tuple[str, float, int], tuple[Key, float, float]] = {}
    for key in layout.problem.keys:
        if key.at is None or key.kind not in ("pose", "range", "turn", "velocity"):
            continue
        family = "velocity" if key.kind == "velocity" else "angle"
        time = round(layout.timeline.time_of(layout.problem.phase_index(key.phase), key.at), 9)
        for i, low, high in key_angle_ranges(layout, key):
            # Two keys on one coordinate at one instant must leave a common value
            other = seen.get((family, time, i))
            if other is not None and (low > other[2] + SAME_ANGLE_RAD or high < other[1] - SAME_ANGLE_RAD):
                first, ends = other[0], (other[1:], (low, high))
                one, two = (f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in ends)
                raise InputError(
                    f"keys '{first.kind}' in phase '{first.phase}' and '{key.kind}' in phase '{key.phase}' contradict: "
                    f"{layout.figure.names[i]} cannot be {one} and {two} at {time:.2f} s",
                    "Change one of them",
                )
            seen[(family, time, i)] = (key, low, high)
    # Control points bound the curve, so their ranges must have room
    lower, upper = find_point_bounds(layout)
    empty = np.argwhere(lower > upper + SAME_ANGLE_RAD)
    if empty.size:
        point, i = (int(v) for v in empty[0])
        time = layout.timeline.spline.greville[point]
        raise InputError(
            f"the keys leave {layout.figure.names[i]} no room at {time:.2f} s: "
            f"at least {lower[point, i]:.3g} and at most {upper[point, i]:.3g} rad",
            "Loosen a key, or widen its limits",
        )


def _require_finite(values: float | Iterable[float | None] | None, what: str) -> None:
    given = [values] if values is None or isinstance(values, float | int) else list(values)
    if any(value is not None and not np.isfinite(value) for value in given):
        raise InputError(f"{what} is {values}", "Give finite numbers")


def _max_distance(figure: FullBodyModel, one: str, other: str) -> float:
    """Farthest two named points can be apart [m]: the lengths of the segments between them, stretched."""
    # Joints from the root to each point, with their offsets
    chains: list[list[tuple[int, FloatArray]]] = []
    for point in (one, other):
        up = figure.tree.ancestors(figure.point(point)[0])
        chains.append([(dof, figure.tree.offsets[dof]) for dof in reversed(up)])
    a, b = chains
    # The common part of both chains does not count, the rest is stretched out
    shared = len([1 for (i, _), (j, _) in zip(a, b, strict=False) if i == j])
    ends = [figure.point(name)[1] for name in (one, other)]
    if shared == len(a) == len(b):
        return float(np.linalg.norm(ends[0] - ends[1]))
    tops = [chain[shared][1] if shared < len(chain) else end for chain, end in zip((a, b), ends, strict=True)]
    length = float(np.linalg.norm(tops[0] - tops[1]))
    for chain, end in zip((a, b), ends, strict=True):
        if shared < len(chain):
            length += float(np.linalg.norm(end)) + sum(float(np.linalg.norm(step)) for _, step in chain[shared + 1 :])
    return length


def _check_pair(figure: FullBodyModel, one: Contact, other: Contact, where: str) -> None:
    apart = float(np.linalg.norm(np.asarray(one.position) - np.asarray(other.position)))
    reach = _max_distance(figure, one.point, other.point)
    if apart > reach + REACH_TOL_M:
        raise InputError(
            f"the plants of {one.point} and {other.point} {where} are {apart:.2f} m apart, "
            f"{apart - reach:.2f} m more than the body reaches ({reach:.2f} m)",
            "Move them closer, or put a flight between",
        )
