"""Inverse kinematics of a 69-DOF human with five goals, cold from rest to 1 mm, against Pinocchio and mink.

Both peers live in an environment of their own under ``.venvs/ik``, made here, and run in a process of their own: this
file again, as ``python bench_ik.py PROBLEM.json``. Every repeat times one sweep of 40 solves of ours, then one of each
peer's, on the same skeleton, targets and tolerance; the ratio is that of the median solves. The peers are given what
suits them best: the damping that solves all 40 poses soonest is searched first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

EFFECTORS = ("left_wrist", "right_wrist", "left_foot", "right_foot", "head")
NUM_POSES = 40
TOLERANCE_M = 1e-3
REPEATS = 15
BARS = {"Pinocchio": 4.5, "mink": 15.0}
VENV = Path(__file__).resolve().parents[1] / ".venvs" / "ik"
PACKAGES = ("pin", "mink", "mujoco", "daqp", "numpy")


# Ours


def rows() -> list[Any]:
    """Race both peers; then the budget of 0.1 ms for one solve."""
    from harness import Row

    from marey import HUMAN

    targets = reachable_targets(HUMAN)
    ours = our_sweep(HUMAN, targets)
    with Peers(HUMAN, targets) as peers:
        ours(), [peers.sweep(name) for name in BARS]
        times: dict[str, list[float]] = {"marey": [], **{name: [] for name in BARS}}
        for _ in range(REPEATS):
            times["marey"].append(median(ours()))
            for name in BARS:
                times[name].append(median(peers.sweep(name)))
    found = [_row(Row, name, times["marey"], times[name], bar) for name, bar in BARS.items()]
    budget = [0.1 / t for t in times["marey"]]
    low, _, high = quantiles(budget, n=4)
    found.append(Row("IK, 5 goals, 1 mm", "budget", median(times["marey"]), 0.1, median(budget), low, high, 1.0))
    found.append(_limits_row(Row, HUMAN, targets))
    return found


def _limits_row(row: Any, skeleton: Any, targets: np.ndarray) -> Any:
    """Time with the shipped limits against twice the time without, sweeps in turn; regions are met in most poses."""
    free, limited = our_sweep(skeleton, targets), our_sweep(skeleton, targets, limits="auto")
    free(), limited()
    pairs = [(2.0 * median(free()), median(limited())) for _ in range(REPEATS)]
    ratios = [twice / held for twice, held in pairs]
    low, _, high = quantiles(ratios, n=4)
    held, twice = median(b for _, b in pairs), median(a for a, _ in pairs)
    return row("IK, shipped limits", "twice without", held, twice, median(ratios), low, high, 1.0)


def _row(row: Any, name: str, ours: list[float], peer: list[float], bar: float) -> Any:
    ratios = [p / o for o, p in zip(ours, peer, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    return row("IK, 5 goals, 1 mm", name, median(ours), median(peer), median(ratios), low, high, bar)


def reachable_targets(skeleton: Any) -> np.ndarray:
    """Goals ``(40, 5, 3)`` [m] of random poses: joints turned by 0.4 rad, the root moved by 0.3 m (deviations)."""
    from marey import SO3
    from marey.skeleton import joint_positions

    rng = np.random.default_rng(40)
    turns = SO3.exp(rng.normal(0.0, 0.4, (NUM_POSES, skeleton.num_joints, 3)))
    roots = skeleton.offsets[0] + rng.normal(0.0, 0.3, (NUM_POSES, 3))
    return joint_positions(skeleton, roots, turns.wxyz)[:, [skeleton.index(name) for name in EFFECTORS]]


def our_sweep(skeleton: Any, targets: np.ndarray, limits: Any = None) -> Any:
    """A function that solves all poses through the public call and returns the milliseconds of each."""
    from marey.kinematics import PointTask, solve_ik

    problems = [[PointTask(name, place) for name, place in zip(EFFECTORS, row, strict=True)] for row in targets]

    def sweep() -> list[float]:
        times = []
        for tasks in problems:
            start = time.perf_counter()
            result = solve_ik(skeleton, tasks, limits=limits, root="free")
            times.append(1e3 * (time.perf_counter() - start))
            if result.position_error_m > TOLERANCE_M:
                raise SystemExit(f"marey missed a goal by {result.position_error_m} m")
        return times

    return sweep


class Peers:
    """The process in which the peers run."""

    def __init__(self, skeleton: Any, targets: np.ndarray) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "problem.json"
        problem = {
            "names": list(skeleton.names),
            "parents": skeleton.parents.tolist(),
            "offsets": skeleton.offsets.tolist(),
            "targets": targets.tolist(),
        }
        self._file.write_text(json.dumps(problem))

    def __enter__(self) -> Peers:
        python = ensure_environment()
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [python, __file__, str(self._file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **one_thread},
        )
        return self

    def sweep(self, name: str) -> list[float]:
        """Milliseconds of each of one peer's solves."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["worst_m"] > TOLERANCE_M:
            print(f"{name} missed a goal by {answer['worst_m']} m", file=sys.stderr)
        return answer["ms"]

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close() if self._process.stdin else None
        self._process.wait(timeout=30)
        self._folder.cleanup()


