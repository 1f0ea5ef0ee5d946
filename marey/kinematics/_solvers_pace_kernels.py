"""Compiled bound on how far a pose of a model may go from one frame to the next."""

from __future__ import annotations

from marey.base import BoolArray, FloatArray, kernel
from marey.kinematics._ik_kernels import REACHED, STATIONARY, is_all_reached
from marey.kinematics._ik_layout import IKLayout, SpeedLimits
from marey.kinematics._ik_pace_kernels import interpolate_rotation, largest_joint_step, max_joint_step
from marey.kinematics._solvers_space_kernels import IKState, ModelSpace, evaluate_state


@kernel
def limit_state_step(
    layout: IKLayout,
    space: ModelSpace,
    pace: SpeedLimits,
    targets: FloatArray,
    active: BoolArray,
    f: int,
    last: IKState,
    state: IKState,
    counts: FloatArray,
) -> bool:
    """Bring a pose that went too far in frame f back on its way, in the coordinates of the model.

    Writes how it ended, its objective and the flag of ``counts`` ``(6,)``; tells whether there was anything to do.
    """
    most = max_joint_step(layout, pace, targets, active, f)
    turn = largest_joint_step(last.wxyz, state.wxyz, last.root, state.root, pace.limb_m)
    if not turn > most:
        return False
    part = most / turn
    for c in range(3):
        state.root[c] = last.root[c] + part * (state.root[c] - last.root[c])
    for i in range(state.x.shape[0]):
        state.x[i] = last.x[i] + part * (state.x[i] - last.x[i])
    for j in range(1 if space.is_reduced else state.wxyz.shape[0]):
        interpolate_rotation(last.wxyz[j], state.wxyz[j].copy(), part, state.wxyz[j])
    counts[2] = evaluate_state(layout, space, targets[f], active[f], state)
    counts[0] = REACHED if is_all_reached(layout.blocks.tolerances, active[f], state.errors) else STATIONARY
    counts[5] = 1.0
    return True
