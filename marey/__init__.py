"""marey: motion capture in, controllable and physically valid human motion out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marey import samples
    from marey.base import FormatError, MareyError
    from marey.compression import compress, decompress
    from marey.dynamics import Body
    from marey.io import load, save
    from marey.kinematics import OrientationTask, PointTask, retarget, solve_ik
    from marey.lie import SO3
    from marey.models import PCA, PGA, load_model
    from marey.motion import Motion, detect_contacts
    from marey.pipeline.synthesis import synthesize
    from marey.skeleton import HUMAN, Pose, Skeleton
    from marey.spacetime import optimize
    from marey.world import Sketch, World

__version__ = "0.1.0"

_HOMES = {
    "Body": "marey.dynamics",
    "FormatError": "marey.base",
    "HUMAN": "marey.skeleton",
    "MareyError": "marey.base",
    "OrientationTask": "marey.kinematics",
    "PCA": "marey.models",
    "PGA": "marey.models",
    "PointTask": "marey.kinematics",
    "compress": "marey.compression",
    "decompress": "marey.compression",
    "load_model": "marey.models",
    "solve_ik": "marey.kinematics",
    "Motion": "marey.motion",
    "Pose": "marey.skeleton",
    "SO3": "marey.lie",
    "Skeleton": "marey.skeleton",
    "detect_contacts": "marey.motion",
    "load": "marey.io",
    "optimize": "marey.spacetime",
    "Sketch": "marey.world",
    "World": "marey.world",
    "synthesize": "marey.pipeline.synthesis",
    "retarget": "marey.kinematics",
    "save": "marey.io",
}

_ROOMS = frozenset(
    {
        "base",
        "blending",
        "compression",
        "control",
        "dynamics",
        "graph",
        "io",
        "kinematics",
        "library",
        "lie",
        "locomotion",
        "models",
        "motion",
        "muscle",
        "numerics",
        "picture",
        "pipeline",
        "samples",
        "simulate",
        "skeleton",
        "spacetime",
        "studio",
        "tracking",
        "world",
    }
)

__all__ = [
    "HUMAN",
    "PCA",
    "PGA",
    "SO3",
    "Body",
    "FormatError",
    "MareyError",
    "Motion",
    "OrientationTask",
    "PointTask",
    "Pose",
    "Skeleton",
    "Sketch",
    "World",
    "compress",
    "decompress",
    "detect_contacts",
    "load",
    "load_model",
    "optimize",
    "retarget",
    "samples",
    "save",
    "solve_ik",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that ``import marey`` stays light."""
    if name in _ROOMS:
        return import_module(f"marey.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'marey' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names and the rooms, so that completion finds both."""
    return sorted({*__all__, *_ROOMS, "__version__"})
