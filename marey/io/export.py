r"""What every writer asks first: the clips of the file, whose skeleton, where the root motion goes; tables of numbers.

Engines want root motion on the hips, on a bone above them, or nowhere. A root bone stands on the ground below the
pelvis and faces where the body faces: with the pelvis at :math:`p` and the heading :math:`\psi`,

.. math:: T_{root} = (R_y(\psi), (p_x, 0, p_z)), \qquad T_{root,hips} = T_{root}^{-1}\, T_{hips},

so that every joint stays where it was in world. In place, the pelvis keeps its height and rotation, and loses its path.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, InputError, kernel
from marey.io.binary import AnyPath
from marey.io.character import Character, load_character
from marey.lie import SO3
from marey.motion import Motion, headings
from marey.skeleton import NO_PARENT, Skeleton, tree_difference

SAME_BONE_M: Final = 1e-3  # [m] bones of one person, read from two files
EQUAL_BONE_M: Final = 1e-6  # [m] bones of one file
ROOT_MODES: Final = ("hips", "bone", "in-place")
ROOT_BONE: Final = "root"
UP: Final = np.array([0.0, 1.0, 0.0])


def prepare_clips(motion: Motion | Sequence[Motion], onto: Any, root: str) -> tuple[list[Motion], Character | None]:
    """Return the clips of one file with the root motion in its place, and the character that they are on, if any.

    Args:
        motion: one motion or several, on one skeleton.
        onto: a character, or its file; None writes the bones alone.
        root: as for :func:`place_root`.

    Raises:
        InputError: the motions are on different skeletons, or not on the character's.
    """
    clips = as_clips(motion)
    character = None
    if onto is not None:
        character = onto if isinstance(onto, Character) else load_character(onto)
        clips = fit_clips(clips, character.skeleton, character.name)
    return [place_root(clip, root) for clip in clips], character


def bone_difference(a: Skeleton, b: Skeleton, *, tolerance_m: float = SAME_BONE_M) -> str | None:
    """Say in what two skeletons differ, or ``None``: names, parents or rest pose, but not where the root rests."""
    difference = tree_difference(a, b)
    if difference is None and a.num_joints > 1:
        gaps = np.linalg.norm(a.offsets[1:] - b.offsets[1:], axis=1)
        joint = int(gaps.argmax())
        if gaps[joint] > tolerance_m:
            difference = f"'{a.names[joint + 1]}' rests {1e3 * gaps[joint]:.3g} mm elsewhere"
    return difference


def as_clips(motions: Motion | Sequence[Motion]) -> list[Motion]:
    """Return the clips of one file, checked: at least one, and all on one skeleton.

    Raises:
        InputError: there is none, or a later clip has other joints or bones than the first.
    """
    clips = [motions] if isinstance(motions, Motion) else list(motions)
    if not clips:
        raise InputError("no motion to write", "Give at least one")
    for clip in clips[1:]:
        difference = bone_difference(clips[0].skeleton, clip.skeleton, tolerance_m=EQUAL_BONE_M)
        if difference is not None:
            what = f"'{clip.name}' and '{clips[0].name}' are on different skeletons: {difference}"
            raise InputError(what, "Retarget one to the skeleton of the other first")
    # Takes need names of their own
    taken: set[str] = set()
    named: list[Motion] = []
    for clip in clips:
        name, number = clip.name or "motion", 2
        while name in taken:
            name, number = f"{clip.name}_{number}", number + 1
        taken.add(name)
        named.append(clip if name == clip.name else replace(clip, name=name))
    return named


def fit_joint_order(motion: Motion, skeleton: Skeleton) -> Motion:
    """Return the motion with its joints in the order of a skeleton that has the same tree, else as it is."""
    own, names = motion.skeleton, skeleton.names
    if own.names == names or set(own.names) != set(names):
        return motion
    order = [own.names.index(name) for name in names]
    place = {joint: number for number, joint in enumerate(order)}
    parents = np.array([place.get(int(own.parents[joint]), NO_PARENT) for joint in order])
    if not np.array_equal(parents, skeleton.parents):
        return motion
    return replace(
        motion,
        skeleton=Skeleton(names, parents, own.offsets[order], own.tips[order], own.limits, own.name),
        rotations=motion.rotations[:, order],
        translations=None if motion.translations is None else motion.translations[:, order],
        source=None,
    )


def fit_clips(clips: Sequence[Motion], skeleton: Skeleton, name: str) -> list[Motion]:
    """Return clips with the joints in the order of a character's skeleton.

    Raises:
        InputError: joints or bones differ from those of the character ``name``; the message names the first.
    """
    fitted = [fit_joint_order(clip, skeleton) for clip in clips]
    for clip in fitted:
        difference = bone_difference(skeleton, clip.skeleton)
        if difference is not None:
            what = f"'{clip.name}' is not on the skeleton of '{name}': {difference}"
            raise InputError(what, "Retarget it first: marey.retarget(motion, skeleton)")
    return fitted


def ground_track(motion: Motion) -> tuple[FloatArray, SO3]:
    """Position ``(F, 3)`` [m] below the root joint at height zero, and rotation ``(F,)`` to the body's heading."""
    return motion.root_positions * (1.0 - UP), SO3.exp(headings(motion)[:, None] * UP)


