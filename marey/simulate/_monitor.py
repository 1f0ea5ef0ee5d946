"""Monitor: what a simulation keeps and what it loses; energy, momenta and centre of mass of every step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray, InputError, MissingFileError, frozen
from marey.simulate._integrators import StepSystem
from marey.simulate._simulator import Simulator
from marey.simulate._state import State

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
class SimulationLog:
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
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return target

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw energy and momenta over time; see ``plot_logs``."""
        from marey.simulate._monitor_plot import plot_logs

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


def conserved_momentum(system: StepSystem, state: State) -> FloatArray:
    r"""Angular momentum ``(3,)`` about the origin that the variational integrator keeps exactly without forces.

    .. math:: \Pi_k = R_k J_l^{-T}(h\omega_{k+1})\,p_{\omega} + x_{k+1}\times p_x

    Discrete Noether theorem for [Tournier2011]_ (11.11), damping apart; the plain :math:`R_k p_\omega` differs by O(h).
    """
    from marey.simulate._integrators_kernels import left_jacobian_inverse_times

    x, y, z = (float(value) for value in -system.dt * state.velocity[:3])
    a, b, c = (float(value) for value in state.momentum[:3])
    turned = system.mechanics.frames[0] @ np.array(left_jacobian_inverse_times(x, y, z, a, b, c))
    return turned + np.cross(state.place, state.momentum[3:6])


def _relative_drift(momenta: FloatArray) -> float:
    if len(momenta) == 0:
        return 0.0
    first = float(np.linalg.norm(momenta[0]))
    change = float(np.linalg.norm(momenta - momenta[0], axis=1).max())
    return change / first if first > 0.0 else change
