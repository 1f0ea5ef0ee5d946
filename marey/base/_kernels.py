"""How hot loops are compiled: one typed decorator, so that numba's options are set in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile with numba: cached on disk, without the global lock, C rules for division by zero.

    No kernel is handed to C, so none gets the entry for it: that is a fifth of the time to compile.

    Importing numba costs about a second, so modules that use this decorator are named ``_*_kernels``
    and are imported inside the functions that call them, never at the top of a package.
    """
    import numba

    njit = cast(Callable[..., Any], numba.njit)
    compile_ = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
    return cast(Function, compile_(function))


def part(function: Function) -> Function:
    """A piece of a kernel: compiled into each kernel that calls it, not on its own.

    Every kernel holds the code of all that it calls. A chain of long functions, each the only caller of the next, is
    compiled once in this way, else once for each link. Calls of a part cannot unpack tuples (``*rest``).
    """
    import numba

    njit = cast(Callable[..., Any], numba.njit)
    compile_ = njit(nogil=True, error_model="numpy", inline="always")
    return cast(Function, compile_(function))
