"""Where marey keeps what it can make again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Return ``MAREY_CACHE``, or marey's part of the user's cache; the folder need not exist."""
    if own := os.environ.get("MAREY_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "marey"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "marey"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "marey"
