"""A frame of a soft body against its budget and against MuJoCo's flex on an equal body; what activation costs.

[Engell2012]_ figs 38 to 40: at most 60 ms a frame for 4 011 tetrahedra with splines. Times are of the processor, on one
core: what else runs on the machine does not count. ``python benchmarks/bench_muscle.py`` prints who stays stable too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median, quantiles
from typing import Any

import numpy as np
from harness import Row

FRAME_S = 1 / 60
YOUNG_PA, POISSON, DAMPING_S = 5e4, 0.45, 1e-3
FRAMES, BLOCKS = 60, 12
BUDGET_MS = {"arm of 4 032 cells": 16.0, "arm of 6 912 cells, bones 250x": 30.0}
ACTIVATION_MS, ACTIVATION_SHARE = 0.4, 0.02  # check 54
Job = Callable[[], object]


def rows() -> list[Row]:
    """Frames against their budgets, activation, and the race."""
    frames = {name: contracting(name, splines=5) for name in BUDGET_MS}
    found = [_within(f"frame, {name}", job, BUDGET_MS[name]) for name, job in frames.items()]
    found += list(_activation())
    for counts in ((12, 4, 4), (20, 6, 6)):
        found.append(_race(counts))
    return found


def contracting(name: str, splines: int) -> Job:
    """A cylinder hung by its end that contracts in turns; a call is one frame."""
    from marey.muscle import ActivationSpline, Muscles, SoftBody, TetMesh

    long = "6 912" in name
    mesh = TetMesh.cylinder(0.04, 0.30 if long else 0.16, rings=4, layers=24 if long else 14)
    top = mesh.nodes[:, 1].max()
    middle = mesh.nodes[mesh.cells].mean(axis=1)
    scale = np.where(np.hypot(middle[:, 0], middle[:, 2]) < 0.0105, 250.0, 1.0) if long else None
    angles = 2 * np.pi * np.arange(splines) / splines
    lines = [
        np.array([[0.025 * np.cos(a), y, 0.025 * np.sin(a)] for y in np.linspace(0.1, 0.9, 4) * top]) for a in angles
    ]
    muscles = Muscles(mesh, [ActivationSpline(line, max_radius=0.03) for line in lines])
    pins = np.flatnonzero(mesh.nodes[:, 1] >= top - 1e-9)
    body = SoftBody.from_mesh(mesh, stiffness_scale=scale, pinned=pins, muscles=muscles, gravity=(9.82, 0, 0))
    frame = [0]

    def job() -> object:
        frame[0] += 1
        wave = 0.5 - 0.5 * np.cos(2 * np.pi * (frame[0] / 60 + np.arange(splines) / splines))
        return body.step(FRAME_S, activations=wave)

    for _ in range(20):
        job()
    return job


def _within(name: str, job: Job, limit_ms: float) -> Row:
    times = [_cpu_ms(job) for _ in range(FRAMES)]
    low, _, high = quantiles([limit_ms / t for t in times], n=4)
    note = f"worst of {FRAMES} frames {max(times):.1f} ms"
    return Row(name, "budget", median(times), limit_ms, limit_ms / median(times), low, high, 1.0, note)


def _activation() -> Iterator[Row]:
    """Forces of 1, 5 and 40 splines and their way to the nodes, beside one frame (check 54)."""
    from marey.muscle import ActivationSpline, Muscles, TetMesh

    mesh = TetMesh.cylinder(0.04, 0.16, rings=4, layers=14)
    x, v = mesh.nodes.copy(), np.zeros_like(mesh.nodes)
    for count in (1, 40):
        angles = 2 * np.pi * np.arange(count) / count
        ways = [np.array([[0.02 * np.cos(a), y, 0.02 * np.sin(a)] for y in (0.02, 0.08, 0.14)]) for a in angles]
        muscles = Muscles(mesh, [ActivationSpline(way, samples=8) for way in ways])
        alphas = np.full(muscles.num_segments, 0.8)

        def job(muscles: Any = muscles, alphas: Any = alphas) -> object:
            return muscles.forces(x, v, alphas)

        job()
        yield _within(f"activation, {count} spline{'s' if count > 1 else ''}", job, ACTIVATION_MS)


def _cpu_ms(job: Job) -> float:
    start = time.thread_time()
    job()
    return 1e3 * (time.thread_time() - start)


def _race(counts: tuple[int, int, int]) -> Row:
    """A beam that falls from its clamp: ours, then MuJoCo's implicit flex, frame by frame in turn."""
    import mujoco

    ours, mesh = falling(counts, YOUNG_PA)
    model, data = flex(counts, YOUNG_PA, FRAME_S, "discrete")
    pairs = [(_cpu_ms(ours), _cpu_ms(lambda: mujoco.mj_step(model, data))) for _ in range(FRAMES)]
    ratios = [theirs / mine for mine, theirs in pairs[1:]]
    low, _, high = quantiles(ratios, n=4)
    mine, theirs = (median(column) for column in zip(*pairs[1:], strict=True))
    name = f"beam of {len(mesh.cells)} cells, E = {YOUNG_PA:g} Pa"
    failed = int(data.warning[int(mujoco.mjtWarning.mjWARN_INERTIA)].number)
    return Row(
        name, "MuJoCo flex", mine, theirs, theirs / mine, low, high, None, f"its solve fell short {failed} times"
    )


