"""What the reduced space refuses before it solves anything."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import InputError
from marey.spacetime._problem import Contact, SpacetimeProblem
from marey.spacetime._reduced_layout import FEET, ReducedLayout
from marey.spacetime._reduced_pose import ReducedSpace

MAX_SPREAD: Final = 0.95  # of both legs stretched to the sides: no farther can two feet be


def validate_reduced(problem: SpacetimeProblem, layout: ReducedLayout, space: ReducedSpace) -> None:
    """Refuse flights at the ends, feet that jump between plants, and plants that no two legs can reach.

    Raises:
        InputError: with the phase, and the distance where there is one.
    """
    for phase in (0, layout.num_phases - 1):
        if layout.is_flight(phase):
            raise InputError(
                f"problem '{problem.name}' {'ends' if phase else 'begins'} in the air ('{problem.phases[phase].name}')",
                "In the reduced space a motion begins and ends on its feet",
            )
    for leg in (0, 1):
        for first, second in zip(layout.legs[leg][:-1], layout.legs[leg][1:], strict=True):
            if first.is_stance and second.is_stance:
                name = problem.phases[second.phases[0]].name
                raise InputError(
                    f"{FEET[leg]} has another plant in phase '{name}' without having left the first one",
                    "Put a phase between them in which it is free, or give both the same plant",
                )
    _check_spread(problem, layout, space)


def _check_spread(problem: SpacetimeProblem, layout: ReducedLayout, space: ReducedSpace) -> None:
    """Feet planted at once, or one after the other with no flight between: the legs reach both at that instant."""
    hips = float(np.linalg.norm(space.legs[0].hip_offset - space.legs[1].hip_offset))
    reach = hips + MAX_SPREAD * (space.legs[0].reach + space.legs[1].reach)
    for phase in range(layout.num_phases):
        for later in range(phase, min(phase + 2, layout.num_phases)):
            for left, right in _plant_pairs(layout, phase, later):
                apart = float(np.linalg.norm(np.subtract(left.position, right.position)))
                if apart > reach:
                    names = " and ".join(f"'{problem.phases[p].name}'" for p in sorted({phase, later}))
                    raise InputError(
                        f"the feet of phase {names} are planted {apart:.2f} m apart, this body reaches {reach:.2f} m",
                        "Put the plants nearer together, or a flight between them",
                    )


def _plant_pairs(layout: ReducedLayout, phase: int, later: int) -> list[tuple[Contact, Contact]]:
    """Plants of a left and a right foot, one in each of two phases."""
    (l1, r1), (l2, r2) = layout.contacts[phase], layout.contacts[later]
    return [(left, right) for left, right in ((l1, r2), (l2, r1)) if left is not None and right is not None]