def place_root(motion: Motion, root: str) -> Motion:
    """Return a motion whose root motion is where ``root`` says; world positions stay, except in place.

    Args:
        motion: any motion.
        root: ``"hips"`` leaves it; ``"bone"`` adds a joint on the ground above the root, whose path and heading it
            takes; ``"in-place"`` takes the path along the ground away.

    Raises:
        InputError: ``root`` is another word.
    """
    if check_root_mode(root) == "hips":
        return motion
    skeleton = motion.skeleton
    if root == "in-place":
        still = motion.root_positions * UP + skeleton.offsets[0] * (1.0 - UP)
        return replace(motion, root_positions=still, source=motion.edited_source())
    path, R_world_root = ground_track(motion)
    to_root = R_world_root.inverse()
    name = ROOT_BONE if ROOT_BONE not in skeleton.names else f"{ROOT_BONE}_motion"
    offsets = np.concatenate([np.zeros((1, 3)), skeleton.offsets])
    tips = np.concatenate([np.zeros((1, 3)), skeleton.tips])
    parents = np.concatenate([[NO_PARENT], skeleton.parents + 1])
    moved = Skeleton((name, *skeleton.names), parents, offsets, tips, skeleton.limits, skeleton.name)
    hips = to_root @ motion.rotations[:, 0]
    wxyz = np.concatenate([R_world_root.wxyz[:, None], hips.wxyz[:, None], motion.rotations.wxyz[:, 1:]], axis=1)
    # The pelvis moves against the bone, so its offset does
    translations = np.tile(offsets, (motion.num_frames, 1, 1))
    if motion.translations is not None:
        translations[:, 2:] = motion.translations[:, 1:]
    translations[:, 1] = to_root @ (motion.root_positions - path)
    return replace(
        motion, skeleton=moved, root_positions=path, rotations=SO3(wxyz), translations=translations, source=None
    )


def check_root_mode(root: str) -> str:
    """Return ``root`` if it is one of ``ROOT_MODES``, else raise."""
    if root not in ROOT_MODES:
        raise InputError(f"root motion on '{root}'", f"It goes on one of {', '.join(ROOT_MODES)}")
    return root


WIDEST: Final = 1e9  # [deg or unit] largest value written
MILLIMETRES: Final = 1000.0  # in a metre
DECIMALS: Final = 9  # of times and quaternions; positions are rounded to micrometres or less before


def write_csv(motion: Motion, path: AnyPath, *, rotations: bool = False) -> None:
    """Write joint positions [m] in world, +Y up, one row a frame; the header names joint, axis and unit.

    Columns are ``frame``, ``time_s``, then ``JOINT_x_m``, ``JOINT_y_m``, ``JOINT_z_m`` for every joint; contacts follow
    as ``contact_NAME``, 0 or 1.

    Args:
        motion: what to write.
        path: a `.csv` file.
        rotations: add the rotation of each joint relative to its parent as ``JOINT_qw`` to ``JOINT_qz``.
    """
    names = motion.skeleton.names
    header = ["frame", "time_s", *(f"{name}_{axis}_m" for name in names for axis in "xyz")]
    columns = [_number_frames(motion, first=0), np.round(motion.joint_positions(), 6)]
    if rotations:
        header += [f"{name}_q{part}" for name in names for part in "wxyz"]
        columns.append(motion.rotations.continuous().wxyz)
    if motion.contacts is not None:
        header += [f"contact_{name}" for name in motion.contacts.names]
        columns.append(motion.contacts.active.astype(np.float64))
    table = np.concatenate([column.reshape(motion.num_frames, -1) for column in columns], axis=1, dtype=np.float64)
    line = StringIO()
    csv.writer(line, lineterminator="\n").writerow(header)
    Path(path).write_bytes(line.getvalue().encode() + format_numbers(table, DECIMALS, separator=b","))


