"""Forces of a simulated motion: ground reaction of each foot, contacts and joint torques, and their tables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, MissingFileError, Result, write_atomically
from marey.dynamics import Body, compute_centre_of_pressure, solve_inverse_dynamics
from marey.motion import Motion
from marey.skeleton import role_map

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
