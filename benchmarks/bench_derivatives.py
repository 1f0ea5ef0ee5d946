"""Jacobians of the aggregate force: Fang's linear-time method, direct differentiation, differences, Pinocchio.

Growth with the number of joints is the slope of a straight line through log time over log joints, on serial chains of
10 to 160 links, the whole run in one process (Fang fig. 5.3). The table at 22 coordinates is his fig. 7.9. All methods
run on one thread, so their processor time is taken: it is what the job costs, whoever else uses the machine.
Pinocchio is timed twice: its bare call, as fast as it can be had from here, and the whole of our map of its result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import numpy as np
from harness import Row

from marey.dynamics import JointTree, compute_aggregate_jacobians, pinocchio_model

LINKS = (10, 20, 40, 80, 160)
FRAMES = 500  # as many Jacobians as in the thesis
ROUNDS = {"linear-time": 25, "direct": 3, "pinocchio": 9}
LINEAR_SLOPE = (0.9, 1.15)
DIRECT_SLOPE = (1.6, 2.4)
DIRECT_BAR, FORWARD_BAR = 5.0, 8.0  # thesis 5.6 and 8.8
BLOCKS = ("dp_dq", "dp_dqd", "df_dq", "df_dqd", "df_dqdd")
SAME = 1e-9  # [-] largest relative difference of two exact methods
PRINTED = {"direct": 5.6, "forward": 8.8, "central": 17.5, "richardson": 52.0}  # ratio to linear time, fig. 7.9

State = tuple[np.ndarray, np.ndarray, np.ndarray]
Job = Callable[[], Any]


def rows() -> list[Row]:
    """Check that exact methods agree, then race them."""
    return [*growth_rows(), *table_rows()]


def random_state(tree: JointTree, frames: int) -> State:
    """Coordinates, velocities and accelerations of order one."""
    q, qd, qdd = np.random.default_rng(7).normal(size=(3, frames, tree.num_dofs))
    return q, qd, qdd


def cpu(job: Job) -> float:
    """Processor time of one call [s]."""
    start = time.process_time()
    job()
    return time.process_time() - start


def compare(name: str, ours: Job, peer_name: str, peer: Job, repeats: int, bar: float | None, note: str = "") -> Row:
    """As ``harness.compare``, in processor time."""
    ours(), peer()
    pairs = [(cpu(ours), cpu(peer)) for _ in range(repeats)]
    ratios = [p / o for o, p in pairs]
    low, _, high = quantiles(ratios, n=4)
    own, other = (1e3 * median(column) for column in zip(*pairs, strict=True))
    return Row(name, peer_name, own, other, median(ratios), low, high, bar, note)


def job(tree: JointTree, state: State, method: Any) -> Job:
    """Jacobians of all frames by one method."""
    return lambda: compute_aggregate_jacobians(tree, *state, method=method)


def bare_pinocchio(tree: JointTree, state: State) -> Job:
    """Pinocchio's own call at every frame, its result dropped."""
    import pinocchio as pin

    model = pinocchio_model(tree)
    data = model.createData()

    def run() -> None:
        for q, v, a in zip(*state, strict=True):
            pin.computeCentroidalDynamicsDerivatives(model, data, q, v, a)

    return run


def check_same(tree: JointTree, methods: tuple[str, ...]) -> float:
    """Largest relative difference of the methods from linear time."""
    state = random_state(tree, 3)
    ours = compute_aggregate_jacobians(tree, *state)
    worst = 0.0
    for method in methods:
        theirs = compute_aggregate_jacobians(tree, *state, method=method)  # type: ignore[arg-type]
        for block in BLOCKS:
            a, b = getattr(ours, block), getattr(theirs, block)
            worst = max(worst, float(np.abs(a - b).max() / np.abs(b).max()))
    if worst > SAME:
        raise SystemExit(f"{', '.join(methods)} and linear time disagree by {worst}: the race would be void")
    return worst


