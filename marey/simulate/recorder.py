"""Recorder: a simulation becomes a motion, with what touched the ground and how hard."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.simulate.mechanics import State
from marey.simulate.simulator import Simulator
from marey.skeleton import contact_points, role_map

TOUCH_M: Final = 2e-3  # [m] before the first step, what is nearer to the ground touches it
EQUAL_STEP_TOL_S: Final = 1e-9  # [s] steps that differ by less are of one length
HANDS: Final = {"left_hand": "left_wrist", "right_hand": "right_wrist"}


class Recorder:
    """Collects the frames of a simulator: make it before the first step, call ``record`` after each."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self._states: list[State] = [simulator.state]
        self._forces: list[FloatArray] = []
        self._touches: list[BoolArray] = []
        # Names of the tracks; for each, how the names of its points begin, and the joints that carry its points
        skeleton = simulator.body.skeleton
        names, roles = contact_points(skeleton).names, role_map(skeleton)
        found: list[tuple[tuple[str, ...], frozenset[int]]] = []
        for name in names:
            if name not in HANDS:
                found.append(((name, name.replace("toe", "ball")), frozenset()))
                continue
            # The wrist and all that hangs on it
            below = {roles[HANDS[name]]}
            for j in range(skeleton.num_joints):
                if int(skeleton.parents[j]) in below:
                    below.add(j)
            found.append(((), frozenset(below)))
        self.track_names, self._track_of = names, found

    def record(self) -> None:
        """Note the present state, which a step must have led to."""
        made = self.simulator.steps_made
        impulse, touches = np.zeros(3), np.zeros(len(self.track_names), dtype=np.bool_)
        before = np.zeros_like(touches)
        for done in made:
            if done.outcome is None:
                continue
            found = done.outcome.contacts
            impulse += found.impulses.sum(axis=0)
            pushing = (found.impulses * found.normals).sum(axis=1) > 0.0
            for name, joint, is_pushing, gap in zip(found.names, found.joints, pushing, found.gaps, strict=True):
                # Which tracks a touching point belongs to: that of its sole's part, or that of its hand
                for k, (prefixes, joints) in enumerate(self._track_of):
                    if name.startswith(prefixes) or int(joint) in joints:
                        touches[k] |= is_pushing
                        before[k] |= gap < TOUCH_M
        if not self._touches:
            self._touches.append(before)
        self._touches.append(touches)
        self._forces.append(impulse / (self.simulator.state.time_s - self._states[-1].time_s))
        self._states.append(self.simulator.state)

    @property
    def forces(self) -> FloatArray:
        """Mean force ``(F - 1, 3)`` [N] of the ground on the figure in each step."""
        return np.array(self._forces).reshape(-1, 3)

    def motion(self, name: str = "simulation") -> Motion:
        """Everything recorded so far, as a clip with a contact track; its rate is that of the steps.

        Raises:
            InputError: nothing was recorded, or steps differ in length.
        """
        steps = np.diff([state.time_s for state in self._states])
        if not len(steps):
            raise InputError("nothing was recorded", "Make a step, then call record")
        dt = float(steps.mean())
        if np.abs(steps - dt).max() > EQUAL_STEP_TOL_S:
            raise InputError("the steps differ in length", "Take steps of one length, so that frames are even")
        places = np.array([state.root_position for state in self._states])
        turns = SO3(np.array([state.rotations.wxyz for state in self._states]))
        track = Contacts(self.track_names, np.array(self._touches))
        rate = 1.0 / dt
        rate = float(round(rate)) if abs(rate - round(rate)) < 1e-6 else rate
        return Motion(self.simulator.body.skeleton, rate, places, turns, contacts=track, name=name)
