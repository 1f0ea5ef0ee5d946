"""Figures of a finished film: how far it went, how it bent, what it kept."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from marey.base import FloatArray
from marey.muscle.mesh.tet_mesh import TetMesh, compute_cell_volumes
from marey.muscle.muscles.embedding import Embedding
from marey.muscle.scene.film import Film
from marey.muscle.scene.tables import SceneParts

if TYPE_CHECKING:
    from marey.muscle.scene.run import SceneModel


NUM_SAMPLES: Final = 40  # frames at which cells are looked at
NUM_SECTIONS: Final = 20  # sections across the middle of a spline
MIN_SLICE: Final = 8  # points that make a section


def measure_film(film: Film, stage: SceneModel, parts: SceneParts) -> dict[str, float]:
    """Measures that are defined for a scene."""
    figures = {"seconds": float(film.times[-1])}
    if parts.ground is not None:
        # Way of the centre of mass over the ground, against the length of the body at rest.
        weights = stage.body.masses / stage.body.masses.sum()
        path = np.einsum("v,fva->fa", weights, film.positions)
        body_length = float(np.ptp(film.positions[0][:, [0, 2]], axis=0).max())
        advance = float(np.linalg.norm((path[-1] - path[0])[[0, 2]]))
        figures |= {
            "advance_m": advance,
            "body_length_m": body_length,
            "advance_lengths": advance / body_length,
            "speed_m_s": advance / max(float(film.times[-1]), 1e-9),
            "sunk_max_m": max(0.0, float(parts.ground.height_m - film.positions[:, :, 1].min())),
        }
    for k, bone in enumerate(parts.bones):
        # Greatest turn of a bone in space, and against its parent, from where it began [deg].
        if bone.axis is None and not bone.ball:
            continue
        along = film.bones.ends[:, k, 1] - film.bones.ends[:, k, 0]
        figures[f"turned_{bone.name}_deg"] = _largest_turn(along, np.broadcast_to(along[:1], along.shape))
        if bone.parent:
            above = film.bones.ends[:, film.bones.names.index(bone.parent)]
            figures[f"bent_{bone.name}_deg"] = _largest_turn(along, above[:, 1] - above[:, 0])
    if film.bones.angles.shape[1]:
        # Greatest turn of the last joint from where it began, and where it ended [deg].
        turns = np.rad2deg(film.bones.angles[:, -1] - film.bones.angles[0, -1])
        peak = float(turns[np.argmax(np.abs(turns))])
        figures |= {"flexion_deg": abs(peak), "return_deg": abs(float(turns[-1]))}
    if isinstance(stage.mesh, TetMesh):
        # Change of volume, and the greatest principal strain of soft cells and of bones inside
        mesh = stage.mesh
        rest = compute_cell_volumes(film.positions[0], mesh.cells)
        inverse = np.linalg.inv(_edge_lengths(mesh.nodes, mesh))
        change, smallest, soft, bone = 0.0, 1.0, 0.0, 0.0
        for frame in _sample_frames(film.num_frames):
            volumes = compute_cell_volumes(film.positions[frame], mesh.cells)
            change = max(change, abs(float(volumes.sum() / rest.sum()) - 1.0))
            smallest = min(smallest, float((volumes / rest).min()))
            stretch = np.linalg.svd(_edge_lengths(film.positions[frame], mesh) @ inverse, compute_uv=False)
            strain = np.abs(0.5 * (stretch**2 - 1.0)).max(axis=1)
            soft = max(soft, float(strain[~stage.stiff].max(initial=0.0)))
            bone = max(bone, float(strain[stage.stiff].max(initial=0.0)))
        cells = {
            "cells": float(len(mesh.cells)),
            "volume_change": change,
            "smallest_cell": smallest,
            "soft_strain": soft,
        }
        figures |= cells | ({"bone_strain": bone} if stage.stiff.any() else {})
    if "girth_spline" in parts.measure:
        figures |= _measure_girth(film, stage, int(parts.measure["girth_spline"]))
    if parts.ground is None and not parts.pins and not parts.bones:
        # Drift of the centre of mass over the body's length, and angular momentum over the largest sum of m |r| |v|.
        m = stage.body.masses
        centres = np.einsum("v,fva->fa", m / m.sum(), film.positions)
        length = float(np.ptp(film.positions[0], axis=0).max())
        velocities = np.diff(film.positions, axis=0) * film.rate_hz
        arms = film.positions[1:] - centres[1:, None]
        turning = np.linalg.norm(np.einsum("v,fva->fa", m, np.cross(arms, velocities)), axis=1).max(initial=0.0)
        size = np.einsum("v,fv->f", m, np.linalg.norm(arms, axis=2)).max() * np.linalg.norm(velocities, axis=2).max()
        drift = float(np.linalg.norm(centres - centres[0], axis=1).max())
        figures |= {"drift_lengths": drift / length, "spin": float(turning / max(float(size), 1e-300))}
    # Length of each spline along it, at some frames (n, splines) [m].
    pairs, owners = stage.muscles.arrays.segments, np.asarray(stage.muscles.owners)
    rows: list[FloatArray] = []
    for frame in _sample_frames(film.num_frames):
        p = stage.muscles.points(film.positions[frame])[pairs]
        rows.append(np.asarray(np.bincount(owners, np.linalg.norm(p[:, 1] - p[:, 0], axis=1)), dtype=np.float64))
    lengths = np.array(rows)
    figures["shortening_max"] = float(np.max(1.0 - lengths / lengths[0]))
    if parts.measure.get("compare_splines"):
        # Equality of the final shortening of splines, and order of the roughness of the strains.
        short = 1.0 - lengths[-1] / lengths[0]
        rough: list[float] = []
        for spline in range(stage.muscles.num_splines):
            # Variance of the strain of the body along the straight line between the ends of a spline
            points = stage.muscles.points()[stage.muscles.arrays.segments[np.asarray(stage.muscles.owners) == spline]]
            shares = np.linspace(0.0, 1.0, NUM_SECTIONS + 1)[:, None]
            line = Embedding.from_points(
                (1.0 - shares) * points[0, 0] + shares * points[-1, 1], stage.mesh.nodes, stage.mesh.cells
            )
            before, after = (
                np.linalg.norm(np.diff(line(x), axis=0), axis=1) for x in (stage.mesh.nodes, film.positions[-1])
            )
            variance = float(np.var(after / before - 1.0))
            rough.append(variance)
        figures |= {f"shortening_{i}": float(s) for i, s in enumerate(short)}
        figures |= {f"roughness_{i}": r for i, r in enumerate(rough)}
        figures["shortening_spread"] = float(np.ptp(short) / max(float(np.abs(short).max()), 1e-12))
        figures["smoother_when_wider"] = float(all(a > b for a, b in pairwise(rough)))
    if "branch_x_m" in parts.measure:
        # What the resting branch does: its greatest way over that of all nodes.
        ways = np.linalg.norm(film.positions - film.positions[0], axis=2).max(axis=0)
        resting = film.positions[0][:, 0] < -parts.measure["branch_x_m"]
        figures["other_branch_share"] = float(ways[resting].max() / max(float(ways.max()), 1e-12))
    return figures


def _largest_turn(along: FloatArray, other: FloatArray) -> float:
    """Greatest change of the angle between two directions ``(F, 3)`` since the first frame [deg]."""
    sizes = np.linalg.norm(along, axis=1) * np.linalg.norm(other, axis=1)
    angles = np.arccos(np.clip(np.einsum("fi,fi->f", along, other) / np.maximum(sizes, 1e-12), -1.0, 1.0))
    return float(np.rad2deg(np.abs(angles - angles[0]).max()))


def _edge_lengths(nodes: FloatArray, mesh: TetMesh) -> FloatArray:
    p = nodes[mesh.cells]
    return np.swapaxes(p[:, 1:] - p[:, :1], 1, 2)


def _sample_frames(count: int) -> list[int]:
    return np.unique(np.linspace(0, count - 1, NUM_SAMPLES).round().astype(np.int64)).tolist()


def _measure_girth(film: Film, stage: SceneModel, spline: int) -> dict[str, float]:
    """Greatest girth of the skin around a spline at rest, and how much it grows: the bulge."""
    from scipy.spatial import ConvexHull

    mine = np.flatnonzero(np.asarray(stage.muscles.owners) == spline)
    pairs = stage.muscles.arrays.segments[mine]
    middles = stage.muscles.points()[stage.muscles.arrays.segments].mean(axis=1)
    rest = stage.skin.at(stage.mesh.nodes)
    nearest = np.argmin(np.linalg.norm(rest[:, None] - middles[None], axis=-1), axis=1)  # of all splines
    slices = [np.flatnonzero(nearest == k) for k in mine[1:-1]]

    def largest(frame: int) -> float:
        points, skin = stage.muscles.points(film.positions[frame]), film.surface(frame)
        along = points[pairs[1:-1, 1]] - points[pairs[1:-1, 0]]
        # Sections of the skin, in the plane of the two unit vectors across each axis.
        flat = [
            skin[here] @ np.linalg.svd(axis[None])[2][1:].T
            for here, axis in zip(slices, along, strict=True)
            if len(here) > MIN_SLICE
        ]
        return max(float(ConvexHull(section).area) for section in flat)  # in the plane, area is the perimeter

    girths = np.array([largest(frame) for frame in _sample_frames(film.num_frames)])
    return {"girth_m": float(girths[0]), "girth_growth": float(girths.max() / girths[0] - 1.0)}
