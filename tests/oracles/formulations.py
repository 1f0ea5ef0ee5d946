"""Sizes of three formulations of one problem, counted as in [Fang2003]_ fig. 2.2 (F22)."""

from __future__ import annotations

from dataclasses import dataclass

from marey.base import InputError


@dataclass(frozen=True, slots=True)
class Formulation:
    """Sizes of one formulation for a character, a number of bases and of contacts ([Fang2003]_ fig. 2.2)."""

    name: str
    unknowns: int
    physics_rows: int
    physics_entries: int  # non-zeros of the physics Jacobian; 0 where the dynamics are integrated
    kinematic_entries: int  # non-zeros of one kinematic row
    dynamics: str


def report_formulations(num_dofs: int, num_bases: int, num_contacts: int = 1) -> tuple[Formulation, ...]:
    """Count unknowns and rows of spacetime constraints, optimal control and motion optimisation.

    Args:
        num_dofs: actuated degrees of freedom; the root adds six.
        num_bases: spline functions of each curve, and frames of the physics.
        num_contacts: contact coordinates among the unknowns of spacetime constraints.
    """
    if num_dofs < 1 or num_bases < 4 or num_contacts < 0:
        raise InputError(
            f"{num_dofs} degrees of freedom, {num_bases} bases, {num_contacts} contacts",
            "Give at least 1, 4 and 0",
        )
    D, K, C = num_dofs, num_bases, num_contacts
    wide = 2 * D + C + 6
    return (
        Formulation("spacetime constraints", K * wide, K * (D + 6), K * (D + 6) * wide, 4 * (D + 6), "implicit"),
        Formulation("optimal control", K * D, 0, 0, K * D, "forward integration"),
        Formulation("motion optimisation", K * (D + 6), 6 * K, 6 * K * 4 * (D + 6), 4 * (D + 6), "inverse"),
    )
