"""The hierarchy of errors, the warning class, and deprecated aliases of public names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

SHOWN_CHARACTERS: Final = 300  # longer values and sentences are cut in the middle


class MareyError(Exception):
    """Root of all errors that marey raises on purpose."""


def shorten(text: object) -> str:
    """Return a text, cut in the middle if it is long, since files and names can have any length."""
    full = str(text)
    half = SHOWN_CHARACTERS // 2
    return full if len(full) <= SHOWN_CHARACTERS else f"{full[:half]} ... {full[-half:]}"


class MareyWarning(UserWarning):
    """A requested value was clamped to its possible range; the message names the value and the bound."""


class FormatError(MareyError, ValueError):
    """A file breaks its format; prints as ``file:line: what. fix``, without the line (0) for binary files."""

    def __init__(self, what: str, file: str, line: int, fix: str) -> None:
        super().__init__(what, file, line, fix)  # keeps the error picklable
        self.what, self.file, self.line, self.fix = what, file, line, fix

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line > 0 else self.file
        return f"{shorten(where)}: {shorten(self.what)}. {shorten(self.fix)}"


class InputError(MareyError, ValueError):
    """An argument cannot be used; prints as ``what. fix``."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what, fix)
        self.what, self.fix = what, fix

    def __str__(self) -> str:
        return f"{shorten(self.what)}. {shorten(self.fix)}" if self.fix else f"{shorten(self.what)}."


class MissingFileError(MareyError, FileNotFoundError):
    """A file or folder that was named does not exist."""

    def __init__(self, path: str, fix: str = "Check the path.") -> None:
        super().__init__(path, fix)
        self.path, self.fix = path, fix

    def __str__(self) -> str:
        return f"no file or folder '{shorten(self.path)}'. {shorten(self.fix)}"


class WriteError(MareyError, OSError):
    """A file cannot be written: a full disk, a missing permission, a name that is too long. The old file is kept."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot write '{shorten(self.path)}': {shorten(self.reason)}. A file of that name was not changed"


class AccessError(MareyError, OSError):
    """A file or folder cannot be opened: a missing permission, a name that is too long, a folder for a file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"cannot open '{shorten(self.path)}': {shorten(self.reason)}. Check the path and who may read it"


class UnknownNameError(MareyError, KeyError):
    """A name is not among those that exist; suggests the nearest ones."""

    def __init__(self, kind: str, name: str, owner: str, known: Iterable[str]) -> None:
        known = tuple(known)
        super().__init__(kind, name, owner, known)
        self.kind, self.name, self.owner, self.known = kind, name, owner, known

    def __str__(self) -> str:
        # A misspelt name is most often near the right one
        name = shorten(self.name)
        near = get_close_matches(name, map(str, self.known), n=1, cutoff=0.6)
        hint = f" Did you mean '{shorten(near[0])}'?" if near else ""
        shown = shorten(", ".join(map(str, self.known[:8])) + (", ..." if len(self.known) > 8 else ""))
        return f"no {self.kind} '{name}' in {shorten(self.owner)}.{hint} It has {len(self.known)}: {shown}"


class ConvergenceError(MareyError, ArithmeticError):
    """An iteration did not reach its tolerance; ``report`` is its last state."""

    def __init__(self, what: str, report: object = None) -> None:
        super().__init__(what, report)
        self.what, self.report = what, report

    def __str__(self) -> str:
        return shorten(self.what)


class WorkerError(MareyError, RuntimeError):
    """Worker processes died again and again, each time before they had finished a job."""

    def __init__(self, deaths: int, left: int) -> None:
        super().__init__(deaths, left)
        self.deaths, self.left = deaths, left

    def __str__(self) -> str:
        return (
            f"worker processes died {self.deaths} times in a row, with {self.left} jobs left. "
            "Memory may be short: use fewer workers"
        )


class MissingExtraError(MareyError, ImportError):
    """An optional dependency is not installed; prints the install line."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what, extra)
        self.what, self.extra = what, extra

    def __str__(self) -> str:
        return f"{self.what} needs the extra '{self.extra}'. Install it: pip install 'marey[{self.extra}]'"


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
