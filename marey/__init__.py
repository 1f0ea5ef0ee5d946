"""marey: motion capture in, controllable and physically valid human motion out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marey import samples
    from marey.base import FormatError, MareyError
    from marey.io import load, save
    from marey.kinematics import retarget
    from marey.lie import SO3
    from marey.motion import Motion, detect_contacts
    from marey.picture import film_strip, save_image
    from marey.skeleton import HUMAN, Pose, Skeleton

__version__ = "0.1.0"

_HOMES = {
    "FormatError": "marey.base",
    "HUMAN": "marey.skeleton",
    "MareyError": "marey.base",
    "Motion": "marey.motion",
    "Pose": "marey.skeleton",
    "SO3": "marey.lie",
    "Skeleton": "marey.skeleton",
    "detect_contacts": "marey.motion",
    "film_strip": "marey.picture",
    "load": "marey.io",
    "retarget": "marey.kinematics",
    "save": "marey.io",
    "save_image": "marey.picture",
}

__all__ = [
    "HUMAN",
    "SO3",
    "FormatError",
    "MareyError",
    "Motion",
    "Pose",
    "Skeleton",
    "detect_contacts",
    "film_strip",
    "load",
    "retarget",
    "samples",
    "save",
    "save_image",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that ``import marey`` stays light."""
    if name == "samples":
        return import_module("marey.samples")
    if name not in _HOMES:
        raise AttributeError(f"module 'marey' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
