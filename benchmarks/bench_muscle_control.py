"""Space-time control: what a gradient costs, how it grows, and how long the problems of the thesis take.

Engell-Nørregård (2012) §28 solved the spring pair in 10 to 15 s with a quasi-Newton method. Gradients are raced against
five forward simulations of the same motion; Gauss-Newton against the thesis's method from the same start.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from harness import Row, compare, measure

from marey.muscle import (
    ActivationSpline,
    Muscles,
    OptimalControlProblem,
    SoftBody,
    SoftSystem,
    StateGoal,
    TetMesh,
    compute_adjoint_gradient,
    make_spring_pair,
    simulate_controls,
    solve_control,
)

STEPS = 60
PAIR_LIMIT_MS = 2000.0
SIMULATIONS = 5
LENGTHS = (50, 100, 200, 400, 800, 1600)
STRAIGHT = 0.98  # R² of time over length
NEAR = 1e-4  # [-] of the cost: both methods must end there


def pair_problem(steps: int = STEPS, effort: float = 1e-6) -> tuple[OptimalControlProblem, np.ndarray]:
    """Two particles that were shot apart, their state at every fourth frame, and controls to start from."""
    rng = np.random.default_rng(0)
    pair = make_spring_pair()
    start = pair.state([[0.0, 0.0], [1.1, 0.0]], [[1.0, 0.5], [0.5, 1.2]])
    true = 0.5 * rng.normal(size=(steps, 4))
    states = simulate_controls(OptimalControlProblem(pair, start, steps, [StateGoal(steps, start)]), true)
    keys = [StateGoal(i, states[i]) for i in range(4, steps + 1, 4)]
    return OptimalControlProblem(pair, start, steps, keys, effort=effort), true + 0.3 * rng.normal(size=true.shape)


def beam_problem(steps: int = 20) -> tuple[OptimalControlProblem, np.ndarray]:
    """A soft beam of 240 tetrahedra with two splines that bends aside by 0.3 of its length."""
    mesh = TetMesh.box((0.4, 0.08, 0.08), (10, 2, 2))
    sides = [ActivationSpline([[x, 0.04, z] for x in (0.01, 0.13, 0.26, 0.39)], name=f"z{z}") for z in (0.012, 0.068)]
    muscles = Muscles(mesh, sides, young_pa=4e4, transfer="virtual_work")
    pinned = np.flatnonzero(mesh.nodes[:, 0] < 1e-9)
    body = SoftBody.from_mesh(mesh, young_pa=4e4, pinned=pinned, muscles=muscles, damping=(0.5, 0.01))
    system = SoftSystem(body)
    tip = int(np.argmax(mesh.nodes @ [1.0, 0.1, 0.1]))
    goal = StateGoal(steps, mesh.nodes[tip] + [-0.03, 0.0, 0.12], components=system.components(tip))
    problem = OptimalControlProblem(
        system, system.state(), steps, [goal], goal_weight=1e4, effort=1e-2, bounds=(0.0, 1.0)
    )
    return problem, np.full(problem.shape, 0.2)


def gradient_rows() -> list[Row]:
    """A gradient against five simulations; it holds one of them."""
    found: list[Row] = []
    for name, (problem, controls) in {"spring pair": pair_problem(), "soft beam": beam_problem()}.items():
        found.append(
            compare(
                f"gradient, {name}, {problem.steps} steps",
                lambda p=problem, a=controls: compute_adjoint_gradient(p, a),
                f"{SIMULATIONS} forward",
                lambda p=problem, a=controls: [simulate_controls(p, a) for _ in range(SIMULATIONS)],
                repeats=9,
                bar=1.0,
            )
        )
    return found


def growth_row() -> Row:
    """How straight the time of a gradient is over the number of steps: R² over what is promised."""
    problems = [pair_problem(steps) for steps in LENGTHS]
    times = []
    for problem, controls in problems:
        runs = []
        for _ in range(7):
            began = perf_counter()
            compute_adjoint_gradient(problem, controls)
            runs.append(perf_counter() - began)
        times.append(min(runs))
    straight = float(np.corrcoef(LENGTHS, times)[0, 1] ** 2)
    ratio = straight / STRAIGHT
    name = f"gradient, {LENGTHS[-1]} steps, R2 {straight:.4f}"
    return Row(name, "R2 0.98", 1e3 * times[-1], 0.0, ratio, ratio, ratio, 1.0, "time over steps 50..1600")


def pair_rows() -> list[Row]:
    """The spring pair within its budget, and against the method of the thesis at the same optimum."""
    problem, start = pair_problem()
    budget = measure("spring pair, Gauss-Newton", lambda: solve_control(problem, start=start), limit_ms=PAIR_LIMIT_MS)
    even, start = pair_problem(effort=1e-4)
    newton, quasi = solve_control(even, start=start), solve_control(even, start=start, method="lbfgs")
    if abs(newton.cost - quasi.cost) > NEAR * newton.cost:
        raise SystemExit(f"Gauss-Newton ({newton.cost}) and L-BFGS ({quasi.cost}) disagree: the race would be void")
    race = compare(
        f"spring pair, {newton.iterations} iterations",
        lambda: solve_control(even, start=start),
        f"L-BFGS {quasi.iterations}",
        lambda: solve_control(even, start=start, method="lbfgs"),
        repeats=3,
    )
    return [budget, race]


def rows() -> list[Row]:
    """All of it."""
    return [*pair_rows(), *gradient_rows(), growth_row()]


if __name__ == "__main__":
    for row in rows():
        print(row)
