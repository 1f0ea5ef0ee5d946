"""Values that hardly any function can use: numbers, texts, paths, arrays, odd motions, another skeleton."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from fuzz_samples import (
    walk,
)

import marey

NUMBERS = (
    float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e308, 1e-308, 1e9, 2**63, -(2**63), 1.5, "x", None, [],
    [1.0, 2.0], {}, object(), 1j, b"x", "nan", np.zeros(3), np.float64("nan"), np.array(2.0),
)  # fmt: skip
TEXTS = ("", "no-such", 3, None, float("nan"), "x" * 10_000, "\0", [], {}, b"x", object(), ("a", "b"))
PATHS = (
    "", "no-such", 3, None, "/no/such/folder/file.bvh", "x" * 5000 + ".bvh", "\0.bvh", [], float("nan"), b"x", object(),
    ".", "x.zzz",
)  # fmt: skip


def arrays() -> tuple[Any, ...]:
    """Arrays that hardly any function can use."""
    return (
        [], [[]], None, 3, "x", "1", object(), {}, np.nan, np.zeros(0), np.full(3, np.nan), np.full((20, 3), np.nan),
        np.full((2, 2), np.inf), np.zeros((3, 3, 3, 3)), np.zeros((1, 1)), np.array(["a", "b"]),
        [[1.0], [1.0, 2.0]], np.full(3, 1e308), -np.ones(3), np.zeros((0, 3)), np.array([None, None]),
        [float("nan")] * 2, np.zeros(3, dtype=complex),
    )  # fmt: skip


@cache
def odd_motions() -> tuple[Any, ...]:
    """Motions and skeletons that are valid and odd."""
    from marey.lie import SO3
    from marey.motion import Motion
    from marey.skeleton import Skeleton

    pair = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    flat = replace(marey.HUMAN, offsets=np.zeros_like(marey.HUMAN.offsets))
    still = Motion(pair, 30.0, np.zeros((5, 3)), SO3.identity(5, 2))
    return (
        walk()[:1], walk()[:2], still, Motion(flat, 30.0, np.zeros((9, 3)), SO3.identity(9, flat.num_joints)),
        replace(walk(), rate_hz=1e6), replace(walk(), root_positions=walk().root_positions + 1e9),
        replace(walk(), rate_hz=1e-3),
    )  # fmt: skip


@cache
def of_another_skeleton(kind: str) -> tuple[Any, ...]:
    """Right values of a type for a person with a tail, who has more joints than the other arguments are about."""
    from marey.lie import SO3
    from marey.motion import Contacts, KeyFrames, Motion
    from marey.skeleton import Pose, Skeleton

    human, count = marey.HUMAN, 30
    names = (*human.names, *(f"tail{n}" for n in range(count - human.num_joints)))
    parents = [*human.parents, 0, *range(human.num_joints, count - 1)]
    offsets = np.vstack([human.offsets, np.tile((0.0, 0.0, -0.05), (count - human.num_joints, 1))])
    tailed = Skeleton(names, np.array(parents), offsets)
    turns = np.zeros((len(walk()), count, 3))
    turns[:, : human.num_joints] = walk().rotations.log()
    motion = Motion(tailed, 60.0, walk().root_positions, SO3.exp(turns))
    many = Contacts(tuple(f"point{n}" for n in range(9)), np.zeros((7, 9), dtype=np.bool_))
    values: dict[str, Callable[[], tuple[Any, ...]]] = {
        "Motion": lambda: (motion,),
        "Sequence[Motion]": lambda: ([walk(), motion], [motion, walk()]),
        "Clips": lambda: ([walk(), motion],),
        "Skeleton": lambda: (tailed,),
        "Body": lambda: (marey.Body.from_skeleton(tailed),),
        "Pose": lambda: (motion[0], Pose.rest(tailed)),
        "PoseModel": lambda: (marey.PGA(n_components=3).fit(motion),),
        "JointLimits": lambda: (
            marey.kinematics.fit_limits(motion, "box"),
            marey.kinematics.fit_limits(motion, "cone"),
        ),
        "Contacts": lambda: (many,),
        "KeyFrames": lambda: (KeyFrames(tailed, {0.0: motion[0], 0.5: motion[9]}),),
        "SO3": lambda: (motion.rotations, SO3.identity(2, 2), SO3.identity(0)),
        "Supports": lambda: (marey.dynamics.find_supports(motion[:9]),),
        "ValidityReport": lambda: (marey.dynamics.check_validity(motion[:20]),),
        "RoleMap": lambda: (marey.skeleton.role_map(tailed),),
    }
    return values[kind]() if kind in values else ()


def hostile_values(annotation: str) -> tuple[Any, ...]:
    """Values for a parameter, by its annotation."""
    whole: list[Any] = list(of_another_skeleton(annotation.removesuffix(" | None")))
    if "float" in annotation or "int" in annotation:
        whole += NUMBERS
    if "Path" in annotation:
        whole += PATHS
    elif "str" in annotation or "Literal" in annotation or annotation in ("Method", "Derivatives", "OnFailure", "Root"):
        whole += TEXTS
    if "Array" in annotation or "Sequence[float]" in annotation:
        whole += arrays()
    if annotation in ("Motion", "Motion | Contacts", "Motion | Pose"):
        whole += odd_motions()
    if annotation == "Skeleton":
        whole += [motion.skeleton for motion in odd_motions()[2:4]]
    return tuple(whole) or (None, 3, "x", float("nan"), [], object())
