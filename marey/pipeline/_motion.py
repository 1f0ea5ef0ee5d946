"""What `marey.synthesize` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marey.base import InputError
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.motion import Motion


def synthesize(sketch: Sketch, engine: str = "auto", **options: Any) -> Motion:
    """The motion that a sketch asks for.

    Args:
        sketch: from :meth:`marey.Sketch.load`, or made by hand.
        engine: "auto", "graph", "locomotion" or "spacetime".
        options: see :func:`marey.pipeline.synthesize_sketch`, which tells more about what was made.

    Raises:
        InputError: there is no such motion; the message has the reason and what would help.
        UnknownNameError: there is no such engine.
    """
    from marey.pipeline._synthesize import synthesize_sketch as synthesized

    result = synthesized(sketch, engine, check=False, **options)
    if result.motion is None:
        raise InputError(f"no motion for '{sketch.name}': {result.status}", result.advice)
    return result.motion
