"""Clips by name: those made here, and the DeepMimic clips that the ``samples`` extra brings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from marey.base import MissingExtraError, UnknownNameError
from marey.motion import Motion
from marey.samples.gaits import jump, run, walk

SYNTHETIC: Final = {"walk": walk, "run": run, "jump": jump}
PREFIX: Final = "deepmimic/"


def names() -> tuple[str, ...]:
    """Names of all sample clips on this machine: ``walk``, ``run``, ``jump``, ``deepmimic/backflip``, ..."""
    return (*SYNTHETIC, *(PREFIX + name for name in sorted(_deepmimic_clips())))


def load(name: str) -> Motion:
    """Return a sample clip.

    Raises:
        UnknownNameError: no such clip here.
        MissingExtraError: a DeepMimic clip was asked for, and the extra that carries them is not installed.
    """
    if name in SYNTHETIC:
        return SYNTHETIC[name]()
    clips = _deepmimic_clips()
    if name.startswith(PREFIX) and not clips:
        raise MissingExtraError(f"the sample '{name}'", "samples")
    file = clips.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    if file is None:
        raise UnknownNameError("sample", name, "marey.samples", names())
    from marey.io import load as load_file

    return load_file(file)


def _deepmimic_clips() -> dict[str, Path]:
    """Find the motions inside the wheel, without importing it: loading its engine would take a second."""
    found = find_spec("pybullet_data")
    if found is None or found.origin is None:
        return {}
    folder = Path(found.origin).parent / "data" / "motions"
    return {file.stem.removeprefix("humanoid3d_"): file for file in folder.glob("humanoid3d_*.txt")}
