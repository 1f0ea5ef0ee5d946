"""From a motion to solid bodies in world: which capsules, where, in which colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray
from marey.motion import Contacts, Motion
from marey.picture._scene import CapsuleBatch, linear_from_srgb
from marey.skeleton import Capsules, Skeleton, capsules, contact_points, joint_frames, role_map

PAPER_COLOUR: Final = linear_from_srgb("#eceff2")  # what older bodies fade to


@dataclass(frozen=True, slots=True, eq=False)
class Palette:
    """Colours of one figure (linear RGB): calm, left and right told apart by hue."""

    trunk: FloatArray = field(default_factory=lambda: linear_from_srgb("#d3d6d8"))
    left: FloatArray = field(default_factory=lambda: linear_from_srgb("#6d9bc8"))
    right: FloatArray = field(default_factory=lambda: linear_from_srgb("#e0a76f"))
    contact: FloatArray = field(default_factory=lambda: linear_from_srgb("#c8452f"))


PALETTES: Final = (
    Palette(),
    Palette(
        linear_from_srgb("#b5c9b4"),
        linear_from_srgb("#5fa58d"),
        linear_from_srgb("#a9b85c"),
        linear_from_srgb("#c8452f"),
    ),
    Palette(
        linear_from_srgb("#cbb9cc"),
        linear_from_srgb("#8f7fc4"),
        linear_from_srgb("#d288ae"),
        linear_from_srgb("#c8452f"),
    ),
    Palette(
        linear_from_srgb("#d3c7ae"),
        linear_from_srgb("#b98d4a"),
        linear_from_srgb("#d9b84f"),
        linear_from_srgb("#c8452f"),
    ),
)


def place_capsules(motion: Motion, frames: IntArray) -> tuple[Capsules, FloatArray, FloatArray]:
    """The body's capsules and where they start and end in world ``(n, S, 3)`` [m], at some frames."""
    body = body_capsules(motion.skeleton)
    moving = None if motion.translations is None else motion.translations[frames]
    positions, R_world_joint = joint_frames(
        motion.skeleton, motion.root_positions[frames], motion.rotations.wxyz[frames], moving
    )
    carried, turned = positions[:, body.joints], R_world_joint[:, body.joints]
    return body, carried + turned @ body.starts, carried + turned @ body.ends


@lru_cache(maxsize=64)
def body_capsules(skeleton: Skeleton) -> Capsules:
    """The solid body of a skeleton, kept because a film asks for it at every frame; a lone joint is a ball."""
    body = capsules(skeleton)
    if len(body):
        return body
    return Capsules(np.zeros(1, dtype=np.int64), np.zeros((1, 3)), np.zeros((1, 3)), np.full(1, 0.1), np.full(1, 0.1))


def body_solids(
    motion: Motion,
    frames: IntArray,
    palette: Palette,
    *,
    contacts: Contacts | None = None,
    fades: ArrayLike = 0.0,
    offsets: ArrayLike = 0.0,
) -> list[CapsuleBatch]:
    """One coloured body for each of ``frames`` ``(n,)``.

    Args:
        motion: the clip.
        frames: which frames to show.
        palette: its colours.
        contacts: colours feet and hands that touch; none by default.
        fades: how far each body is faded to paper, 0 to 1, ``(n,)`` or one number.
        offsets: moves each body aside, ``(n, 3)`` [m] or one number.
    """
    body, starts, ends = place_capsules(motion, frames)
    fades = np.broadcast_to(np.asarray(fades, dtype=np.float64), len(frames))
    moves = np.broadcast_to(np.asarray(offsets, dtype=np.float64), (len(frames), 3))[:, None, :]
    plain = _side_colours(motion.skeleton, body, palette)
    touching = _find_contact_capsules(motion.skeleton, body, contacts, frames)
    colours = np.where(touching[..., None], palette.contact, plain)
    colours = colours + fades[:, None, None] * (PAPER_COLOUR - colours)
    starts, ends = starts + moves, ends + moves
    return [CapsuleBatch(starts[i], ends[i], body.start_radii, body.end_radii, colours[i]) for i in range(len(frames))]


def _side_colours(skeleton: Skeleton, body: Capsules, palette: Palette) -> FloatArray:
    sides = joint_sides(skeleton)[body.joints]
    return np.stack([palette.trunk, palette.left, palette.right])[sides]


@lru_cache(maxsize=64)
def joint_sides(skeleton: Skeleton) -> IntArray:
    """Side of each joint ``(J,)``: 0 trunk, 1 left, 2 right; joints without a role follow their parent."""
    sides = np.zeros(skeleton.num_joints, dtype=np.int64)
    known = {joint: role for role, joint in role_map(skeleton).joints.items()}
    for j in range(skeleton.num_joints):
        role = known.get(j)
        if role is None:
            sides[j] = sides[skeleton.parents[j]] if j else 0
        elif not role.endswith("collar"):  # collars carry the chest's upper corners
            sides[j] = 1 if role.startswith("left_") else 2 if role.startswith("right_") else 0
    return sides


def _find_contact_capsules(
    skeleton: Skeleton, body: Capsules, contacts: Contacts | None, frames: IntArray
) -> BoolArray:
    """Which capsules ``(n, S)`` are carried by a joint whose contact point touches."""
    touching = np.zeros((len(frames), len(body)), dtype=np.bool_)
    if contacts is None:
        return touching
    points = contact_points(skeleton)
    for name, joint in zip(points.names, points.joints, strict=True):
        if name in contacts.names:
            touching |= contacts.track(name)[frames][:, None] & (body.joints == joint)
    return touching


def resolve_frames(motion: Motion, frames: int | Sequence[int] | ArrayLike) -> IntArray:
    """Frame numbers as an array; negative ones count from the end.

    Raises:
        InputError: none was given, or one lies outside the clip.
    """
    chosen = np.atleast_1d(np.asarray(frames, dtype=np.int64))
    if chosen.ndim != 1 or not len(chosen):
        raise InputError("no frame to draw", "Give at least one frame number")
    outside = (chosen < -motion.num_frames) | (chosen >= motion.num_frames)
    if outside.any():
        raise InputError(
            f"frame {chosen[outside][0]} of a motion of {motion.num_frames} frames",
            f"Frames go from 0 to {motion.num_frames - 1}",
        )
    return np.where(chosen < 0, chosen + motion.num_frames, chosen)
