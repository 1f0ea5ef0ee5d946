"""Rows of the full space: the keys of a problem."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.spacetime.full.body_state import AT_JOINT, BodyState
from marey.spacetime.full.layout import SNAP_S, FullLayout, InstantBuilder
from marey.spacetime.full.physics_rows import (
    POSITION_ROW,
    SPEED_ROW,
    FullRows,
    WorldVector,
    compute_support_wrench,
)
from marey.spacetime.problem.definition import Key
from marey.spacetime.problem.support import contact_frame
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
