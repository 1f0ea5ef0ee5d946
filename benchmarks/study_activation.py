"""The thesis's studies of activation: stiffness, damping, number of splines and mesh.

``python benchmarks/study_activation.py`` prints a table of each ([Engell2012] §21, figs 30 to 34 and 38 to 40): a
spline along a cylinder contracts for a second and lets go.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from marey.muscle import ActivationSpline, Muscles, SoftBody, TetMesh

LENGTH_M, RADIUS_M = 0.2, 0.03
FRAME_S = 1.0 / 60.0
RATIOS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
DAMPINGS = (0.0, 0.25, 0.5, 1.0, 2.0)
MESHES = ((2, 4), (3, 7), (4, 10), (4, 14))  # rings and layers: 288 to 4 032 cells
COUNTS = (1, 5, 10, 20, 40)


def cylinder(rings: int, layers: int, splines: list[ActivationSpline], *, transfer: str = "conservative") -> SoftBody:
    """A cylinder pinned at one end."""
    mesh = TetMesh.cylinder(RADIUS_M, LENGTH_M, rings=rings, layers=layers)
    pins = np.flatnonzero(mesh.nodes[:, 1] < 1e-9)
    muscles = Muscles(mesh, splines, transfer=transfer, overlap=False)
    return SoftBody.from_mesh(mesh, muscles=muscles, pinned=pins, gravity=(0.0, 0.0, 0.0))


def line(x_m: float = 0.0, z_m: float = 0.0, **settings: float) -> ActivationSpline:
    """A spline along the cylinder."""
    return ActivationSpline(np.array([(x_m, 0.0, z_m), (x_m, LENGTH_M, z_m)]), **settings)


def response(body: SoftBody) -> tuple[float, int, float, float]:
    """Shortening, frames to nine tenths of it, overshoot, and what still rings ten frames after release [-]."""
    tip = np.flatnonzero(body.positions[:, 1] > LENGTH_M - 1e-9)
    track: list[float] = []
    for k in range(90):
        body.step(FRAME_S, activations=np.full(body.muscles.num_splines, float(k < 60)))
        track.append(1.0 - float(body.positions[tip, 1].mean()) / LENGTH_M)
    pull, after = np.array(track[:60]), np.array(track[70:])
    final = pull[-1]
    return final, int(np.argmax(pull >= 0.9 * final)) + 1, pull.max() / final - 1.0, float(np.abs(after).max() / final)


def frame_ms(body: SoftBody) -> tuple[float, float]:
    """Median time of a frame, and of the splines' part of it: their forces and the way to the nodes [ms]."""
    from marey.muscle.muscles.transfer import evaluate_segments, scatter_forces

    m, on = body.muscles, np.full(body.muscles.num_splines, 0.7)
    forces, blocks = np.zeros((len(m.arrays.points), 3)), np.zeros((m.num_segments, 3, 3))
    out, alphas = np.zeros_like(body.positions), m.alphas(on)
    step, part = [], []
    for _ in range(30):
        start = time.perf_counter()
        body.step(FRAME_S, activations=on)
        middle = time.perf_counter()
        evaluate_segments(m.arrays, body.positions, body.velocities, alphas, FRAME_S, forces, blocks)
        scatter_forces(m.arrays, forces, out)
        step.append(middle - start)
        part.append(time.perf_counter() - middle)
    return 1e3 * median(step[5:]), 1e3 * median(part[5:])


def sunflower(count: int) -> list[ActivationSpline]:
    """Splines spread evenly over the section."""
    radius = 0.8 * RADIUS_M * np.sqrt((np.arange(count) + 0.5) / count)
    angle = 2.4 * np.arange(count)
    return [line(float(r * np.cos(a)), float(r * np.sin(a))) for r, a in zip(radius, angle, strict=True)]


def main() -> None:
    """Print all tables."""
    print("active : passive  shortens  frames to 90 %  overshoot  rings after 10 frames")
    for ratio in RATIOS:
        print("{:16g}  {:7.1%}  {:14d}  {:8.1%}  {:.2%}".format(ratio, *response(cylinder(2, 8, [line(ratio=ratio)]))))
    print("damping of critical  shortens  frames to 90 %  overshoot  rings after 10 frames")
    for part in DAMPINGS:
        told = response(cylinder(2, 8, [line(damping_ratio=part)]))
        print("{:19g}  {:7.1%}  {:14d}  {:8.1%}  {:.2%}".format(part, *told))
    print("cells  splines  frame [ms]  activation [ms]  share")
    for rings, layers in MESHES:
        report(cylinder(rings, layers, [line()]))
    for count in COUNTS:
        report(cylinder(*MESHES[-1], sunflower(count)))


def report(body: SoftBody) -> None:
    """One line of times."""
    step, force = frame_ms(body)
    print(f"{len(body.cells):5d}  {body.muscles.num_splines:7d}  {step:10.2f}  {force:15.3f}  {force / step:.2%}")


if __name__ == "__main__":
    main()
