"""Monitor: what a simulation keeps and what it loses; energy, momenta and centre of mass of every step.

Logs are drawn as curves over time. The momentum scenario of [Tournier2011]_ §11.1.3 strikes a hand in weightless
space, by several integrators. The recorder makes a motion of a simulation, with what touched the ground and how hard.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import (
    BoolArray,
    FloatArray,
    InputError,
    MissingFileError,
    Result,
    check_frame_count,
    frozen,
    write_atomically,
)
from marey.dynamics import Body
from marey.lie import SO3
from marey.models import PoseModel
from marey.motion import Contacts, Motion
from marey.simulate.forces import PointForce, SimulationLoads, compute_loads
from marey.simulate.integrator import Damping, Integrator
from marey.simulate.mechanics import State
from marey.simulate.mechanism import Root
from marey.simulate.simulator import Simulator, check_step
from marey.skeleton import Pose, Skeleton, contact_points, role_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS: Final = ("#c8453c", "#d08232", "#3f78b0", "#4f9d69", "#59626c")
LABELS: Final = ("energy [J]", "linear [kg m/s]", "angular [kg m²/s]", "angular along z")


def plot_logs(logs: Mapping[str, SimulationLog], path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw energy, size of both momenta and the angular one along z, one line a log (figs 11.2 and 11.3).

    Args:
        logs: name -> log; names are in the legend.
        path: where to save the figure (.png, .pdf, .svg, .jpg); not saved if None.
    """
    from matplotlib.figure import Figure

    from marey.picture.plots import DPI, save_figure

    if not logs:
        raise InputError("no log to draw", "Give at least one")
    figure: Any = Figure(figsize=(8.0, 7.2), dpi=DPI, layout="constrained")
    axes = list(figure.subplots(len(LABELS), 1, sharex=True))
    for n, (name, log) in enumerate(logs.items()):
        colour = COLOURS[n % len(COLOURS)]
        sizes = (np.linalg.norm(log.linear, axis=1), np.linalg.norm(log.angular, axis=1))
        for axis, values in zip(axes, (log.energy_j, *sizes, log.angular[:, 2]), strict=True):
            axis.plot(log.times, values, color=colour, linewidth=1.4, label=name or None)
    for axis, label in zip(axes, LABELS, strict=True):
        axis.set_ylabel(label, fontsize=9)
        axis.grid(visible=True, color="#e6e8eb", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.ticklabel_format(useOffset=False)
        low, high = axis.get_ylim()
        if high - low < 0.02 * max(abs(low), abs(high)):  # a constant is drawn as one, not as its rounding
            margin = 0.05 * max(abs(low), abs(high))
            axis.set_ylim(low - margin, high + margin)
    if any(logs):
        axes[0].legend(fontsize=8, loc="upper left", frameon=False, ncols=len(logs))
    axes[-1].set_xlabel("time [s]", fontsize=9)
    if path is not None:
        save_figure(cast("Figure", figure), path)
    return cast("Figure", figure)


AXES: Final = "xyz"
COLUMNS: Final = (
    "time_s",
    "kinetic_j",
    "potential_j",
    *(f"linear_{a}_kg_m_s" for a in AXES),
    *(f"angular_{a}_kg_m2_s" for a in AXES),
    *(f"com_{a}_m" for a in AXES),
    "substeps",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimulationLog(Result):
    """Energy, momenta and centre of mass after every step, in world axes."""

    times: FloatArray  # (N,) [s]
    kinetic_j: FloatArray  # (N,)
    potential_j: FloatArray  # (N,) zero at the origin
    linear: FloatArray  # (N, 3) [kg m/s]
    angular: FloatArray  # (N, 3) [kg m²/s] about the centre of mass
    com: FloatArray  # (N, 3) [m]
    substeps: FloatArray  # (N,) how many steps each step took

    def __post_init__(self) -> None:
        count = len(self.times)
        for name in ("times", "kinetic_j", "potential_j", "substeps"):
            object.__setattr__(self, name, frozen(getattr(self, name), count, name=name))
        for name in ("linear", "angular", "com"):
            object.__setattr__(self, name, frozen(getattr(self, name), count, 3, name=name))

    @property
    def energy_j(self) -> FloatArray:
        """Kinetic and potential energy together ``(N,)``."""
        return self.kinetic_j + self.potential_j

    @property
    def linear_drift(self) -> float:
        """Largest change of the linear momentum since the first step, as a share of it."""
        return _relative_drift(self.linear)

    @property
    def angular_drift(self) -> float:
        """Largest change of the angular momentum since the first step, as a share of it."""
        return _relative_drift(self.angular)

    def rows(self) -> Iterator[tuple[float, ...]]:
        """Values of ``COLUMNS``, one row a step."""
        parts = (self.times, self.kinetic_j, self.potential_j, self.linear, self.angular, self.com, self.substeps)
        table = np.column_stack(parts)
        return (tuple(float(value) for value in row) for row in table)

    def save_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write one line a step, with all digits; names and units are in the first line."""
        target = Path(path)
        if not target.parent.is_dir():
            raise MissingFileError(str(target.parent), "Make the folder first.")
        lines = [",".join(COLUMNS), *(",".join(repr(value) for value in row) for row in self.rows())]
        write_atomically(target, "\n".join(lines) + "\n")
        return target

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw energy and momenta over time; see ``plot_logs``."""
        return plot_logs({"": self}, path)

    def __repr__(self) -> str:
        return f"SimulationLog({len(self.times)} steps, angular momentum drifts by {self.angular_drift:.2g})"


class Monitor:
    """Collects a log of a simulator: call ``record`` after each step."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self._rows: list[FloatArray] = []

    def record(self) -> None:
        """Note the present state, which a step must have led to.

        Raises:
            InputError: no step was made yet.
        """
        last = self.simulator.steps_made[-1]
        if last.system is None:
            raise InputError("no step was made yet", "Call simulator.step first")
        momentum = last.system.mechanics.momentum_matrix() @ last.state.velocity
        com = self.simulator.mechanics().com
        potential = -self.simulator.body.mass_kg * float(self.simulator.gravity @ (last.system.mechanics.com + com)) / 2
        energies = (last.state.time_s, last.state.kinetic_j, potential)
        row = (energies, momentum[3:], momentum[:3], com, (float(len(self.simulator.steps_made)),))
        self._rows.append(np.concatenate(row))

    def log(self) -> SimulationLog:
        """Everything recorded so far."""
        table = np.array(self._rows).reshape(-1, len(COLUMNS))
        return SimulationLog(
            table[:, 0], table[:, 1], table[:, 2], table[:, 3:6], table[:, 6:9], table[:, 9:12], table[:, 12]
        )


def _relative_drift(momenta: FloatArray) -> float:
    if len(momenta) == 0:
        return 0.0
    first = float(np.linalg.norm(momenta[0]))
    change = float(np.linalg.norm(momenta - momenta[0], axis=1).max())
    return change / first if first > 0.0 else change


def momentum_scenario(
    body: Body,
    model: PoseModel | None = None,
    *,
    joint: str = "right_wrist",
    impulse_ns: ArrayLike = (0.0, 0.0, 2.0),
    dt: float = 0.1,
    steps: int = 50,
    integrators: Sequence[Integrator] = ("naive", "identity", "constant"),
    root: Root = "com",
    damping: Damping = "none",
    damping_rate: float = 1.0,
    pose: Pose | None = None,
) -> dict[str, SimulationLog]:
    """Strike a resting figure once, without gravity, and log its free flight by each integrator.

    Args:
        body: skeleton with masses.
        model: pose model, or None for the full space.
        joint: name or part of the joint that is struck.
        impulse_ns: what it is struck with ``(3,)`` [N s] in world, all in the first step.
        dt: length of a step [s].
        steps: how many, the first with the strike.
        integrators: names.
        root: "com" or "pelvis".
        damping: of all runs.
        damping_rate: of the damping.
        pose: start; the mean pose of the model by default.
    """
    if steps < 1:
        raise InputError(f"steps is {steps}", "Make at least one step")
    check_frame_count(steps, "a scenario")
    push = PointForce(joint, PointForce(joint, impulse_ns).force_n / check_step(dt))
    logs: dict[str, SimulationLog] = {}
    for integrator in integrators:
        simulator = Simulator(
            body,
            model,
            integrator=integrator,
            damping=damping,
            damping_rate=damping_rate,
            root=root,
            gravity=(0.0, 0.0, 0.0),
        )
        simulator.reset(pose)
        monitor = Monitor(simulator)
        for n in range(steps):
            simulator.step(dt, (push,) if n == 0 else ())
            monitor.record()
        logs[integrator] = monitor.log()
    return logs


TOUCH_M: Final = 2e-3  # [m] before the first step, what is nearer to the ground touches it
EQUAL_STEP_TOL_S: Final = 1e-9  # [s] steps that differ by less are of one length
HANDS: Final = {"left_hand": "left_wrist", "right_hand": "right_wrist"}


def joints_below(skeleton: Skeleton, joints: Iterable[int]) -> frozenset[int]:
    """Joints and all that hangs on them."""
    below = set(joints)
    for j, above in enumerate(skeleton.parents):
        if int(above) in below:
            below.add(j)
    return frozenset(below)


class Recorder:
    """Collects the frames of a simulator: make it before the first step, call ``record`` after each."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self._states: list[State] = [simulator.state]
        self._forces: list[FloatArray] = []
        self._wrenches: list[FloatArray] = []
        self._touches: list[BoolArray] = []
        # Names of the tracks; for each, how the names of its points begin, and the joints that carry its points
        skeleton = simulator.body.skeleton
        names, roles = contact_points(skeleton).names, role_map(skeleton)
        found: list[tuple[tuple[str, ...], frozenset[int]]] = []
        for name in names:
            if name not in HANDS:
                found.append(((name, name.replace("toe", "ball")), frozenset()))
                continue
            found.append(((), joints_below(skeleton, [roles[HANDS[name]]])))
        self.track_names, self._track_of = names, found

    def record(self) -> None:
        """Note the present state, which a step must have led to."""
        made = self.simulator.steps_made
        impulse, touches = np.zeros(3), np.zeros(len(self.track_names), dtype=np.bool_)
        wrench = np.zeros((self.simulator.body.skeleton.num_joints, 6))
        before = np.zeros_like(touches)
        for done in made:
            if done.outcome is None:
                continue
            found = done.outcome.contacts
            impulse += found.impulses.sum(axis=0)
            np.add.at(wrench[:, :3], found.joints, found.impulses)
            np.add.at(wrench[:, 3:], found.joints, np.cross(found.places, found.impulses))
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
        seconds = self.simulator.state.time_s - self._states[-1].time_s
        self._forces.append(impulse / seconds)
        self._wrenches.append(wrench / seconds)
        self._states.append(self.simulator.state)

    @property
    def forces(self) -> FloatArray:
        """Mean force ``(F - 1, 3)`` [N] of the ground on the figure in each step."""
        return np.array(self._forces).reshape(-1, 3)

    def loads(self, motion: Motion | None = None) -> SimulationLoads:
        """Ground reaction, contacts and joint torques of everything recorded so far, or of a controller's own clip.

        A clip that a controller cut short takes the forces of its own steps.
        """
        clip = self.motion() if motion is None else motion
        wrenches = np.array([*self._wrenches, *self._wrenches[-1:]])
        return compute_loads(self.simulator.body, clip, wrenches[: clip.num_frames])

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
