"""The modes of `marey simulate` in which the figure has a will of its own, or is held."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from marey.base import InputError
from marey.cli._simulate_run import Run, Tell, Wish
from marey.simulate import Ball, Push, Simulator

NEEDED = {"puppet": "Puppet", "track": "track_result", "balance": "balance"}


def controlled(
    wish: Wish, simulator: Simulator, pushes: tuple[Push, ...], throws: list[tuple[float, Ball]], tell: Tell
) -> Run:
    """Run a mode that needs a controller.

    Raises:
        InputError: this version has no such controller.
    """
    control: Any = import_module("marey.control")
    if not hasattr(control, NEEDED[wish.mode]):
        fix = "Take drop or free"
        raise InputError(f"mode '{wish.mode}' needs marey.control.{NEEDED[wish.mode]}, which is not there", fix)
    raise InputError(f"mode '{wish.mode}' is not there", "Take drop or free")
