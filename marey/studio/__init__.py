"""The browser application."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from marey.base import MissingExtraError

if TYPE_CHECKING:
    from marey.studio.server.app import Studio, serve

__all__ = ["Studio", "serve"]


def __getattr__(name: str) -> Any:
    """Load the server when it is first asked for; it needs the ``studio`` extra."""
    if name not in __all__:
        raise AttributeError(f"module 'marey.studio' has no attribute '{name}'")
    if find_spec("viser") is None:
        raise MissingExtraError("The studio", "studio")
    from marey.studio.server import app as _studio

    return getattr(_studio, name)
