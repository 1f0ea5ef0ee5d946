"""In-betweens: the motion through key poses as people move, in a pose space, or smoothly; with limits and contacts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError, Result
from marey.kinematics.limits.contract import JointLimits
from marey.kinematics.two_bone import Limb, solve_two_bone
from marey.lie import SO3
from marey.lie.calculus import left_jacobian_inverse
from marey.models import InBetweenModel, KeyGaps, PoseModel
from marey.models.in_between_model import CONTACT_SAMPLES, READ_ROLES, SAMPLES
from marey.motion import Contacts, KeyFrames, Motion
from marey.skeleton import ROLES, role_map

PLANTED_M: Final = 0.03  # [m] a foot that is this near in two keys stands between them
ROUNDS: Final = 3  # of limits and contacts in turn: each undoes a little of the other
FEET: Final = ("left", "right")
HEAD_LEGS: Final = 0.3  # of a leg's length, from the shoulders to the head, where a body has none


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InBetweens(Result):
    """A clip through key poses, and what it keeps."""

    motion: Motion
    planted: BoolArray  # (F, 2) left and right foot stand
    slide_m: float  # [m] how far a standing ankle is from where it stands, at most
    violation_rad: float  # [rad] of the joint furthest outside the limits, at most; 0 without limits

    def __repr__(self) -> str:
        facts = f"feet within {1e3 * self.slide_m:.1f} mm, limits within {self.violation_rad:.3f} rad"
        return f"InBetweens({self.motion.num_frames} frames, {facts})"


def fill_in_betweens(
    keys: KeyFrames,
    rate_hz: float,
    *,
    model: PoseModel | None = None,
    prior: InBetweenModel | None = None,
    contacts: Contacts | None = None,
    limits: JointLimits | None = None,
    hold_feet: bool = True,
) -> InBetweens:
    r"""Interpolate key poses, keep joints inside limits and standing feet where they stand.

    Rotations follow a cubic on the group, :math:`R_i \exp(\phi(u))`, whose angular velocity at a key is the harmonic
    mean of those of the slerps on both sides (Fritsch and Carlson's rule, so no joint swings past its keys). With a
    model its coordinates are interpolated instead, and what a key has outside the model follows as a rest. With a prior
    the cubic goes through the keys and 14 poses of each gap, which are what captured people did between such keys
    (:class:`~marey.models.InBetweenModel`). Every key is met exactly. A foot that is within 3 cm of the same place in
    two keys stands between them: the leg is bent by its two bones so that the ankle stays there and the foot keeps its
    turn.

    Args:
        keys: one pose at least.
        rate_hz: frames per second of the clip, from time zero to the last key.
        model: pose space to move in; all joints on their own by default.
        prior: how people move between keys, such as :func:`~marey.models.load_in_betweens`; not with a model.
        contacts: which points of the feet are down in each frame of the clip, if known; read by the prior alone.
        limits: of the same skeleton; joints outside are projected.
        hold_feet: keep standing feet, where the skeleton's legs are known.

    Raises:
        InputError: no key, a model of other joints, contacts of another length, or a prior for a body without the
            joints of a human.
    """
    if not keys.poses:
        raise InputError("no key frame is set", "Set at least one")
    if model is not None and model.skeleton.names != keys.skeleton.names:
        raise InputError("the model has other joints than the keys", "Fit it on clips of this skeleton")
    times = np.array(keys.times)
    count = int(np.floor(times[-1] * rate_hz + 1e-9)) + 1
    at = np.clip(np.arange(count) / rate_hz, times[0], times[-1])
    rotations = SO3.stack([pose.rotations for pose in keys.poses.values()])
    roots = np.stack([pose.root_position for pose in keys.poses.values()])
    if contacts is not None and len(contacts) != count:
        raise InputError(f"contacts of {len(contacts)} frames", f"The clip has {count}")
    if prior is not None and model is not None:
        raise InputError("a pose space and a prior at once", "Choose one of them")
    nodes, places = times, roots  # what the curves go through
    if prior is not None and len(times) > 1:
        nodes, places, through = _predict_nodes(keys, prior, None if contacts is None else (contacts, rate_hz))
        turned = _interpolate_rotations(nodes, through, at)
    elif model is None:
        turned = _interpolate_rotations(times, rotations, at)
    else:
        x = model.encode(Motion(keys.skeleton, rate_hz, roots, rotations))
        made, moved = model.rotations(x), model.rotations(_interpolate_values(times, x, at))
        # The root, and what the keys have outside the model
        turned = moved @ _interpolate_rotations(times, made.inverse() @ rotations, at)
    clip = Motion(keys.skeleton, rate_hz, _interpolate_values(nodes, places, at), turned, name="keys")
    if hold_feet:
        # Feet stand whose ankle and toes are near the same place in the keys before and after
        roles, planted = role_map(keys.skeleton), np.zeros((len(at), 2), dtype=np.bool_)
        joint_places = np.stack([pose.joint_positions() for pose in keys.poses.values()])
        i = np.clip(np.searchsorted(times, at, side="right") - 1, 0, max(len(times) - 2, 0))
        for side, foot in enumerate(FEET):
            joints = [roles[f"{foot}_{part}"] for part in ("ankle", "toes") if f"{foot}_{part}" in roles]
            if len(times) > 1 and f"{foot}_ankle" in roles and f"{foot}_knee" in roles and f"{foot}_hip" in roles:
                stays = np.linalg.norm(np.diff(joint_places[:, joints], axis=0), axis=-1).max(axis=1) < PLANTED_M
                planted[:, side] = stays[i]
    else:
        planted = np.zeros((count, 2), dtype=np.bool_)
    slide = 0.0
    for _ in range(ROUNDS if limits is not None and planted.any() else 1):
        if limits is not None:
            clip = replace(clip, rotations=limits.project_rotations(clip.rotations))
        if planted.any():
            clip, slide = _hold_feet(clip, keys, times, at, planted)
    violation = 0.0 if limits is None else float(limits.violations(clip.rotations).max(initial=0.0))
    return InBetweens(clip, planted, slide, violation)


def _predict_nodes(
    keys: KeyFrames, prior: InBetweenModel, contacts: tuple[Contacts, float] | None
) -> tuple[FloatArray, FloatArray, SO3]:
    r"""Times ``(N,)``, roots ``(N, 3)`` and rotations ``(N, J)`` of the keys and of the predicted poses between them.

    The straight interpolation is corrected joint by joint in the world, :math:`R \leftarrow \exp(c)\,R`; a joint
    without a role goes with the one above it. What both sides of a key say of its velocity is averaged: gap by gap the
    cubics :math:`u(1-u)^2` and :math:`u^2(u-1)` add what is missing at its ends.
    """
    roles, skeleton = role_map(keys.skeleton), keys.skeleton
    absent = [role for role in (*READ_ROLES, "pelvis") if role not in roles and role != "head"]
    if absent:
        raise InputError(f"in-betweens of people need {', '.join(absent)}", "Interpolate without a prior")
    times, poses = np.array(keys.times), list(keys.poses.values())
    count = len(times) - 1
    places = np.stack([pose.joint_positions() for pose in poses])
    spots = places[:, [roles.joints.get(role, roles["pelvis"]) for role in ROLES]]
    leg = [ROLES.index(f"left_{part}") for part in ("hip", "knee", "ankle")]
    leg_m = float(np.linalg.norm(np.diff(spots[0, leg], axis=0), axis=1).sum())
    if "head" not in roles:  # of many robots: on the line of the trunk
        shoulders = 0.5 * (spots[:, ROLES.index("left_shoulder")] + spots[:, ROLES.index("right_shoulder")])
        trunk = shoulders - spots[:, 0]
        height = HEAD_LEGS * leg_m / np.maximum(np.linalg.norm(trunk, axis=1, keepdims=True), 1e-9)
        spots[:, ROLES.index("head")] = shoulders + height * trunk
    # Each gap with the keys before and after it
    around = np.arange(count)[:, None] + np.arange(-1, 3)
    is_known = (around >= 0) & (around < len(times))
    around = np.clip(around, 0, count)
    u = np.arange(SAMPLES + 2) / (SAMPLES + 1)
    nodes = times[:-1, None] + np.diff(times)[:, None] * u
    flags = np.zeros((count, len(CONTACT_SAMPLES), 2))
    if contacts is not None:
        track, rate_hz = contacts
        frames = np.clip(np.rint(nodes[:, 1:-1][:, CONTACT_SAMPLES] * rate_hz).astype(int), 0, len(track) - 1)
        for side, foot in enumerate(FEET):
            own = [i for i, name in enumerate(track.names) if name.startswith(foot)]
            flags[:, :, side] = np.where(track.active[:, own].any(axis=1), 1.0, -1.0)[frames] if own else 0.0
    turns, shifts = prior.predict(KeyGaps(spots[around], is_known, times[around], leg_m, flags))
    # The straight interpolation, and its corrections; none at the keys
    local = SO3.stack([pose.rotations for pose in poses])
    straight = local[:-1][:, None].slerp(local[1:][:, None], u[None, :, None])
    roots = places[:-1, None, 0] + u[:, None] * np.diff(places[:, 0], axis=0)[:, None]
    shape = (count * len(u), skeleton.num_joints)
    base = Motion(skeleton, 1.0, roots.reshape(-1, 3), straight.reshape(*shape)).joint_frames()[1]
    joints, index = {joint: ROLES.index(role) for role, joint in roles.joints.items()}, np.zeros(shape[1], dtype=int)
    for joint, parent in enumerate(skeleton.parents):
        index[joint] = joints.get(joint, index[parent] if parent >= 0 else 0)
    turns = np.pad(turns, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, :, index]
    world = SO3.exp(turns.reshape(*shape, 3)) @ base
    world = world.reshape(count, len(u), -1)
    roots[:, 1:-1] += shifts
    # Frames (N, S, J) and roots (N, S, 3) of the gaps are changed so that velocities agree at the keys between them
    spans = np.diff(times)
    if len(spans) > 1:
        share = np.linspace(0.0, 1.0, roots.shape[1])

        def find_ends(near: FloatArray, far: FloatArray, sign: float) -> FloatArray:
            # Second-order difference from one and two samples away
            step = (spans * share[1]).reshape(-1, *(1,) * (near.ndim - 1))
            return sign * (4.0 * near - far) / (2.0 * step)

        def find_turns(end: int, one: int, two: int, sign: float) -> FloatArray:
            back = world[:, end].inverse()
            return find_ends((world[:, one] @ back).log(), (world[:, two] @ back).log(), sign)

        def find_shifts(end: int, one: int, two: int, sign: float) -> FloatArray:
            return find_ends(roots[:, one] - roots[:, end], roots[:, two] - roots[:, end], sign)

        added: list[FloatArray] = []
        for find in (find_turns, find_shifts):
            first, last = find(0, 1, 2, 1.0), find(-1, -2, -3, -1.0)
            apart = 0.5 * (last[:-1] - first[1:])
            start, stop = np.zeros_like(first), np.zeros_like(last)
            start[1:], stop[:-1] = apart, -apart
            ahead = (1, -1) + (1,) * (first.ndim - 1)
            length = spans.reshape(-1, *(1,) * first.ndim)
            added.append(
                length
                * (
                    (share * (1.0 - share) ** 2).reshape(ahead) * start[:, None]
                    + (share**2 * (share - 1.0)).reshape(ahead) * stop[:, None]
                )
            )
        world, roots = SO3.exp(added[0]) @ world, roots + added[1]
    # Back to rotations in their parents, and each key once
    parents = np.maximum(np.array(skeleton.parents), 0)
    inner = world[:, :, parents].inverse() @ world
    inner = SO3(np.where((np.array(skeleton.parents) < 0)[:, None], world.wxyz, inner.wxyz))
    wxyz = np.concatenate([inner.wxyz[:, :-1].reshape(-1, shape[1], 4), local.wxyz[-1:]])
    wxyz[:: len(u) - 1] = local.wxyz
    path = np.concatenate([roots[:, :-1].reshape(-1, 3), poses[-1].root_position[None]])
    return np.append(nodes[:, :-1].ravel(), times[-1]), path, SO3(wxyz)


def _interpolate_values(times: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    """Values ``(F, n)`` at times ``(F,)`` through ``(K, n)``, without overshoot."""
    if len(times) == 1:
        return np.repeat(values, len(at), axis=0)
    from scipy.interpolate import PchipInterpolator

    return np.asarray(PchipInterpolator(times, values)(at), dtype=np.float64)


def _interpolate_rotations(times: FloatArray, rotations: SO3, at: FloatArray) -> SO3:
    r"""Rotations, batch ``(F, ...)``, at times ``(F,)`` through keys of batch ``(K, ...)``: a cubic on the group.

    Between keys :math:`R_i \exp(\phi(u))`, :math:`\phi` the Hermite cubic from 0 to :math:`\delta_i = \log(R_i^{-1}
    R_{i+1})` with the slopes :math:`h\,\omega_i` and :math:`h\,J_r^{-1}(\delta_i)\,\omega_{i+1}`. A slerp has the same
    body velocity at both ends, so velocities of neighbours compare without a change of frame.
    """
    if len(times) == 1:
        return SO3(np.repeat(rotations.wxyz, len(at), axis=0))
    spans = np.diff(times).reshape(-1, *(1,) * len(rotations.shape))
    delta = (rotations[:-1].inverse() @ rotations[1:]).log()
    slopes = delta / spans
    velocity = np.zeros((*rotations.shape, 3))
    if len(slopes) > 1:
        a, b = slopes[:-1], slopes[1:]
        is_same = a * b > 0.0
        velocity[1:-1] = np.where(is_same, 2.0 * a * b / np.where(is_same, a + b, 1.0), 0.0)
    i = np.clip(np.searchsorted(times, at, side="right") - 1, 0, len(times) - 2)
    u = ((at - times[i]) / np.diff(times)[i]).reshape(-1, *(1,) * len(rotations.shape))
    first = spans[i] * velocity[i]
    last = np.einsum("...ij,...j->...i", left_jacobian_inverse(-delta), spans * velocity[1:])[i]
    phi = (u**2 * (3.0 - 2.0 * u)) * delta[i] + (u * (1.0 - u) ** 2) * first + (u**2 * (u - 1.0)) * last
    return rotations[i] @ SO3.exp(phi)


def _hold_feet(
    clip: Motion, keys: KeyFrames, times: FloatArray, at: FloatArray, planted: BoolArray
) -> tuple[Motion, float]:
    """Bend the legs so that standing ankles stay; return the clip, and how far one is from its place [m]."""
    places = np.stack([pose.joint_positions() for pose in keys.poses.values()])
    turns = SO3.stack([pose.joint_rotations() for pose in keys.poses.values()])
    slide = 0.0
    for side, foot in enumerate(FEET):
        stands = planted[:, side]
        if not stands.any():
            continue
        leg = Limb.from_name(clip.skeleton, f"{foot}_leg")
        positions, frames = clip.joint_frames()
        held = _interpolate_values(times, places[:, leg.end], at)
        goals = np.where(stands[:, None], held, positions[:, leg.end])
        wxyz = np.where(
            stands[:, None], _interpolate_rotations(times, turns[:, leg.end], at).wxyz, frames[:, leg.end].wxyz
        )
        # As straight as the straightest leg of the keys, and a little more
        lengths = np.linalg.norm(places[:, [leg.middle, leg.end]] - places[:, [leg.upper, leg.middle]], axis=-1).sum(
            axis=1
        )
        reach = float((np.linalg.norm(places[:, leg.end] - places[:, leg.upper], axis=1) / lengths).max())
        stretch = min(max(reach + 5e-3, 0.97), 0.9999)
        moved = solve_two_bone(clip, leg, goals, end_rotations=SO3(wxyz), stretch=stretch).motion
        rotations = np.where(stands[:, None, None], moved.rotations.wxyz, clip.rotations.wxyz)
        clip = replace(clip, rotations=SO3(rotations))
        away = np.linalg.norm(clip.joint_positions()[:, leg.end] - held, axis=1)
        slide = max(slide, float(away[stands].max()))
    return clip, slide
