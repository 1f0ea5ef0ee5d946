"""Goals of `marey muscle`: activations that bring a point of a scene's body to a place in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from marey.cli._common import progress_bar

if TYPE_CHECKING:
    from marey.muscle import Film, SoftBodyScene

GOAL_FORM = "write BONE=X,Y,Z@SECONDS, or X,Y,Z=X,Y,Z@SECONDS with a place of the body at rest"


def solve_goals(scene: SoftBodyScene, texts: list[str]) -> tuple[Film, dict[str, Any]]:
    """The film of a scene whose muscles meet goals, and the facts of the search."""
    from marey.muscle import solve_scene

    goals = [parse_goal(text) for text in texts]
    with progress_bar("solve") as tell:
        control = solve_scene(scene, goals, on_iteration=lambda number, cost: tell(number, 25))
    result = control.result
    facts: dict[str, Any] = {
        "status": str(getattr(result.status, "value", result.status)),
        "iterations": int(result.iterations),
        "goal_errors_m": [float(error) for error in control.errors_m],
    }
    return control.film(), facts


def parse_goal(text: str) -> tuple[float, str | tuple[float, ...], tuple[float, ...]]:
    """Time [s], point (a bone's name or a place at rest) and place [m] of a goal."""
    point, sign, rest = text.partition("=")
    place, at, time = rest.partition("@")
    try:
        where, when = _parse_triple(place), float(time)
    except ValueError:
        sign = ""
        where, when = (), 0.0
    if not (sign and at and point and when > 0.0):
        raise typer.BadParameter(f"'{text}' is no goal; {GOAL_FORM}.")
    try:
        return when, _parse_triple(point) if "," in point else point, where
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no goal; {GOAL_FORM}.") from None


def _parse_triple(text: str) -> tuple[float, ...]:
    x, y, z = (float(part) for part in text.split(","))
    return x, y, z
