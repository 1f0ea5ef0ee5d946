"""What a soft body brings into control: its points, segments, ground and controls, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, IntArray, UnknownNameError, frozen, frozen_ints
from marey.muscle._control_chart import GeneralisedCoordinates, NodeCoordinates
from marey.muscle._control_pattern import StepPattern
from marey.muscle._control_segments import (
    NodeSelection,
    join_segments,
    make_edge_dampers,
    make_pair_dampers,
    make_spline_segments,
)
from marey.muscle._springs import SpringElasticity

if TYPE_CHECKING:
    from marey.muscle._body import SoftBody
    from marey.muscle._body_elastic import TetrahedralElasticity
    from marey.muscle._bones_state import AttachedBones
    from marey.muscle._control_contact_kernels import SmoothContactPlane
    from marey.muscle._control_segments_kernels import WeightedSegments
    from marey.muscle._muscles import Muscles

CONTROLS: Final = ("activation", "alpha", "segments", "nodes")
FREE: Final = -1  # what the carriers of a body call a node that nothing holds


class BodyPoints(NamedTuple):
    """Nodes of a body, then points that stand for the own masses of its bones."""

    rest: FloatArray  # (V + E, 3) [m]
    masses: FloatArray  # (V + E,) [kg]
    carriers: IntArray  # (V + E,)
    bones: AttachedBones | None

    @staticmethod
    def from_body(body: SoftBody) -> BodyPoints:
        """Points of a body."""
        from marey.muscle._bones_state import AttachedBones
        from marey.muscle._control_bones import make_mass_points

        carriers = np.asarray(body.carriers, dtype=np.int64)
        if not isinstance(body.bones, AttachedBones):
            return BodyPoints(body.mesh.nodes, body.masses, carriers, None)
        x, m, owners = make_mass_points(body.bones)
        rest, masses = np.vstack([body.mesh.nodes, x]), np.concatenate([body.masses, m])
        return BodyPoints(rest, masses, np.concatenate([carriers, owners]), body.bones)

    def chart(self, pattern: StepPattern) -> GeneralisedCoordinates:
        """Coordinates in which the points move."""
        from marey.muscle._control_bones import BoneCoordinates

        if self.bones is None:
            return NodeCoordinates(pattern, self.carriers == FREE)
        return BoneCoordinates(pattern, self.carriers, self.rest, self.bones)


def check_control(control: str | None, muscles: Muscles | None) -> str:
    """The kind of control of a body, by name or as its muscles ask for."""
    chosen = control or ("nodes" if muscles is None else "activation")
    if chosen not in CONTROLS:
        raise UnknownNameError("control", chosen, "soft systems", CONTROLS)
    if muscles is None and chosen != "nodes":
        raise InputError(f"control is '{chosen}', but the body has no muscles", "Give it some, or use 'nodes'")
    return chosen


def check_actuated_nodes(body: SoftBody, actuated: ArrayLike | None) -> IntArray:
    """Free nodes that forces act on; all of them by default."""
    free = np.flatnonzero(body.carriers == FREE)
    nodes = frozen_ints(free if actuated is None else actuated, None, name="actuated")
    strange = nodes[~np.isin(nodes, free)]
    if strange.size:
        raise InputError(f"actuated names node {strange[0]}, which is held or not there", "Name free nodes only")
    return nodes


def make_body_segments(body: SoftBody, spread: NodeSelection | None, time_s: float) -> WeightedSegments:
    """Segments of splines, then dampers along the edges of cells if there is a time for them."""
    parts = [] if body.muscles is None else [make_spline_segments(body.muscles, spread)]
    elastic = body.elastic
    if time_s > 0.0 and isinstance(elastic, SpringElasticity):
        parts.append(
            make_pair_dampers(np.asarray(elastic.springs, dtype=np.int64), elastic.lengths, time_s * elastic.stiffness)
        )
    elif time_s > 0.0:
        arrays = cast("TetrahedralElasticity", elastic).arrays
        strengths = 3.0 * time_s * arrays.mu * arrays.volumes  # Young's modulus is about three times mu
        parts.append(make_edge_dampers(body.mesh.nodes, np.asarray(body.cells, dtype=np.int64), strengths))
    return join_segments(parts)


def make_smooth_ground(body: SoftBody, rounding_m: float, smoothing_m_s: float) -> SmoothContactPlane | None:
    """The ground of a body with rounded corners."""
    from marey.muscle._control_contact_kernels import SmoothContactPlane

    if rounding_m <= 0.0 or smoothing_m_s <= 0.0:
        raise InputError("rounding_m or smoothing_m_s is not above zero")
    if body.ground is None:
        return None
    arrays = body.ground
    if np.ptp(arrays.friction) > 0.0:
        raise InputError("friction differs by direction", "Control knows friction that is the same in all directions")
    friction = float(arrays.friction[0])
    return SmoothContactPlane(arrays.point, arrays.normal, arrays.stiffness, friction, rounding_m, smoothing_m_s)


def make_alpha_map(
    control: str, muscles: Muscles | None, num_segments: int, fades: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Contraction of segments ``(S,)`` without controls, and the matrix ``(S, s)`` that controls add by."""
    base, count = np.ones(num_segments), 0 if muscles is None else muscles.num_segments
    if muscles is None or control == "nodes":
        return base, np.zeros((num_segments, 0))
    owners = np.eye(muscles.num_splines)[muscles.owners] if control != "segments" else np.eye(count)
    if control == "activation":
        shares = np.ones(count) if fades is None else frozen(fades, count, name="fades")
        owners = -shares[:, None] * owners * np.array([1.0 - spline.alpha_min for spline in muscles.splines])
    else:
        base[:count] = 0.0
    return base, np.vstack([owners, np.zeros((num_segments - count, owners.shape[1]))])
