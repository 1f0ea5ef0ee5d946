"""Baseline: springs and dampers at the joints, and target poses that follow one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from marey.base import InputError
from marey.control.controllers.internal_forces import actuator_strength
from marey.control.problem import ROOT_SIZE
from marey.control.task_laws import encode_poses
from marey.simulate import PointForce, Simulator, State
from marey.skeleton import Pose


@dataclass(frozen=True, slots=True, eq=False)
class Keyframe:
    """A state of a pose state machine: holds a pose for a duration, then continues with the next."""

    pose: Pose
    duration_s: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.duration_s) and self.duration_s > 0.0):
            raise InputError(f"duration_s is {self.duration_s}", "Give a finite time above zero")


class PDController:
    r"""Springs and dampers at every joint or mode: the baseline that control is measured against.

    .. math:: \tau = \kappa_p\,e + \kappa_d\,\dot e

    taken at the end of the step, so that any gains are stable. [Tournier2011]_ §15.3. Gains are multiplied by the
    inertia of each coordinate: stiffness is a squared frequency. The poses follow one another in time and the last one
    stays, or they begin again.

    Args:
        simulator: the figure, its ground and its limits.
        keyframes: poses to hold, one after another.
        stiffness: :math:`\kappa_p` per inertia [1/s²].
        damping: :math:`\kappa_d` per inertia [1/s].
        repeats: begin again after the last pose.
    """

    def __init__(
        self,
        simulator: Simulator,
        keyframes: Sequence[Keyframe],
        *,
        stiffness: float = 400.0,
        damping: float = 40.0,
        repeats: bool = False,
    ) -> None:
        if not keyframes:
            raise InputError("there is no pose to hold", "Give at least one Keyframe")
        for name, value in (("stiffness", stiffness), ("damping", damping)):
            if not (isfinite(value) and value >= 0.0):
                raise InputError(f"{name} is {value}", "Give a finite number that is not negative")
        self.simulator, self.keyframes, self.repeats = simulator, tuple(keyframes), repeats
        self.stiffness, self.damping = stiffness, damping
        self.strongest = actuator_strength(simulator)
        # Poses as coordinates, or as they are in the full space
        poses = [k.pose for k in self.keyframes]
        self._targets = list(poses) if simulator.model is None else list(encode_poses(poses, simulator))
        self._ends = np.cumsum([k.duration_s for k in self.keyframes])

    def keyframe_at(self, time_s: float) -> int:
        """Number of the pose that is held at a time."""
        time_s = time_s % float(self._ends[-1]) if self.repeats else time_s
        return min(int(np.searchsorted(self._ends, time_s, side="right")), len(self.keyframes) - 1)

    def step(self, dt: float, forces: Iterable[PointForce] = ()) -> State:
        """Move the figure on by ``dt`` [s] under its springs."""
        simulator, pushes = self.simulator, tuple(forces)
        system = simulator.system(dt, pushes)
        weight = np.diag(system.damped)[ROOT_SIZE:]
        kp, kd = self.stiffness * weight, self.damping * weight
        # How far (k,) the figure is from the pose
        state, target = simulator.state, self._targets[self.keyframe_at(simulator.state.time_s)]
        if isinstance(target, Pose):
            joints = simulator.mechanism.joints
            error = (target.rotations[joints].inverse() @ state.rotations[joints]).log().ravel()
        else:
            error = state.coordinates - target
        stiff = np.array(system.damped)
        stiff[np.arange(ROOT_SIZE, stiff.shape[0]), np.arange(ROOT_SIZE, stiff.shape[0])] += dt * (kd + dt * kp)
        rhs = np.array(system.rhs)
        rhs[ROOT_SIZE:] -= dt * kp * error
        rates = np.linalg.solve(stiff, rhs)[ROOT_SIZE:]
        torque = np.clip(-kp * (error + dt * rates) - kd * rates, -self.strongest, self.strongest)
        inner = np.concatenate([np.zeros(ROOT_SIZE), torque])
        return simulator.step(dt, pushes, generalised_force=inner)
