"""A clip of frames that an engine made."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import Pose

CONTACT_NAMES: Final = ("right_heel", "right_toe", "left_heel", "left_toe")
MAX_FRAMES: Final = 500_000  # more than two hours at 60 Hz


def build_clip(poses: list[Pose], rate_hz: float, contacts: BoolArray) -> Motion:
    """A clip of poses; of a body that changed its size, with moving bones."""
    skeleton = poses[-1].skeleton
    grew = any(pose.skeleton is not skeleton for pose in poses)
    return Motion(
        skeleton,
        rate_hz,
        np.stack([pose.root_position for pose in poses]),
        SO3(np.stack([pose.rotations.wxyz for pose in poses])),
        Contacts(CONTACT_NAMES, contacts),
        np.stack([pose.skeleton.offsets for pose in poses]) if grew else None,
        name="locomotion",
    )
