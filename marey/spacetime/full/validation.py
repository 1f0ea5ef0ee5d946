"""Validation before the solve: values that are not finite, contradicting keys, plants out of reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from itertools import combinations, pairwise, product

import numpy as np

from marey.base import FloatArray, InputError, UnknownNameError
from marey.spacetime.full.body_state import FullBodyModel
from marey.spacetime.full.keys import find_point_bounds, key_angle_ranges
from marey.spacetime.full.layout import MAX_SPANS, FullLayout
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
from marey.spacetime.problem.strength import build_torque_limits
from marey.spacetime.problem.support import build_support, is_shared

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
