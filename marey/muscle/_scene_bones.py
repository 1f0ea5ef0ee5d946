"""Rigid bones of a scene: capsules joined by hinges, which carry the nodes that they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from marey.base import FloatArray
from marey.muscle._scene_parts import JointPart


@dataclass(frozen=True, slots=True, eq=False)
class SceneBones:
    """Bones of a body, and their capsules to draw."""

    bones: Any
    names: tuple[str, ...]
    radii: FloatArray  # (B, 2) [m]

    def ends(self) -> FloatArray:
        """Both ends of each bone ``(B, 2, 3)`` [m] where it stands."""
        raise NotImplementedError

    def angles(self) -> FloatArray:
        """Angles of the hinges ``(D,)`` [rad]."""
        raise NotImplementedError


def bones_of(parts: tuple[JointPart, ...], nodes: FloatArray) -> SceneBones:
    """The bones of a scene."""
    raise NotImplementedError
