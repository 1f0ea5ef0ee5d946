"""The motion graph as arrays, ready to be searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from marey.base import BoolArray, FloatArray, IntArray
from marey.graph._compact import PhasePaths, path_pose_ranges
from marey.graph._database import Database
from marey.graph._settings import GraphSettings
from marey.graph._transitions import Transitions
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.graph._search import SearchResult
    from marey.graph._tables import EventTable

NO_EVENT, PICK_LEFT, PICK_RIGHT, FLIGHT, STAND = 0, 1, 2, 3, 4
NUM_TORQUES = 16
NUM_PATH_SAMPLES = 9  # places of the root along an edge that are tested against walls and the corridor


class GraphArrays(NamedTuple):
    """N states, E edges sorted by source. Places are in the frame of the anchor foot: x, z [m], yaw [rad]."""

    first: IntArray  # (N + 1,) edges of state s are first[s] to first[s + 1]
    target: IntArray  # (E,)
    cost: FloatArray  # (E,)
    seconds: FloatArray  # (E,)
    arc: FloatArray  # (E,) [m] length of the root's way over the ground
    delta: FloatArray  # (E, 3) anchor of the target in the frame of the source's anchor
    path: FloatArray  # (E, SAMPLES, 2) [m] root along the edge in the source's anchor frame, to where the target's is
    way: IntArray  # (E,) number of the way
    event: IntArray  # (N,) what happens when the state is reached
    hand: FloatArray  # (N, 3) [m] hand of a pick: x, height, z in the anchor's frame
    root: FloatArray  # (N, 3) root in the anchor's frame
    feet: FloatArray  # (N, 2, 2) [m] middles of left and right foot in the anchor's frame; NaN where not planted
    kind: IntArray  # (N,) contact class
    flight: FloatArray  # (E, 2) [m] ground between the feet, rise of the root; zero for edges that are no flights
    is_standing: BoolArray  # (N,) the state begins a slow, upright stance on both feet: one may start and end there
    price: FloatArray  # (E,) share of the cost that is transitions and gaps between merged states
    power: FloatArray  # (E,) [1/s] the rest per second: cost = seconds * power + price
    torque: FloatArray  # (E, TORQUES) directions of length one whose dot products are those of the torques of two edges


@dataclass(frozen=True, slots=True)
class GraphSize:
    """How large a graph was at each stage of its build."""

    poses: int = 0
    like_pairs: int = 0  # pairs of poses under the thresholds
    transitions: int = 0  # of them the lowest of each valley, at most so many of one pose: the full graph
    phases: int = 0  # states after culling
    ways: int = 0  # edges after culling


@dataclass(frozen=True, slots=True, eq=False)
class MotionGraph:
    """A database, its transitions, and the compact graph made of them."""

    settings: GraphSettings
    database: Database
    transitions: Transitions
    ways: PhasePaths
    arrays: GraphArrays
    members: tuple[IntArray, ...]  # phases of each state, the one in the middle first
    tables: Mapping[str, EventTable] = field(default_factory=dict[str, "EventTable"])  # by kind of event
    size: GraphSize = field(default_factory=lambda: GraphSize())
    notes: tuple[str, ...] = ()

    @property
    def num_states(self) -> int:
        """How many states the compact graph has."""
        return len(self.arrays.event)

    @property
    def num_edges(self) -> int:
        """How many edges it has."""
        return len(self.arrays.target)

    def search(self, sketch: Sketch, **options: Any) -> SearchResult:
        """The cheapest motion that does what a sketch asks for; options are those of ``search_graph``."""
        from marey.graph._search import search_graph

        return search_graph(self, sketch, **options)

    def stretches(self, edge: int) -> list[tuple[int, int]]:
        """Poses ``[start, stop)`` of the database that an edge shows."""
        return path_pose_ranges(self.database, self.transitions, self.ways, int(self.arrays.way[edge]))


def to_frame(place: FloatArray, frame: FloatArray) -> FloatArray:
    """Places ``(..., 3)`` x, z, yaw seen from frames ``(..., 3)``."""
    dx, dz = place[..., 0] - frame[..., 0], place[..., 1] - frame[..., 1]
    c, s = np.cos(frame[..., 2]), np.sin(frame[..., 2])
    yaw = (place[..., 2] - frame[..., 2] + np.pi) % (2.0 * np.pi) - np.pi
    return np.stack([c * dx - s * dz, s * dx + c * dz, yaw], axis=-1)


def compose_planar(frame: FloatArray, place: FloatArray) -> FloatArray:
    """Places ``(..., 3)`` given in frames ``(..., 3)``, in the world."""
    c, s = np.cos(frame[..., 2]), np.sin(frame[..., 2])
    x = frame[..., 0] + c * place[..., 0] + s * place[..., 1]
    z = frame[..., 1] - s * place[..., 0] + c * place[..., 1]
    return np.stack([x, z, frame[..., 2] + place[..., 2]], axis=-1)
