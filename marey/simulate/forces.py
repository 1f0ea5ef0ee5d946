"""Forces of a simulation: what pushes a figure from outside, and what ground and joints bear, with its tables."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from marey.base import (
    FloatArray,
    InputError,
    IntArray,
    MissingFileError,
    Result,
    UnknownNameError,
    frozen,
    write_atomically,
)
from marey.dynamics import Body, compute_centre_of_pressure, solve_inverse_dynamics
from marey.motion import Motion
from marey.skeleton import ROLES, Skeleton, role_map


@dataclass(frozen=True, slots=True, eq=False, init=False)
class PointForce:
    """A force on a point that rides on a joint's segment."""

    joint: str  # name of a joint, or its part in the body, such as "right_wrist"
    force_n: FloatArray  # (3,) [N] in world
    offset_m: FloatArray  # (3,) [m] in the joint's frame

    def __init__(self, joint: str, force_n: ArrayLike, offset_m: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        object.__setattr__(self, "joint", joint)
        object.__setattr__(self, "force_n", frozen(force_n, 3, name="force_n"))
        object.__setattr__(self, "offset_m", frozen(offset_m, 3, name="offset_m"))


class ForceArrays(NamedTuple):
    """Forces on points as plain arrays, for the kernels."""

    joints: IntArray  # (N,)
    offsets: FloatArray  # (N, 3) [m]
    forces: FloatArray  # (N, 3) [N]


NO_FORCES = ForceArrays(np.zeros(0, dtype=np.int64), np.zeros((0, 3)), np.zeros((0, 3)))


def pack_forces(skeleton: Skeleton, forces: Iterable[PointForce]) -> ForceArrays:
    """Plain arrays of forces.

    Raises:
        InputError: one is no ``PointForce``.
        UnknownNameError: one is on a joint that does not exist.
    """
    given = list(forces)
    if not given:
        return NO_FORCES
    for force in given:
        if not isinstance(force, PointForce):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
            raise InputError(f"a force is a {type(force).__name__}", "Pass PointForce(joint, force_n)")
    # Joints by their own names, or by their parts in the body
    joints = np.zeros(len(given), dtype=np.int64)
    for n, name in enumerate(force.joint for force in given):
        if name not in skeleton.names and name not in ROLES:
            raise UnknownNameError("joint", str(name), f"'{skeleton.name}'", skeleton.names)
        joints[n] = skeleton.names.index(name) if name in skeleton.names else role_map(skeleton)[name]
    return ForceArrays(joints, np.stack([f.offset_m for f in given]), np.stack([f.force_n for f in given]))


TEXT_FIX = "Write JOINT:FX,FY,FZ@START+DURATION in newtons and seconds, for example right_wrist:0,0,200@1.5+0.1"


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Push:
    """A constant force from a time on, once or again and again."""

    joint: str  # name of a joint, or its part in the body, such as "right_wrist"
    force_n: FloatArray  # (3,) [N] in world
    start_s: float
    duration_s: float
    offset_m: FloatArray  # (3,) [m] of the point in the joint's frame
    every_s: float | None  # [s] from one start to the next; None: once

    def __init__(
        self,
        joint: str,
        force_n: ArrayLike,
        start_s: float = 0.0,
        duration_s: float = 0.1,
        *,
        offset_m: ArrayLike = (0.0, 0.0, 0.0),
        every_s: float | None = None,
    ) -> None:
        if not isfinite(start_s) or start_s < 0.0:
            raise InputError(f"a push starts at {start_s} s", "Give a finite time, zero or later")
        if not isfinite(duration_s) or duration_s <= 0.0:
            raise InputError(f"a push lasts {duration_s} s", "Give a finite time above zero")
        if every_s is not None and not (isfinite(every_s) and every_s >= duration_s):
            raise InputError(f"a push of {duration_s} s comes again every {every_s} s", "Let it end before the next")
        values = (joint, frozen(force_n, 3, name="force_n"), float(start_s), float(duration_s))
        values += (frozen(offset_m, 3, name="offset_m"), every_s)
        for name, value in zip(Push.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def from_text(cls, text: str, rng: np.random.Generator | None = None) -> Push:
        """Read ``JOINT:FX,FY,FZ@START+DURATION`` in newtons and seconds; ``/EVERY`` repeats it.

        A single number in place of the three pushes level, in a direction drawn from ``rng``.

        Raises:
            InputError: it reads otherwise.
        """
        joint, _, rest = text.rpartition(":")
        force, at, times = rest.partition("@")
        try:
            parts = [float(part) for part in force.split(",")]
            start, _, tail = times.partition("+")
            duration, again, every = tail.partition("/")
            when = (float(start), float(duration)) if tail else (float(start or "nan"), 0.1)
            period = float(every) if again else None
        except ValueError:
            raise InputError(f"push '{text}'", TEXT_FIX) from None
        if not joint or not at or len(parts) not in (1, 3) or not all(isfinite(part) for part in parts):
            raise InputError(f"push '{text}'", TEXT_FIX)
        if len(parts) == 1:
            # A size alone: level, in a direction drawn at random
            if rng is None:
                raise InputError("a push without a direction", "Give three components, or a generator that draws one")
            angle = rng.uniform(0.0, 2.0 * np.pi)
            parts = [parts[0] * np.sin(angle), 0.0, parts[0] * np.cos(angle)]
        return cls(joint, parts, *when, every_s=period)

    def share(self, time_s: float, dt: float) -> float:
        """Part of a step from ``time_s`` on, ``dt`` [s] long, in which it pushes."""
        period = inf if self.every_s is None else self.every_s
        since = time_s - self.start_s
        first = 0 if self.every_s is None else max(0, floor((since - self.duration_s) / period))
        last = 0 if self.every_s is None else max(0, ceil((since + dt) / period))
        total = 0.0
        for n in range(first, last + 1):
            start = self.start_s + (n * period if n else 0.0)
            total += max(0.0, min(time_s + dt, start + self.duration_s) - max(time_s, start))
        return total / dt

    def __str__(self) -> str:
        force = ",".join(f"{value:.6g}" for value in self.force_n)
        again = "" if self.every_s is None else f"/{self.every_s:g}"
        return f"{self.joint}:{force}@{self.start_s:g}+{self.duration_s:g}{again}"


def forces_at(pushes: Iterable[Push], time_s: float, dt: float) -> tuple[PointForce, ...]:
    """Mean forces of all pushes during a step from ``time_s`` on, ``dt`` [s] long: steps share out their impulses."""
    shares = ((push, push.share(time_s, dt)) for push in pushes)
    return tuple(PointForce(p.joint, share * p.force_n, p.offset_m) for p, share in shares if share > 0.0)


FEET: Final = {"r": "right", "l": "left", "other": ""}  # sides as OpenSim's columns name them; hands, knees, back
LOAD_SUFFIXES: Final = (".csv", ".mot", ".sto")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimulationLoads(Result):
    """Ground reaction and joint torques of each frame.

    Torques are those of inverse dynamics under the recorded forces of the ground ([Tournier2011]_ §13); what they leave
    to be supplied at the root is the ``residual``: pushes, a puppet's strings, and the error of differentiation. The
    first and the last frame, which have one neighbour only, repeat theirs.
    """

    motion: Motion
    weight_n: float
    wrenches: FloatArray  # (F, 3, 6) [N], [N m] about the world origin, on the right foot, the left foot and the rest
    torques: FloatArray  # (F, J, 3) [N m] of each joint on its own piece, in the joint's frame; the root's are zero
    residual: FloatArray  # (F, 6) [N], [N m] about the world origin

    @property
    def residual_bw(self) -> float:
        """Median size of the force that nothing accounts for, in body weights."""
        return float(np.median(np.linalg.norm(self.residual[1:-1, :3], axis=1)) / self.weight_n)

    def rows(self) -> tuple[list[str], FloatArray]:
        """Names of columns and their values ``(F, C)``: time, forces, places and free moments, contacts, torques."""
        names, columns = ["time"], [np.arange(self.motion.num_frames)[:, None] / self.motion.rate_hz]
        for k, side in enumerate(FEET):
            centre, exists = compute_centre_of_pressure(self.wrenches[:, k])
            free = self.wrenches[:, k, 3:] - np.cross(centre, self.wrenches[:, k, :3])
            columns += [self.wrenches[:, k, :3], np.where(exists[:, None], centre, 0.0), free]
            names += [f"ground_force_{side}_{axis}" for axis in ("vx", "vy", "vz", "px", "py", "pz")]
            names += [f"ground_torque_{side}_{axis}" for axis in "xyz"]
        if self.motion.contacts is not None:
            names += [f"contact_{name}" for name in self.motion.contacts.names]
            columns.append(np.asarray(self.motion.contacts.active, dtype=np.float64))
        for j, joint in enumerate(self.motion.skeleton.names):
            if j:
                names += [f"{joint}_torque_{axis}" for axis in "xyz"]
                columns.append(self.torques[:, j])
        return names, np.concatenate(columns, axis=1)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a table: ``.csv``, or OpenSim's ``.mot`` and ``.sto``, whose ground columns its tools know.

        Raises:
            InputError: another suffix.
            MissingFileError: there is no such folder.
        """
        target = Path(path)
        if target.suffix.lower() not in LOAD_SUFFIXES:
            raise InputError(f"cannot write '{target}'", f"Use one of {', '.join(LOAD_SUFFIXES)}")
        if not target.parent.is_dir():
            raise MissingFileError(str(target.parent), "Make the folder first.")
        names, values = self.rows()
        between = "," if target.suffix.lower() == ".csv" else "\t"
        lines = [between.join(names), *(between.join(f"{value:.9g}" for value in row) for row in values)]
        if between == "\t":
            size = [f"nRows={len(values)}", f"nColumns={len(names)}"]
            lines = [target.stem, "version=1", *size, "inDegrees=no", "endheader", *lines]
        write_atomically(target, "\n".join(lines) + "\n")
        return target

    def __repr__(self) -> str:
        peak = float(np.linalg.norm(self.wrenches[..., :3].sum(axis=1), axis=1).max()) / self.weight_n
        return f"SimulationLoads({self.motion.num_frames} frames, at most {peak:.1f} body weights)"


def compute_loads(body: Body, motion: Motion, wrenches: FloatArray) -> SimulationLoads:
    """Joint torques of a simulated motion under the ground's wrenches ``(F, J, 6)`` on each joint's piece.

    Args:
        body: of the simulator.
        motion: its frames.
        wrenches: force [N] and moment about the world origin [N m] in the step that begins with each frame.
    """
    found = solve_inverse_dynamics(body, motion, cutoff_hz=None, external=wrenches)
    # The sum over each foot, toes and all
    roles, skeleton = role_map(motion.skeleton), motion.skeleton
    sides = np.full(skeleton.num_joints, 2)
    for k, side in enumerate(("right", "left")):
        ankle = roles.joints.get(f"{side}_ankle", -1)
        for j in range(skeleton.num_joints):
            if j == ankle or (j > 0 and sides[skeleton.parents[j]] == k):
                sides[j] = k
    feet = np.stack([wrenches[:, sides == k].sum(axis=1) for k in range(3)], axis=1)
    torques = np.array(found.torques)
    torques[:, 0] = 0.0
    torques[0], torques[-1] = torques[1], torques[-2]
    return SimulationLoads(motion, body.weight_n, feet, torques, np.array(found.wrench))
