"""What a character will look like: its own clockwork, run ahead and wound back."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.lie import SO3
from marey.locomotion._engine_feet import FootPlanter
from marey.locomotion._engine_source import FrameSource
from marey.locomotion._engine_walker import GaitWalker
from marey.locomotion._model import LocomotionModel
from marey.skeleton import Pose

PREDICTION_STEP_S: Final = 1.0 / 60.0  # [s] feet are planted frame by frame; without plants one step is exact


def predict_pose(
    source: FrameSource, walker: GaitWalker, feet: FootPlanter | None, model: LocomotionModel, tau: float
) -> Pose:
    """Pose of a source in ``tau`` [s]; what it is made of is left as it was."""
    moment, footing = source.snapshot(), None if feet is None else feet.snapshot()
    try:
        return _advance_and_pose(source, walker, feet, model, tau)
    finally:
        source.restore(moment)
        if feet is not None and footing is not None:
            feet.restore(footing)


def _advance_and_pose(
    source: FrameSource, walker: GaitWalker, feet: FootPlanter | None, model: LocomotionModel, tau: float
) -> Pose:
    count = max(1, int(np.ceil(tau / PREDICTION_STEP_S - 1e-9))) if tau > 0.0 else 0
    frame = source.frame()
    if feet is not None and count == 0:
        feet.plant(0.0, frame)
    for _ in range(count):
        source.advance(tau / count)
        frame = source.frame()
        if feet is not None:
            feet.plant(tau / count, frame)
        walker.show_feet(frame.root_position, frame.rotations, frame.planted if feet is None else feet.contacts)
    return Pose(model.skeleton_for(frame.leg_length_m), frame.root_position, SO3(frame.rotations))