def beam(counts: tuple[int, int, int]) -> Any:
    """The beam of both."""
    from marey.muscle import TetMesh

    return TetMesh.box((0.3, 0.08, 0.08), counts)


def falling(counts: tuple[int, int, int], young_pa: float) -> tuple[Job, Any]:
    """Our beam, clamped at one end, with MuJoCo's kind of cells: co-rotational, no volume term."""
    from marey.muscle import SoftBody

    mesh = beam(counts)
    pins = np.flatnonzero(mesh.nodes[:, 0] == 0)
    options = {"material": "corotational", "poisson": POISSON, "damping": (0.0, DAMPING_S)}
    body = SoftBody.from_mesh(mesh, young_pa=young_pa, pinned=pins, **options)
    body.step(FRAME_S)
    body.reset()
    return (lambda: body.step(FRAME_S)), mesh


def flex(counts: tuple[int, int, int], young_pa: float, step_s: float, integrator: str) -> Any:
    """The same beam as a MuJoCo model and its data."""
    import mujoco

    mujoco.set_mju_user_warning(lambda _: None)  # it would write a log beside us; the counts of warnings are printed
    mesh = beam(counts)
    points = " ".join(f"{x:.9g}" for x in mesh.nodes.ravel())
    cells = " ".join(str(n) for n in mesh.cells.ravel())
    pins = " ".join(str(n) for n in np.flatnonzero(mesh.nodes[:, 0] == 0))
    text = f"""<mujoco><option timestep="{step_s}" integrator="{integrator}" gravity="0 -9.82 0" solver="CG"/>
    <size memory="800M"/><worldbody>
    <flexcomp name="beam" type="direct" dim="3" mass="{1060 * mesh.volume}" radius="0.0005" point="{points}"
     element="{cells}">
    <pin id="{pins}"/><contact selfcollide="none" contype="0" conaffinity="0"/><edge equality="false"/>
    <elasticity young="{young_pa}" poisson="{POISSON}" damping="{DAMPING_S}"/></flexcomp></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    return model, mujoco.MjData(model)


def stability() -> Iterator[str]:
    """Half a second of the falling beam at E = 5e4: who still holds at which step."""
    import mujoco

    counts = (12, 4, 4)
    for integrator in ("discrete", "Euler"):
        for step_s in (FRAME_S, 5e-3, 1e-3, 2e-4):
            model, data = flex(counts, YOUNG_PA, step_s, integrator)
            start, steps = time.thread_time(), round(0.5 / step_s)
            for _ in range(steps):
                mujoco.mj_step(model, data)
                if not np.isfinite(data.qpos).all() or np.abs(data.qpos).max() > 1.0:
                    break
            bad = data.warning[int(mujoco.mjtWarning.mjWARN_BADQACC)].number
            short = data.warning[int(mujoco.mjtWarning.mjWARN_INERTIA)].number
            stable = np.isfinite(data.qpos).all() and np.abs(data.qpos).max() < 1.0 and bad == 0
            cost = (time.thread_time() - start) / max(data.time, step_s)
            verdict = f"{'stable' if stable else 'UNSTABLE':9s} solve short {short:4d}x  {cost:6.2f} s CPU a second"
            yield f"MuJoCo {integrator:9s} {1e3 * step_s:6.2f} ms  {verdict}"
    job, _ = falling(counts, YOUNG_PA)
    start = time.thread_time()
    for _ in range(30):
        job()
    cost = 2 * (time.thread_time() - start)
    yield f"marey  implicit  {1e3 * FRAME_S:6.2f} ms  stable    {'':16s}  {cost:6.2f} s CPU a second"


if __name__ == "__main__":
    for row in rows():
        print(row, row.note)
    for line in stability():
        print(line)
