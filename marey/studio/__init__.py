"""The browser application."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from marey.base import MissingExtraError

if TYPE_CHECKING:
    from marey.studio.server.app import Studio, serve
    from marey.studio.web.app import serve_project

__all__ = ["Studio", "serve", "serve_project"]


def __getattr__(name: str) -> Any:
    """Load the server when it is first asked for; it needs the ``studio`` extra."""
    if name not in __all__:
        raise AttributeError(f"module 'marey.studio' has no attribute '{name}'")
    needed = ("starlette", "uvicorn", "msgspec", "websockets") if name == "serve_project" else ("viser",)
    if any(find_spec(module) is None for module in needed):
        raise MissingExtraError("The studio", "studio")
    if name == "serve_project":
        from marey.studio.web import app as _studio
    else:
        from marey.studio.server import app as _studio

    return getattr(_studio, name)
