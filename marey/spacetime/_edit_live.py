"""Editing while one watches: every change is followed by as many iterations as fit in a moment ([Fang2003]_ F28)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, MareyError
from marey.dynamics import Body, JointTree, ValidityReport
from marey.motion import Contacts, Motion
from marey.numerics import SQPIteration, solve_sqp
from marey.spacetime._edit import build_edit_programme
from marey.spacetime._edit_goals import PointPin, PoseKey
from marey.spacetime._repair import SPAN_S, TOLERANCE, RepairCheck
from marey.spacetime._repair_programme import DisplacementProgramme
from marey.spacetime._repair_stage import DisplacementProblem, find_window
from marey.spacetime._style import Style

QUOTA_S: Final = 0.1
NUM_KEPT_ITERATES: Final = 3  # an iterate is shown if it is no worse than the worst of so many before


@dataclass(frozen=True, slots=True, eq=False)
class EditIterate:
    """A motion on its way."""

    stage: DisplacementProblem
    displacement: FloatArray  # (K, D) control points
    violation: float  # largest, of scaled rows
    objective: float
    seconds: float  # since the change was asked for

    @property
    def motion(self) -> Motion:
        """The clip as it is now."""
        return self.stage.motion(self.displacement)


OnIterate = Callable[[EditIterate], bool | None]


class ValidEditor:
    """A clip under the user's hand.

    Pins and keys are set and dropped; :meth:`improve` runs the search for a moment and shows every iterate that is no
    worse than the worst of the three before. The next moment begins where the last one ended.
    """

    def __init__(
        self,
        motion: Motion,
        *,
        body: Body | None = None,
        contacts: Contacts | None = None,
        start_s: float | None = None,
        stop_s: float | None = None,
        span_s: float = SPAN_S,
        friction: float = 0.8,
        physics: bool = True,
        coordinates: FloatArray | None = None,
        styles: Sequence[Style] = (),
    ) -> None:
        """Take a clip.

        Args:
            motion: any clip with feet, +Y up.
            body: by default ``Body.from_motion(motion)``.
            contacts: by default those of the motion, else detected ones.
            start_s: where the stretch that may change begins; the start of the clip by default.
            stop_s: where it ends.
            span_s: knot spacing of the displacement [s].
            friction: coefficient of the floor.
            physics: whether wrenches count.
            coordinates: ``S (D, d)``, a simplified body that moves by ``S d``; by default what carries weight.
            styles: costs of a state.
        """
        self.original = motion
        self._stretch = find_window(motion, start_s, stop_s, span_s)
        self._check = RepairCheck.from_motion(motion, body, contacts, friction)
        self._report = self._check.report(motion)
        self._physics, self._styles, self._S = physics, tuple(styles), coordinates
        self._pins: dict[tuple[str, int], PointPin] = {}
        self._keys: dict[int, PoseKey] = {}
        self._built: tuple[DisplacementProblem, DisplacementProgramme] | None = None
        self._x: FloatArray | None = None

    @property
    def tree(self) -> JointTree:
        """Coordinates that styles and simplified bodies are about."""
        return self._problem()[0].tree

    @property
    def goals(self) -> tuple[PointPin | PoseKey, ...]:
        """What is asked for at present."""
        return (*self._pins.values(), *self._keys.values())

    def pin(self, pin: PointPin) -> None:
        """Set a pin, in the place of one on the same point at the same frame."""
        self._accept_goals({**self._pins, (pin.point, self._goal_frame(pin.time_s)): pin}, self._keys)

    def key(self, key: PoseKey) -> None:
        """Set a key pose, in the place of one at the same frame."""
        self._accept_goals(self._pins, {**self._keys, self._goal_frame(key.time_s): key})

    def drop(self, goal: PointPin | PoseKey) -> None:
        """Take a pin or a key away."""
        frame = self._goal_frame(goal.time_s)
        point = goal.point if isinstance(goal, PointPin) else None
        pins = {where: pin for where, pin in self._pins.items() if where != (point, frame)}
        keys = {where: key for where, key in self._keys.items() if isinstance(goal, PointPin) or where != frame}
        self._accept_goals(pins, keys)

    def improve(self, quota_s: float = QUOTA_S, on_iterate: OnIterate | None = None) -> EditIterate:
        """Search for a moment, from where the last one ended; returns the best motion so far.

        Args:
            quota_s: wall time [s].
            on_iterate: sees iterates as they come; returns True to stop.
        """
        if not (np.isfinite(quota_s) and quota_s > 0.0):
            raise InputError(f"a quota of {quota_s} s", "It is positive")
        began = time.perf_counter()
        stage, programme = self._problem()
        start = np.zeros(programme.num_variables) if self._x is None else self._x
        shown: list[float] = []

        def show(step: SQPIteration) -> bool:
            if step.violation > max(shown[-NUM_KEPT_ITERATES:], default=np.inf):
                return False
            shown.append(step.violation)
            moved = programme.displacement(step.x)
            iterate = EditIterate(stage, moved, step.violation, step.objective, time.perf_counter() - began)
            return bool(on_iterate is not None and on_iterate(iterate))

        left = max(quota_s - (time.perf_counter() - began), 1e-3)
        answer = solve_sqp(
            programme, start, tolerance=TOLERANCE, time_limit_s=left, on_iteration=show, on_failure="return"
        )
        self._x = answer.x
        moved = programme.displacement(answer.x)
        return EditIterate(stage, moved, answer.violation, answer.objective, time.perf_counter() - began)

    def report(self, iterate: EditIterate) -> ValidityReport:
        """Validity of an iterate, with the contacts of the clip."""
        return self._check.report(iterate.motion)

    def _goal_frame(self, time_s: float) -> int:
        return round(time_s * self.original.rate_hz)

    def _accept_goals(self, pins: dict[tuple[str, int], PointPin], keys: dict[int, PoseKey]) -> None:
        """Take goals, or keep the old ones if these are refused."""
        before = self._pins, self._keys
        self._pins, self._keys, self._built = pins, keys, None
        try:
            self._problem()
        except MareyError:
            self._pins, self._keys = before
            self._built = None
            raise

    def _problem(self) -> tuple[DisplacementProblem, DisplacementProgramme]:
        if self._built is None:
            pins, keys = tuple(self._pins.values()), tuple(self._keys.values())
            self._built = build_edit_programme(
                self.original,
                self._check,
                self._stretch,
                pins,
                keys,
                physics=self._physics,
                styles=self._styles,
                S=self._S,
                report=self._report,
            )
            if self._x is not None and self._x.size != self._built[1].num_variables:
                self._x = None
        return self._built
