"""Where the feet of a motion stand, in the order in which they land."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray
from marey.contacts import contact_phases
from marey.motion import Motion


def find_footprints(motion: Motion) -> FloatArray:
    """Places ``(N, 3)`` [m] of the ball of the foot, one for each stance."""
    stances = {id(plant): plant.position for phase in contact_phases(motion) for plant in phase.plants}
    return np.array(list(stances.values())).reshape(-1, 3)
