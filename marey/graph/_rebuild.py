"""From a way through the graph back to a motion."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray
from marey.graph._graph import MotionGraph
from marey.graph._search import SearchResult
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import contact_points

RAMP_S: Final = 0.25  # [s] over which a jump between two stretches is spread, on either side
UP: Final = np.array([0.0, 1.0, 0.0])


def rebuild(graph: MotionGraph, result: SearchResult) -> Motion:
    """The motion of a way: stretches of clips placed by their planted feet, with jumps between them spread out.

    Raises:
        InputError: there is no way.
    """
    if not result.is_solved:
        raise InputError(f"there is no way to rebuild: {result.status}", result.advice)
    poses, places, cuts = _gather(graph, result)
    roots, wxyz = _placed(graph, poses, places)
    roots, wxyz = _smoothed(roots, wxyz, cuts, round(RAMP_S * graph.database.rate_hz))
    motion = Motion(graph.database.body.skeleton, graph.database.rate_hz, roots, SO3(wxyz), name="graph")
    return Motion(
        motion.skeleton, motion.rate_hz, roots, motion.rotations, contacts=_contacts(graph, poses), name="graph"
    )


def _gather(graph: MotionGraph, result: SearchResult) -> tuple[IntArray, FloatArray, list[int]]:
    """Poses shown, anchor of each in the world, and frames at which another stretch begins."""
    poses: list[IntArray] = []
    places: list[FloatArray] = []
    cuts: list[int] = []
    count = 0
    for edge, place in zip(result.edges, result.places[:-1], strict=True):
        for start, stop in graph.stretches(edge):
            if poses and start != poses[-1][-1] + 1:
                cuts.append(count)
            poses.append(np.arange(start, stop))
            places.append(np.tile(place, (stop - start, 1)))
            count += stop - start
    return np.concatenate(poses), np.concatenate(places), cuts


def _placed(graph: MotionGraph, poses: IntArray, places: FloatArray) -> tuple[FloatArray, FloatArray]:
    database = graph.database
    anchor = database.phases.anchor[database.phase[poses]]
    R = SO3.exp((places[:, 2] - anchor[:, 2])[:, None] * UP)
    here = np.stack([anchor[:, 0], 0.0 * anchor[:, 0], anchor[:, 1]], axis=1)
    there = np.stack([places[:, 0], 0.0 * places[:, 0], places[:, 1]], axis=1)
    wxyz = database.wxyz[poses].copy()
    wxyz[:, 0] = (R @ SO3(wxyz[:, 0])).wxyz
    return R @ (database.roots[poses] - here) + there, wxyz


def _smoothed(roots: FloatArray, wxyz: FloatArray, cuts: list[int], reach: int) -> tuple[FloatArray, FloatArray]:
    """Spread each jump of pose over ``reach`` frames before and after it, half on either side."""
    roots, rotations = roots.copy(), SO3(wxyz)
    shift, turn = np.zeros_like(roots), np.zeros((*wxyz.shape[:2], 3))
    for cut in cuts:
        gap = roots[cut] - roots[cut - 1] - 0.5 * _steps(roots, cut)
        spin = (rotations[cut - 1].inverse() @ rotations[cut]).log()
        for side, sign in ((-1, 0.5), (1, -0.5)):
            frames = cut - 1 - np.arange(reach) if side < 0 else cut + np.arange(reach)
            frames = frames[(frames >= 0) & (frames < len(roots))]
            u = np.arange(len(frames)) / reach
            weight = sign * (1.0 - u * u * (3.0 - 2.0 * u))
            shift[frames] += weight[:, None] * gap
            turn[frames] += weight[:, None, None] * spin
    return roots + shift, (rotations @ SO3.exp(turn)).wxyz


def _steps(roots: FloatArray, cut: int) -> FloatArray:
    before = roots[cut - 1] - roots[cut - 2] if cut > 1 else np.zeros(3)
    after = roots[cut + 1] - roots[cut] if cut + 1 < len(roots) else np.zeros(3)
    return before + after


def _contacts(graph: MotionGraph, poses: IntArray) -> Contacts:
    database = graph.database
    names = contact_points(database.body.skeleton).names
    kinds = database.phases.kind[database.phase[poses]]
    active = np.zeros((len(poses), len(names)), dtype=bool)
    for kind, planted in enumerate(database.classes):
        wanted = {f"{foot}_{part}" for foot in planted for part in ("heel", "toe")}
        active[kinds == kind] = [name in wanted for name in names]
    return Contacts(names, active)
