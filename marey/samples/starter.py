"""The project that a new studio opens with: clips that move, one of them with faults to mend, and a sketch to walk."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from marey.motion import Layer, LayerKey, Motion, apply_layers
from marey.samples.shipped_files import script_file, sketch_file

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