def growth_rows() -> list[Row]:
    """Exponents of linear time, direct differentiation and Pinocchio, and the races on each chain.

    Each round goes through all chains, and the exponent is the median over the rounds: a processor that slows down
    for a while does it to a whole round.
    """
    jobs: dict[str, list[Job]] = {"linear-time": [], "direct": [], "pinocchio": []}
    for links in LINKS:
        tree = JointTree.chain(links)
        check_same(tree, ("direct", "pinocchio"))
        state = random_state(tree, FRAMES)
        jobs["linear-time"].append(job(tree, state, "linear-time"))
        jobs["direct"].append(job(tree, state, "direct"))
        jobs["pinocchio"].append(bare_pinocchio(tree, state))
    times = {
        name: np.array([[cpu(run) for run in runs] for _ in range(ROUNDS[name] + 1)][1:]) for name, runs in jobs.items()
    }
    bands = {"linear-time": LINEAR_SLOPE, "direct": DIRECT_SLOPE, "pinocchio": None}
    peers = {"direct": "direct", "pinocchio": "Pinocchio"}
    races = [
        chain_row(n, times["linear-time"], times[key], name) for key, name in peers.items() for n in range(len(LINKS))
    ]
    return [*races, *(slope_row(name, times[name], bands[name]) for name in times)]


def chain_row(n: int, ours: np.ndarray, peer: np.ndarray, name: str) -> Row:
    """Race on one chain, from the medians of all rounds."""
    own, other = 1e3 * float(np.median(ours[:, n])), 1e3 * float(np.median(peer[:, n]))
    bar = 1.0 if name == "direct" else None
    return Row(f"Jacobians, chain of {LINKS[n]}", name, own, other, other / own, other / own, other / own, bar)


def slope_row(name: str, times: np.ndarray, band: tuple[float, float] | None) -> Row:
    """Exponent of growth as a row: the ratio is one inside the band and zero outside."""
    slopes = np.polyfit(np.log(LINKS), np.log(times).T, 1)[0]
    slope, low, high = float(np.median(slopes)), *(float(s) for s in np.quantile(slopes, (0.25, 0.75)))
    print(f"exponent of growth, {name:12s} {slope:5.2f} ({low:.2f} to {high:.2f})   {LINKS} links, bar {band}")
    inside = 1.0 if band is None or band[0] <= slope <= band[1] else 0.0
    bar = None if band is None else 1.0
    first, last = 1e3 * float(np.median(times[:, 0])), 1e3 * float(np.median(times[:, -1]))
    return Row(f"exponent {slope:.2f}, {name}", "band", first, last, inside, inside, inside, bar)


def table_rows() -> list[Row]:
    """Fig. 7.9 on Fang's character: time and error of five ways to differentiate, and Pinocchio beside them."""
    tree = JointTree.fang22()
    check_same(tree, ("direct", "pinocchio"))
    state = random_state(tree, FRAMES)
    ours = job(tree, state, "linear-time")
    exact = compute_aggregate_jacobians(tree, *state, method="pinocchio")
    bars = {"direct": DIRECT_BAR, "forward": FORWARD_BAR, "central": None, "richardson": None}
    found: list[Row] = []
    for method, bar in bars.items():
        error = mean_error(compute_aggregate_jacobians(tree, *state, method=method), exact)  # type: ignore[arg-type]
        note = f"mean error {error:.1e}; thesis {PRINTED[method]}x"
        found.append(compare("Jacobians, 22 coordinates", ours, method, job(tree, state, method), 7, bar, note))
        print(f"fig. 7.9  {method:11s} {found[-1].ratio:6.1f}x linear time (thesis {PRINTED[method]:4.1f}x)   {note}")
    found.append(compare("Jacobians, 22 coordinates", ours, "Pinocchio", bare_pinocchio(tree, state), 15, None))
    found.append(compare("Jacobians, 22 coordinates", ours, "Pinocchio+map", job(tree, state, "pinocchio"), 5, None))
    direct = job(tree, state, "direct")
    found.append(compare("direct, 22 coordinates", direct, "Pinocchio", bare_pinocchio(tree, state), 5, None))
    return [*found, order_row(found[:4])]


def mean_error(jacobians: Any, exact: Any) -> float:
    """Mean absolute difference of df/dq."""
    return float(np.abs(jacobians.df_dq - exact.df_dq).mean())


def order_row(found: list[Row]) -> Row:
    """A47: linear < direct < forward < central < Richardson in time, the reverse in error among the numerical ones."""
    times = [found[0].ours_ms, *(row.peer_ms for row in found)]
    errors = [float(row.note.split()[2].rstrip(";")) for row in found[1:]]
    holds = float(times == sorted(times) and errors == sorted(errors, reverse=True))
    return Row("A47: order of times and errors", "order", times[0], times[-1], holds, holds, holds, 1.0)
