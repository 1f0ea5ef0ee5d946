"""Clips, problems, scripts and sketches by name: those that ship, and captures of an installed package."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import InputError, MissingExtraError, UnknownNameError
from marey.motion import Layer, LayerKey, Motion, apply_layers
from marey.samples.gaits import jump, run, walk

if TYPE_CHECKING:
    from marey.spacetime import SpacetimeProblem


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


TURNED_DEG: Final = 30.0  # jumps that turn more are made of hops that turn
HOME: Final = Path(__file__).parent
FOLDERS: Final = {"problem": "problems", "script": "scripts", "sketch": "sketches"}


def _shipped_files(kind: str) -> dict[str, Path]:
    """Files of one kind by name, in order."""
    files = [file for file in (HOME / FOLDERS[kind]).iterdir() if file.suffix in (".toml", ".xml")]
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}


def _find_shipped(kind: str, name: str) -> Path:
    files = _shipped_files(kind)
    if name not in files:
        raise UnknownNameError(kind, name, "marey.samples", tuple(files))
    return files[name]


def problem_names() -> tuple[str, ...]:
    """Names of the shipped problems, in order."""
    return tuple(_shipped_files("problem"))


def problem_file(name: str) -> Path:
    """File of a shipped problem.

    Raises:
        UnknownNameError: no such problem; the nearest names are in the message.
    """
    return _find_shipped("problem", name)


def script_names() -> tuple[str, ...]:
    """Names of the shipped scripts, in order."""
    return tuple(_shipped_files("script"))


def script_file(name: str) -> Path:
    """File of a shipped script; see :func:`problem_file`."""
    return _find_shipped("script", name)


def sketch_names() -> tuple[str, ...]:
    """Names of the shipped sketches, in order."""
    return tuple(_shipped_files("sketch"))


def sketch_file(name: str) -> Path:
    """File of a shipped sketch; see :func:`problem_file`."""
    return _find_shipped("sketch", name)


def jump_problem(*, length_m: float = 1.0, rise_m: float = 0.25, turn_deg: float = 0.0) -> SpacetimeProblem:
    r"""A jump with both feet, in the space of shipped captures.

    The time in the air is that of a centre of mass that rises by h and falls as far, :math:`T = 2\sqrt{2h/g}`.

    Args:
        length_m: how far the feet land ahead [m].
        rise_m: of the centre of mass in the air [m].
        turn_deg: to the left, in the air.
    """
    from marey.dynamics import GRAVITY
    from marey.spacetime import build_jump_problem as jump_of

    if not (np.isfinite([length_m, rise_m, turn_deg]).all() and rise_m > 0.0):
        raise InputError(f"a jump of {length_m} m, {rise_m} m high, {turn_deg}°", "Give finite numbers, a rise above 0")
    basis = "turn" if abs(turn_deg) > TURNED_DEG else "jump"
    flight_s = round(2.0 * float(np.sqrt(2.0 * rise_m / GRAVITY)), 3)
    return jump_of(length_m, turn_deg, flight_s=flight_s, basis=basis)


STARTER_SKETCH: Final = "s-curve"
STARTER_SCRIPTS: Final = ("walk", "walk-and-run")
DRIFT_M: Final = 1.0  # [m] that the root of the faulty clip drifts aside, so that its feet slide


@dataclass(frozen=True, slots=True, eq=False)
class StarterProject:
    """What a new project holds."""

    name: str
    motions: tuple[Motion, ...]  # the first is shown
    sketch: Mapping[str, Any]  # tree of a sketch file
    markers: tuple[tuple[float, str], ...]  # times [s] and words on the ruler


def starter_project() -> StarterProject:
    """A walk, a walk that becomes a run, the walk with sliding feet, and a path; made by marey's engines."""
    from marey.locomotion import load_script, perform_script

    scripts = [perform_script(load_script(script_file(name))).motion for name in STARTER_SCRIPTS]
    steps, fast = (replace(motion, name=name) for motion, name in zip(scripts, STARTER_SCRIPTS, strict=True))
    root, end_s = steps.skeleton.names[0], steps.duration_s
    drift = (LayerKey(0.0, root, offset=np.zeros(3)), LayerKey(end_s, root, offset=np.array([DRIFT_M, 0.0, 0.0])))
    faulty = replace(apply_layers(steps, [Layer(drift)]), name="walk, feet slide", contacts=None)
    sketch = tomllib.loads(sketch_file(STARTER_SKETCH).read_text(encoding="utf-8"))
    markers = ((0.0, "Space plays"), (round(0.5 * end_s, 2), "drag the ends of a contact"))
    return StarterProject("First steps", (steps, fast, faulty), sketch, markers)
