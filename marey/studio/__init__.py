"""The browser application: commands over one project, and its tools."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from marey.base import MissingExtraError

if TYPE_CHECKING:
    from marey.studio.web.app import serve_project

__all__ = ["serve_project"]
NEEDED = ("starlette", "uvicorn", "msgspec", "websockets")


def __getattr__(name: str) -> Any:
    """Load the server when it is first asked for; it needs the ``studio`` extra."""
    if name not in __all__:
        raise AttributeError(f"module 'marey.studio' has no attribute '{name}'")
    if any(find_spec(module) is None for module in NEEDED):
        raise MissingExtraError("The studio", "studio")
    from marey.studio.web import app as _app

    return getattr(_app, name)
