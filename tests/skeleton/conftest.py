"""Bodies in many naming habits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest

from marey.skeleton import Skeleton, SkeletonDraft

Joint = tuple[str, str | None, Sequence[float]]


def build(joints: Sequence[Joint], tips: dict[str, Sequence[float]] | None = None) -> Skeleton:
    """A skeleton from names, parents' names and offsets [m]."""
    draft = SkeletonDraft(name="test")
    at: dict[str, int] = {}
    for name, parent, offset in joints:
        at[name] = draft.add(name, -1 if parent is None else at[parent], offset)
    for name, tip in (tips or {}).items():
        draft.tips[at[name]] = tip
    return draft.build()


def make_body(
    trunk: Sequence[str],
    head: Sequence[str],
    arm: Sequence[str],
    leg: Sequence[str],
    sided: Callable[[str, str], str],
    splay_rad: float = 0.0,
) -> Skeleton:
    """A body of 1.75 m; ``trunk`` begins with the pelvis, ``arm`` with the collar if it has four names."""
    joints: list[Joint] = [(trunk[0], None, (0.0, 0.95, 0.0))]
    joints += [(low, high, (0.0, 0.12, 0.0)) for high, low in pairwise(trunk)]
    joints += [(head[0], trunk[-1], (0.0, 0.22, 0.0)), (head[1], head[0], (0.0, 0.09, 0.02))]
    for side, x in (("left", 1.0), ("right", -1.0)):
        steps = ((0.05 * x, 0.15, 0.0), (0.13 * x, 0.03, 0.0), (0.30 * x, 0.0, 0.0), (0.26 * x, 0.0, 0.0))
        steps = steps if len(arm) == 4 else ((0.18 * x, 0.18, 0.0), *steps[2:])
        parent = trunk[-1]
        for part, step in zip(arm, steps, strict=True):
            joints.append((sided(side, part), parent, step))
            parent = sided(side, part)
        down = np.array([x * np.sin(splay_rad), -np.cos(splay_rad), 0.0])
        parent = trunk[0]
        foot = 0.05 * down + np.array([0.0, 0.0, 0.13])
        for part, step in zip(leg, ((0.09 * x, -0.06, 0.0), 0.43 * down, 0.42 * down, foot), strict=False):
            joints.append((sided(side, part), parent, tuple(step)))
            parent = sided(side, part)
    return build(joints)


def lafan_like() -> Skeleton:
    """All bones along +X of their joint, as in LAFAN1: the rest pose is no pose of a person."""
    joints: list[Joint] = [("Hips", None, (0.0, 0.93, 0.0))]
    for side, z in (("Left", 0.1), ("Right", -0.1)):
        joints += [
            (f"{side}UpLeg", "Hips", (0.0, 0.02, z)),
            (f"{side}Leg", f"{side}UpLeg", (0.43, 0.0, 0.0)),
            (f"{side}Foot", f"{side}Leg", (0.42, 0.0, 0.0)),
            (f"{side}Toe", f"{side}Foot", (0.17, 0.0, 0.0)),
        ]
    joints += [("Spine", "Hips", (0.07, -0.02, 0.0)), ("Spine1", "Spine", (0.12, 0.0, 0.0))]
    joints += [("Spine2", "Spine1", (0.12, 0.0, 0.0)), ("Neck", "Spine2", (0.26, 0.0, 0.0))]
    joints += [("Head", "Neck", (0.12, 0.0, 0.0))]
    for side, z in (("Left", 0.06), ("Right", -0.06)):
        joints += [
            (f"{side}Shoulder", "Spine2", (0.2, -0.015, z)),
            (f"{side}Arm", f"{side}Shoulder", (0.11, 0.0, 0.0)),
            (f"{side}ForeArm", f"{side}Arm", (0.33, 0.0, 0.0)),
            (f"{side}Hand", f"{side}ForeArm", (0.25, 0.0, 0.0)),
        ]
    return build(joints)


@pytest.fixture(scope="session")
def body_maker() -> Callable[..., Skeleton]:
    return make_body


@pytest.fixture(scope="session")
def skeleton_maker() -> Callable[..., Skeleton]:
    return build


@pytest.fixture(scope="session")
def lafan() -> Skeleton:
    return lafan_like()