def write_trc(motion: Motion, path: AnyPath) -> None:
    """Write joint centres as markers of a TRC file, in millimetres, +Y up, as OpenSim wants its header.

    Args:
        motion: what to write; a joint's name becomes a marker's, spaces and tabs replaced.
        path: a `.trc` file.
    """
    names = ["_".join(name.split()) or "joint" for name in motion.skeleton.names]
    count, rate = motion.num_frames, f"{motion.rate_hz:.10g}"
    labels = "DataRate CameraRate NumFrames NumMarkers Units OrigDataRate OrigDataStartFrame OrigNumFrames"
    axes = [f"{axis}{number}" for number in range(1, len(names) + 1) for axis in "XYZ"]
    head = [
        f"PathFileType\t4\t(X/Y/Z)\t{motion.name}.trc",
        "\t".join(labels.split()),
        "\t".join([rate, rate, str(count), str(len(names)), "mm", rate, "1", str(count)]),
        "\t".join(["Frame#", "Time", *(f"{name}\t\t" for name in names)]),
        "\t".join(["", "", *axes]),
        "",
    ]
    places = np.round(motion.joint_positions() * MILLIMETRES, 5).reshape(count, -1)
    table = np.concatenate([_number_frames(motion, first=1), places], axis=1)
    text = "\n".join(head) + "\n"
    Path(path).write_bytes(text.encode() + format_numbers(table, DECIMALS, separator=b"\t"))


def _number_frames(motion: Motion, *, first: int) -> FloatArray:
    """Number and time [s] of each frame, ``(F, 2)``."""
    return np.stack([first + np.arange(motion.num_frames, dtype=np.float64), motion.times()], axis=1)


def format_numbers(rows: FloatArray, decimals: int, *, separator: bytes = b" ") -> bytes:
    """Text of a table ``(F, C)``, a row a line; values are below ``WIDEST`` and have at most nine decimals.

    Raises:
        InputError: a value is too large.
    """
    if rows.size and not np.abs(rows).max() <= WIDEST:
        raise InputError(f"a value of {np.abs(rows).max():g} is too large for a text file", "Check the motion's unit")
    out = np.empty(24 * rows.size, dtype=np.uint8)
    text = out[: format_table(np.ascontiguousarray(rows), decimals, out)].tobytes()
    return text if separator == b" " else text.replace(b" ", separator)


@kernel
def format_table(values: FloatArray, decimals: int, out: NDArray[np.uint8]) -> int:
    """Write a row a line with at most ``decimals`` decimals, no trailing zeros; returns the bytes used.

    ``out`` has at least 24 bytes a value; ``abs(values) * 10**decimals`` fits in 63 bits.
    """
    scale = 10**decimals
    p = 0
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            # Write one number from byte `p` on
            value = values[row, column]
            number = np.int64(np.rint(abs(value) * scale))
            whole, part = number // scale, number % scale
            if value < 0.0 and number > 0:
                out[p] = 45
                p += 1
            # Digits before the point, the last one first
            length = 1
            while 10**length <= whole:
                length += 1
            for n in range(length):
                out[p + length - 1 - n] = 48 + whole % 10
                whole //= 10
            p += length
            # Digits after it, without zeros at the end
            if part > 0:
                digits = decimals
                while part % 10 == 0:
                    part //= 10
                    digits -= 1
                out[p] = 46
                for n in range(digits):
                    out[p + digits - n] = 48 + part % 10
                    part //= 10
                p += digits + 1
            out[p] = 32
            p += 1
        out[p - 1] = 10
    return p
