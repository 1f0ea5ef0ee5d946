"""Trajectory optimisation: the theses' examples, from their own kind of guess, against the times they print.

One problem of each space is solved first, so that compiled loops are ready; then each is solved once. The theses'
minutes are those of their machines (Fang: a Pentium III at 750 MHz); the promise is in seconds of wall time on this
one, and the processor time beside it says what the job costs when others use the machine. A motion that did not
converge, or that does not hold on a grid four times finer than the frames of the solver, breaks the promise whatever
its time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from harness import Row, measure

from marey.base import MareyError
from marey.samples import problem_file, problem_names
from marey.spacetime import SpacetimeResult, load_problem, optimize
from marey.spacetime.dispatch import build_character
from marey.spacetime.full.solve import solve_full

GIVE_UP_S = 120.0
ASSEMBLY_MS = 50.0  # A19: all rows of the pegs and their Jacobian
VIOLATION = 1e-4  # [-] of scaled rows
FEWER_ITERATIONS = 5.0  # A46: than the 4193 that Fang prints for dismount, monkey bars and pegs


@dataclass(frozen=True, slots=True)
class Printed:
    """What the thesis says of an example, and what we promise."""

    example: str  # name of the shipped problem
    minutes: float | None = None
    iterations: int | None = None
    bar_s: float | None = None  # [s]; None promises validity alone

    @property
    def thesis(self) -> str:
        """What it prints; Safonova gives one span for all examples, and a limit for jumps."""
        if self.minutes is None:
            return "-" if self in FANG else "3-60 min"
        return f"{self.iterations} it {self.minutes} min" if self.iterations else f"< {self.minutes:g} min"


class Solved(NamedTuple):
    """A result, and the processor time it took [s]."""

    printed: Printed
    result: SpacetimeResult
    cpu_s: float

    @property
    def is_good(self) -> bool:
        """Whether it converged, and holds on the finer grid."""
        result = self.result
        return result.is_solved and result.violation < VIOLATION and result.check.is_valid


FANG = (
    Printed("dismount-0.6", bar_s=3.0),
    Printed("dismount-0.8", 0.43, 650, 3.0),
    Printed("monkey-bars", 2.4, 1330, 5.0),
    Printed("pegs", 4.0, 2213, 15.0),
    Printed("pegs-clear", bar_s=15.0),
    Printed("ground-leap", bar_s=15.0),
    Printed("space-spin", bar_s=60.0),
)
JUMPS = ("jump-", "turn-")  # of 2 s in seven dimensions, with torques
JUMP_MINUTES, JUMP_BAR_S = 10.0, 5.0
WARM_UP = ("monkey-bars", "jump-1.3")
HEAD = (
    f"{'example':24s} {'thesis':>18s} {'ours':>30s} {'violation':>10s}"
    f"   on a 4x finer grid: {'wrench':>8s} {'momentum':>9s} {'plants':>9s} {'friction':>9s}"
)


def rows() -> list[Row]:
    """Solve the examples, print the table, and hold each against its promise."""
    for name in WARM_UP:
        optimize(load_problem(problem_file(name)), on_failure="return", time_limit_s=GIVE_UP_S)
    print(HEAD)
    tried = [(printed, solve(printed)) for printed in (*FANG, *safonova())]
    solved = [found for _, found in tried if found is not None]
    refused = [printed.example for printed, found in tried if found is None]
    broken = [Row(f"optimize {name}", "thesis", 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, "not run") for name in refused]
    return [*map(row_of, solved), iteration_row(solved), assembly_row(), *broken]


def safonova() -> list[Printed]:
    """The shipped problems in reduced space."""
    names = [name for name in problem_names() if load_problem(problem_file(name)).space == "reduced"]
    return [Printed(n, JUMP_MINUTES, None, JUMP_BAR_S) if n.startswith(JUMPS) else Printed(n) for n in names]


def solve(printed: Printed) -> Solved | None:
    """Solve one problem and print its line of the table."""
    try:
        problem, start = load_problem(problem_file(printed.example)), time.process_time()
        result = optimize(problem, on_failure="return", time_limit_s=GIVE_UP_S)
    except MareyError as error:
        print(f"{printed.example:24s} not run: {error}")
        return None
    solved = Solved(printed, result, time.process_time() - start)
    print(line(solved), flush=True)
    return solved


def line(solved: Solved) -> str:
    """One line of the table."""
    printed, result, cpu_s = solved
    ours = f"{result.iterations} it {result.seconds:.2f} s ({cpu_s:.2f} s cpu)"
    bar = "valid" if printed.bar_s is None else f"{printed.bar_s:g} s"
    is_kept = solved.is_good and (printed.bar_s is None or result.seconds < printed.bar_s)
    verdict = "holds" if is_kept else "FALLS SHORT" + ("" if result.is_solved else f" ({result.status.value})")
    return (
        f"{printed.example:24s} {printed.thesis:>18s} {ours:>30s} {result.violation:10.1e}   "
        f"{'':19s} {dense(result)}   bar {bar}: {verdict}"
    )


def dense(result: SpacetimeResult) -> str:
    """What the finer grid shows: wrench, angular momentum in flight, contact points, friction."""
    check = result.check
    return (
        f"{100.0 * check.wrench_residual:6.1f} % {100.0 * check.angular_momentum_drift:7.2f} % "
        f"{check.plant_drift_m:7.0e} m {check.cone_excess:6.3f} mg"
    )


def row_of(solved: Solved) -> Row:
    """Ratio of the thesis's time to ours, of the bar where it prints none; zero for a motion that is not valid."""
    printed, result, cpu_s = solved
    peer = "thesis" if printed.minutes else "bar" if printed.bar_s else "valid"
    against = 60.0 * printed.minutes if printed.minutes else printed.bar_s or result.seconds
    bar = against / printed.bar_s if printed.bar_s else 1.0
    ratio = against / result.seconds if solved.is_good else 0.0
    note = f"{result.iterations} iterations; {cpu_s:.2f} s cpu; violation {result.violation:.1e}; {dense(result)}"
    times = 1e3 * result.seconds, 1e3 * against
    return Row(f"optimize {printed.example}", peer, *times, ratio, ratio, ratio, bar, note)


def iteration_row(solved: list[Solved]) -> Row:
    """A46: iterations of the three examples whose number Fang prints; the times are their sums."""
    three = [found for found in solved if found.printed.iterations]
    thesis, ours = sum(f.printed.iterations or 0 for f in three), sum(f.result.iterations for f in three)
    times = 1e3 * sum(f.result.seconds for f in three), 6e4 * sum(f.printed.minutes or 0.0 for f in three)
    ratio = thesis / ours
    return Row(f"A46: {ours} iterations, not {thesis}", "thesis", *times, ratio, ratio, ratio, FEWER_ITERATIONS)


def assembly_row() -> Row:
    """A19: all rows of the pegs and their sparse Jacobian, at a new point each time."""
    problem = replace(load_problem(problem_file("pegs")), max_iterations=1)
    solution = solve_full(problem, build_character(problem))
    programme, x, rng = solution.programme, solution.answer.x, np.random.default_rng(0)

    def assemble() -> None:
        point = x + rng.normal(scale=0.01, size=x.size)
        programme.derivatives(point)
        programme.values(point)

    assemble()
    size = f"{len(programme.row_lower)} rows, {x.size} unknowns, {len(programme.instants.times)} instants"
    return measure("A19: rows and Jacobian of the pegs", assemble, limit_ms=ASSEMBLY_MS, repeats=25, note=size)
