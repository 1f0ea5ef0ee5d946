"""Old public names that still work for one version."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def deprecated_names(module: str, renamed: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that answers each old name with the new one and a ``DeprecationWarning``."""

    def find(name: str) -> Any:
        if name not in renamed:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        new = renamed[name]
        warnings.warn(
            f"{module}.{name} is now called {new}; the old name goes in 0.3", DeprecationWarning, stacklevel=2
        )
        return getattr(import_module(module), new)

    return find
