"""A validity report as curves for a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from marey.dynamics._body import GRAVITY
from marey.dynamics._supports import any_in_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from marey.dynamics._report import ValidityReport
    from marey.dynamics._validity_measured import ReactionComparison
    from marey.picture import PhysicsCurves


def build_physics_curves(report: ValidityReport, measured: ReactionComparison | None = None) -> PhysicsCurves:
    """What to draw of a report, with the forces of force plates if there are any."""
    from marey.picture import PhysicsCurves

    weight = report.dynamics.body.mass_kg * GRAVITY
    title = f"{report.name} · {report.verdict}"
    return PhysicsCurves(
        name=report.name,
        title=title if measured is None else f"{title}\n{measured.sentence}",
        times=report.times,
        spans=tuple((s.start_s, s.stop_s, s.status, s.causes[0] if s.causes else "") for s in report.spans),
        forces=report.wrench[:, :3] / weight,
        left=report.split.forces[:, 0, 1] / weight,
        right=report.split.forces[:, 1, 1] / weight,
        violation=report.violation,
        tolerance=report.tolerance,
        friction_margin=report.friction_margin,
        balance_margin=report.balance_margin,
        flight=~any_in_row(report.supports.touching),
        measured=None if measured is None else measured.measured / weight,
        is_measured=None if measured is None else measured.used,
    )


def plot_report(
    report: ValidityReport, path: str | os.PathLike[str] | None = None, *, measured: ReactionComparison | None = None
) -> Figure:
    """Draw a report: the coloured bar, forces, margins and what is missing; see ``marey.picture.plot_physics``."""
    from marey.picture import plot_physics

    return plot_physics(build_physics_curves(report, measured), path)