def ensure_environment() -> str:
    """Make the peers' environment if it is not there; return its Python."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return str(python)


# The peers, in their own process


class Pinocchio:
    """Closed-loop IK: damped least squares on the stacked Jacobians of the joints' positions."""

    dampings = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4)

    def __init__(self, problem: dict[str, Any]) -> None:
        import pinocchio as pin

        self.pin, self.model = pin, pin.Model()
        joints: list[int] = []
        for j, name in enumerate(problem["names"]):
            parent = 0 if j == 0 else joints[problem["parents"][j]]
            kind = pin.JointModelFreeFlyer() if j == 0 else pin.JointModelSpherical()
            offset = np.zeros(3) if j == 0 else np.array(problem["offsets"][j])
            joints.append(self.model.addJoint(parent, kind, pin.SE3(np.eye(3), offset), name))
        self.ends = [joints[problem["names"].index(name)] for name in EFFECTORS]
        self.data = self.model.createData()
        self.rest = pin.neutral(self.model)
        self.rest[:3] = problem["offsets"][0]

    def solve(self, goals: np.ndarray, damping: float) -> float:
        """Largest error [m] after at most 300 iterations."""
        pin, model, data, q = self.pin, self.model, self.data, self.rest.copy()
        error, J = np.zeros(15), np.zeros((15, model.nv))
        eye = damping * np.eye(15)
        for _ in range(300):
            pin.computeJointJacobians(model, data, q)
            for k, end in enumerate(self.ends):
                error[3 * k : 3 * k + 3] = goals[k] - data.oMi[end].translation
            worst = np.sqrt((error.reshape(5, 3) ** 2).sum(axis=1)).max()
            if worst < TOLERANCE_M:
                break
            for k, end in enumerate(self.ends):
                J[3 * k : 3 * k + 3] = pin.getJointJacobian(model, data, end, pin.LOCAL_WORLD_ALIGNED)[:3]
            q = pin.integrate(model, q, J.T @ np.linalg.solve(J @ J.T + eye, error))
        return float(worst)


class Mink:
    """Differential IK of mink with the daqp solver: one quadratic programme a step."""

    dampings = (1e-1, 3e-2, 1e-2, 1e-3, 1e-4)

    def __init__(self, problem: dict[str, Any]) -> None:
        import mink
        import mujoco

        self.mink = mink
        self.configuration = mink.Configuration(mujoco.MjModel.from_xml_string(mjcf(problem)))
        self.rest = self.configuration.q.copy()
        self.tasks = [mink.FrameTask(name, "body", position_cost=1.0, orientation_cost=0.0) for name in EFFECTORS]

    def solve(self, goals: np.ndarray, damping: float) -> float:
        """Largest error [m] after at most 300 iterations."""
        mink, body = self.mink, self.configuration
        body.update(self.rest)
        for task, goal in zip(self.tasks, goals, strict=True):
            task.set_target(mink.SE3.from_translation(goal))
        for _ in range(300):
            worst = max(float(np.linalg.norm(task.compute_error(body)[:3])) for task in self.tasks)
            if worst < TOLERANCE_M:
                break
            velocity = mink.solve_ik(body, self.tasks, 1.0, solver="daqp", damping=damping, limits=[])
            body.integrate_inplace(velocity, 1.0)
        return worst


def mjcf(problem: dict[str, Any]) -> str:
    """The skeleton as a MuJoCo model: a free root, ball joints, a small mass at each."""

    def body(j: int) -> str:
        place = " ".join(str(x) for x in problem["offsets"][j])
        joint = "<freejoint/>" if j == 0 else f'<joint type="ball" name="{problem["names"][j]}_ball"/>'
        mass = '<inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/>'
        below = "".join(body(k) for k, p in enumerate(problem["parents"]) if p == j)
        return f'<body name="{problem["names"][j]}" pos="{place}">{joint}{mass}{below}</body>'

    return f'<mujoco><option gravity="0 0 0"/><worldbody>{body(0)}</worldbody></mujoco>'


def best_damping(peer: Any, targets: np.ndarray) -> float:
    """The damping with which a peer solves all poses soonest."""
    ranked = []
    for damping in peer.dampings:
        start = time.perf_counter()
        missed = sum(peer.solve(goals, damping) > TOLERANCE_M for goals in targets)
        ranked.append((missed, time.perf_counter() - start, damping))
    return min(ranked)[2]


def serve(file: str) -> None:
    """Answer names of peers on stdin by the times of a sweep on stdout, until it closes."""
    problem = json.loads(Path(file).read_text())
    targets = np.array(problem["targets"])
    peers = {"Pinocchio": Pinocchio(problem), "mink": Mink(problem)}
    dampings = {name: best_damping(peer, targets) for name, peer in peers.items()}
    for line in sys.stdin:
        name, times, worst = line.strip(), [], 0.0
        for goals in targets:
            start = time.perf_counter()
            error = peers[name].solve(goals, dampings[name])
            times.append(1e3 * (time.perf_counter() - start))
            worst = max(worst, error)
        print(json.dumps({"ms": times, "worst_m": worst, "damping": dampings[name]}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
