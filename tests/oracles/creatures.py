"""Animals made of a few numbers, +Y up: a dog of 25 joints, a spider of 34, a bird, a snake; they walk, in metres."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marey.io.vertical_axis import rotate_wxyz, to_file
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import Skeleton

FRAMES, RATE_HZ = 60, 30.0
LIFT_RAD = 0.35  # swing of a limb to each side

Row = tuple[str, str, tuple[float, float, float]]  # joint, parent, offset [m]


def dog_rows() -> list[Row]:
    """A dog of 25 joints: pelvis, spine, neck, head, four legs of four joints, tail."""
    rows: list[Row] = [("Hips", "", (0.0, 0.5, 0.0)), ("Spine", "Hips", (0.0, 0.02, 0.2))]
    rows += [("Chest", "Spine", (0.0, 0.0, 0.25)), ("Neck", "Chest", (0.0, 0.08, 0.1))]
    rows += [("Head", "Neck", (0.0, 0.12, 0.12))]
    for side, x in (("Left", 0.07), ("Right", -0.07)):
        rows += [(f"{side}Thigh", "Hips", (x, -0.03, -0.02)), (f"{side}Stifle", f"{side}Thigh", (0.0, -0.17, 0.06))]
        rows += [
            (f"{side}Hock", f"{side}Stifle", (0.0, -0.15, -0.09)),
            (f"{side}HindPaw", f"{side}Hock", (0.0, -0.12, 0.02)),
        ]
        rows += [
            (f"{side}Scapula", "Chest", (x, -0.02, 0.03)),
            (f"{side}Foreleg", f"{side}Scapula", (0.0, -0.14, 0.05)),
        ]
        rows += [
            (f"{side}Elbow", f"{side}Foreleg", (0.0, -0.13, -0.04)),
            (f"{side}Wrist", f"{side}Elbow", (0.0, -0.13, 0.0)),
        ]
    rows += [
        ("Tail1", "Hips", (0.0, 0.02, -0.1)),
        ("Tail2", "Tail1", (0.0, 0.03, -0.12)),
        ("Tail3", "Tail2", (0.0, 0.04, -0.1)),
    ]
    return [*rows, ("Jaw", "Head", (0.0, -0.03, 0.1))]


def spider_rows() -> list[Row]:
    """A spider of 34 joints: two parts of the body, eight legs of four joints."""
    rows: list[Row] = [("Body", "", (0.0, 0.06, 0.0)), ("Abdomen", "Body", (0.0, 0.01, -0.05))]
    for side, sign in (("L", 1.0), ("R", -1.0)):
        for number, angle in enumerate((-0.9, -0.3, 0.3, 0.9)):
            across, along = sign * np.cos(angle), -np.sin(angle)
            name = f"Leg{number + 1}{side}"
            for part, (reach, rise) in enumerate(((0.03, 0.0), (0.05, 0.05), (0.06, -0.05), (0.05, -0.06))):
                parent = "Body" if part == 0 else f"{name}_{part}"
                rows.append((f"{name}_{part + 1}", parent, (reach * across, rise, reach * along)))
    return rows


def bird_rows() -> list[Row]:
    """A bird that stands with its wings spread."""
    rows: list[Row] = [("Pelvis", "", (0.0, 0.3, 0.0)), ("Breast", "Pelvis", (0.0, 0.05, 0.12))]
    rows += [("Neck", "Breast", (0.0, 0.1, 0.06)), ("Head", "Neck", (0.0, 0.06, 0.05))]
    rows += [("Tail", "Pelvis", (0.0, 0.0, -0.1)), ("TailEnd", "Tail", (0.0, 0.0, -0.15))]
    for side, sign in (("L", 1.0), ("R", -1.0)):
        rows += [
            (f"{side}Thigh", "Pelvis", (0.04 * sign, 0.0, 0.0)),
            (f"{side}Shank", f"{side}Thigh", (0.0, -0.1, 0.05)),
        ]
        rows += [
            (f"{side}Tarsus", f"{side}Shank", (0.0, -0.1, -0.06)),
            (f"{side}Toes", f"{side}Tarsus", (0.0, -0.09, 0.03)),
        ]
        rows += [
            (f"{side}Wing1", "Breast", (0.05 * sign, 0.02, 0.0)),
            (f"{side}Wing2", f"{side}Wing1", (0.15 * sign, 0.02, 0.0)),
        ]
        rows += [
            (f"{side}Wing3", f"{side}Wing2", (0.2 * sign, -0.02, 0.02)),
            (f"{side}Wing4", f"{side}Wing3", (0.2 * sign, 0.0, -0.03)),
        ]
    return rows


def snake_rows(count: int = 20) -> list[Row]:
    """A chain of joints along Z."""
    rows: list[Row] = [("Seg0", "", (0.0, 0.02, 0.0))]
    return rows + [(f"Seg{i}", f"Seg{i - 1}", (0.0, 0.0, 0.08)) for i in range(1, count)]


def make_walk(rows: list[Row], speed_mps: float = 0.5) -> Motion:
    """Let an animal glide forward with its limbs swinging about X, a snake with its joints about Y."""
    names = [name for name, _, _ in rows]
    parents = np.array([names.index(parent) if parent else -1 for _, parent, _ in rows])
    body = Skeleton(tuple(names), parents, np.array([offset for _, _, offset in rows]), name="creature")
    times = np.arange(FRAMES) / RATE_HZ
    wave = np.sin(2.0 * np.pi * 1.5 * times[:, None] + 0.9 * np.arange(len(rows)))
    turns = np.zeros((FRAMES, len(rows), 3))
    is_snake = names[0] == "Seg0"
    turns[:, 1:, 1 if is_snake else 0] = (0.25 if is_snake else 0.15) * wave[:, 1:]
    if not is_snake:
        turns[:, [j for j, name in enumerate(names) if name in ("Spine", "Chest", "Abdomen", "Breast")]] = 0.0
    roots = np.tile(np.array(rows[0][2]), (FRAMES, 1))
    roots[:, 2] += speed_mps * times
    return Motion(body, RATE_HZ, roots, SO3.exp(turns), name="walk")


def turn_file(motion: Motion, up: str) -> Motion:
    """Express a clip in the axes of a file with another vertical axis."""
    offsets, tips = (to_file(array, up) for array in (motion.skeleton.offsets, motion.skeleton.tips))
    rotations = SO3(rotate_wxyz(motion.rotations.wxyz, up, back=True))
    roots = to_file(motion.root_positions, up)
    return replace(
        motion, skeleton=replace(motion.skeleton, offsets=offsets, tips=tips), root_positions=roots, rotations=rotations
    )


CREATURES = {"dog": dog_rows(), "spider": spider_rows(), "bird": bird_rows(), "snake": snake_rows()}
