"""marey: motion capture in, controllable and physically valid human motion out."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from marey import samples
    from marey.base import FormatError, MareyError
    from marey.compression import compress, decompress
    from marey.contacts import detect_contacts
    from marey.dynamics import Body
    from marey.io import clips, load
    from marey.kinematics import OrientationTask, PointTask, retarget, solve_ik
    from marey.lie import SO3
    from marey.measure import measure_motion
    from marey.models import PCA, PGA, load_model
    from marey.motion import Motion
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
    "clips": "marey.io",
    "compress": "marey.compression",
    "decompress": "marey.compression",
    "load_model": "marey.models",
    "measure_motion": "marey.measure",
    "solve_ik": "marey.kinematics",
    "Motion": "marey.motion",
    "Pose": "marey.skeleton",
    "SO3": "marey.lie",
    "Skeleton": "marey.skeleton",
    "detect_contacts": "marey.contacts",
    "load": "marey.io",
    "optimize": "marey.spacetime",
    "Sketch": "marey.world",
    "World": "marey.world",
    "synthesize": "marey.pipeline.synthesis",
    "retarget": "marey.kinematics",
}

_ROOMS = frozenset(
    {
        "base",
        "blending",
        "compression",
        "contacts",
        "control",
        "dynamics",
        "graph",
        "io",
        "kinematics",
        "library",
        "lie",
        "locomotion",
        "measure",
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
    "clips",
    "compress",
    "decompress",
    "detect_contacts",
    "load",
    "load_model",
    "measure_motion",
    "optimize",
    "retarget",
    "samples",
    "save",
    "solve_ik",
    "synthesize",
]


def save(motion: Motion | Sequence[Motion], path: str | PathLike[str], *, onto: Any = None, **options: Any) -> None:
    """Write a motion file; the suffix names the format.

    Args:
        motion: what to write; several motions on one skeleton become the clips of one file (`.glb`, `.fbx`).
        path: the file; it appears whole or not at all.
        onto: a rigged character, or its `.glb`, `.gltf` or `.fbx` file: its mesh, skin, materials and names, and this
            motion. A motion on another skeleton is retargeted to the character's first.
        options: those of the format's writer: ``root="bone"`` puts the root motion of `.glb`, `.fbx`, `.usda` and
            `.bvh` files on a bone of its own.

    Raises:
        InputError: the suffix is unknown, or the motion does not fit the character.
        MissingFileError: the folder or the character does not exist.
    """
    io = import_module("marey.io")
    if onto is None:
        io.save(motion, path, **options)
        return
    target = onto.skeleton if hasattr(onto, "skeleton") else io.load(onto).skeleton
    clips = [motion] if hasattr(motion, "skeleton") else list(motion)
    retarget = import_module("marey.kinematics").retarget
    ordered = [io.fit_joint_order(clip, target) for clip in clips]
    fitted = [clip if io.bone_difference(target, clip.skeleton) is None else retarget(clip, target) for clip in ordered]
    io.save(fitted if len(fitted) > 1 else fitted[0], path, onto=onto, **options)


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
