"""The momentum scenario of [Tournier2011]_ §11.1.3: a hand is struck in weightless space, by several integrators."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from marey.base import InputError
from marey.dynamics import Body
from marey.models import PoseModel
from marey.simulate._damping import Damping
from marey.simulate._forces import PointForce
from marey.simulate._integrators import Integrator
from marey.simulate._mechanism import Root
from marey.simulate._monitor import Monitor, SimulationLog
from marey.simulate._simulator import Simulator, check_step
from marey.skeleton import Pose


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
        logs[integrator] = _flight(simulator, push, dt, steps)
    return logs


def _flight(simulator: Simulator, push: PointForce, dt: float, steps: int) -> SimulationLog:
    monitor = Monitor(simulator)
    for n in range(steps):
        simulator.step(dt, (push,) if n == 0 else ())
        monitor.record()
    return monitor.log()
