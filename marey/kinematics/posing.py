"""The posing desk: one character, goals to drag and a pose space. No browser type here."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from marey.base import FloatArray, InputError
from marey.kinematics import IKResult, JointLimits, PointTask, solve_ik
from marey.models import PoseModel
from marey.motion import Motion
from marey.skeleton import Pose, Skeleton, list_handles

HELD: Final = ("root", "head", "end")  # kinds of handles that hold their place from the start
METHODS: Final = ("projected-lm", "pg-armijo", "projected-cg", "projected-dogleg", "dls", "svd-clamp", "ccd")
DRAG_WEIGHT: Final = 10.0  # [-] weight of the dragged goal, against 1 of the others
STANDING: Final = 0.12  # [-] height of a foot's joint over that of the body: an ankle, or the end of a leg
FOOT_WEIGHT: Final = 100.0  # [-] of feet that hold, so that a hand out of reach does not lift the body off the ground
NUM_MODES: Final = 6  # sliders of the pose space
MODE_RANGE: Final = 3.0  # standard deviations to each side


class PoseEditorState(NamedTuple):
    """The pose on the desk, and where its handles are held."""

    pose: Pose
    goals: dict[str, FloatArray]  # handle -> (3,) [m]


class PoseEditor:
    """Edited only by the session's worker."""

    def __init__(self, pose: Pose) -> None:
        handles = list_handles(pose.skeleton)
        self.joints = {handle.name: handle.joint for handle in handles if handle.kind != "detail"}
        self.held = {handle.name for handle in handles if handle.kind in HELD}
        # Ends that stand on the ground hold harder than a hand that is dragged away
        positions = pose.joint_positions()
        span = float(np.ptp(positions[:, 1]))
        ends = [handle for handle in handles if handle.kind == "end"]
        low = positions[:, 1].min() + STANDING * span
        self.feet = {h.name for h in ends if h.name.endswith("ankle") or positions[h.joint, 1] < low}
        self.state = PoseEditorState(pose, self._goals_from_pose(pose))
        self.method: str = METHODS[0]
        self.limits: JointLimits | None = None
        self.model: PoseModel | None = None
        self.is_reduced = False
        self.result: IKResult | None = None

    @property
    def skeleton(self) -> Skeleton:
        """The character on the desk."""
        return self.state.pose.skeleton

    def drag(self, handle: str, target: FloatArray) -> None:
        """Move one goal and let the others hold."""
        if handle not in self.joints:
            raise InputError(f"no handle '{handle}'", f"There are {', '.join(self.joints)}")
        if not np.isfinite(target).all() or np.abs(target).max() > 1e3:
            raise InputError("the goal is not a place in the room", "Drag it nearer")
        goals = {**self.state.goals, handle: np.asarray(target, dtype=np.float64)}
        # Solve with the dragged goal stronger than those that hold, and standing feet strongest
        names = self.skeleton.names
        tasks: list[PointTask] = []
        for name, goal in goals.items():
            # A middle joint follows its limb until it is dragged itself
            is_foot = name in self.feet
            if name == handle or (is_foot if self.is_reduced else name in self.held):
                weight = DRAG_WEIGHT if name == handle else FOOT_WEIGHT if is_foot else 1.0
                level = 1 if self.is_reduced and not is_foot else 0
                tasks.append(PointTask(names[self.joints[name]], target_world=goal, weight=weight, priority=level))
        # From the answer before, if it is still on the desk: then the way of the goal counts, and no joint flips
        is_going_on = self.result is not None and self.result.pose is self.state.pose
        self.result = solve_ik(
            self._need_model() if self.is_reduced else self.skeleton,
            tasks,
            start=self.result if self.result is not None and is_going_on else self.state.pose,
            limits=self.limits,
            method=self.method,
            feet="free" if self.is_reduced else "auto",
            on_failure="return",
        )
        pose = self.result.pose
        # Handles that hold nothing go with the body
        here = self._goals_from_pose(pose)
        goals |= {name: here[name] for name in self.joints if name != handle and name not in self.held}
        self.state = PoseEditorState(pose, goals)

    def release(self) -> None:
        """Let go: goals that could not be reached come back to the body."""
        self.state = self.state._replace(goals=self._goals_from_pose(self.state.pose))

    def set_mode(self, number: int, deviations: float) -> None:
        """Move one coordinate of the pose space, in standard deviations; the root stays."""
        model = self._need_model()
        if not 0 <= number < model.num_components or not abs(deviations) <= MODE_RANGE:
            raise InputError(
                f"mode {number} at {deviations}", f"There are {model.num_components}, each within ±{MODE_RANGE}"
            )
        x = self.modes()
        x[number] = deviations
        rotations = np.array(model.rotations(x * model.deviations).wxyz)
        rotations[0] = self.state.pose.rotations.wxyz[0]
        pose = Pose(self.skeleton, self.state.pose.root_position, type(self.state.pose.rotations)(rotations))
        self.state = PoseEditorState(pose, self._goals_from_pose(pose))

    def modes(self) -> FloatArray:
        """Coordinates of the pose in its space ``(k,)``, in standard deviations."""
        model = self._need_model()
        pose = self.state.pose
        clip = Motion(pose.skeleton, 1.0, pose.root_position[None], pose.rotations.reshape(1, -1))
        return np.asarray(model.encode(clip)[0] / model.deviations, dtype=np.float64)

    def _goals_from_pose(self, pose: Pose) -> dict[str, FloatArray]:
        positions = pose.joint_positions()
        return {handle: positions[joint].copy() for handle, joint in self.joints.items()}

    def _need_model(self) -> PoseModel:
        if self.model is None:
            raise InputError("no pose space has been fitted", "Press 'Fit pose space' first")
        return self.model
