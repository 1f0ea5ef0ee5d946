"""Compiled hot loops: one decorator that loads numba and compiles at the first call.

A kernel stands beside the function that calls it. Importing its module costs nothing; numba (about a second) is loaded
when a kernel is first called. Compiled code is kept on disk and is stamped with everything it was made from: the
kernel's own byte code, every kernel that it reaches in whatever file, and the constants that numba froze into it. An
edit of any of them therefore takes effect at the next run.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from functools import update_wrapper
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile ``function`` with numba at its first call: cached on disk, without the global lock, C rules for division.

    No kernel is handed to C, so none gets an entry point for it: that saves a fifth of the time to compile.
    """
    return cast(Function, _Kernel(cast(FunctionType, function), is_inline=False))


def inline_kernel(function: Function) -> Function:
    """A piece of a kernel: compiled into each kernel that calls it, not on its own.

    Every kernel holds the code of all that it calls. A chain of long functions, each the only caller of the next, is
    compiled once in this way, else once for each link. Calls of such a piece cannot unpack tuples (``*rest``).
    """
    return cast(Function, _Kernel(cast(FunctionType, function), is_inline=True))


def numba_function(module: str, name: str) -> Callable[..., Any]:
    """A function of numba's own that kernels call by a module-level name; found when the first of them is compiled."""
    return _NumbaFunction(module, name)


class _NumbaFunction:
    """A reference to an intrinsic of numba that does not load numba at import."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def resolve(self) -> Any:
        return getattr(import_module(self.module), self.name)

    def __call__(self, *arguments: Any) -> Any:
        return self.resolve()(*arguments)


class _Kernel:
    """A function that is compiled when it is first called, with every kernel that it reaches."""

    def __init__(self, function: FunctionType, *, is_inline: bool) -> None:
        self.py_func = function
        self._is_inline = is_inline
        self._dispatcher: Any = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        dispatcher = self.resolve()
        # The caller's module holds this object under the kernel's name: later calls go straight to the compiled code.
        caller = sys._getframe(1).f_globals  # pyright: ignore[reportPrivateUsage]
        if caller.get(self.py_func.__name__) is self:
            caller[self.py_func.__name__] = dispatcher
        return dispatcher(*arguments)

    def resolve(self) -> Any:
        """Return numba's dispatcher, which compiles or reads from disk at its first call with each signature."""
        if self._dispatcher is None:
            numba = import_module("numba")
            if self._is_inline:
                dispatcher = numba.njit(nogil=True, error_model="numpy", inline="always")(self.py_func)
            else:
                dispatcher = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(self.py_func)
            if dispatcher is not self.py_func:  # NUMBA_DISABLE_JIT hands the function back
                dispatcher.marey_kernel = self
                if not self._is_inline:
                    import_module("marey.base.kernel_cache").enable_cache(dispatcher, self.stamp())
            self._dispatcher = dispatcher
            # numba looks callees up by name in the function's globals and must find dispatchers there
            for space, name, value in list(_referenced(self.py_func)):
                if isinstance(value, _Kernel | _NumbaFunction):
                    space[name] = value.resolve()
        return self._dispatcher

    def stamp(self) -> str:
        """Hash all that the compiled code is made from: this kernel and every kernel it reaches."""
        reached: dict[int, _Kernel] = {}
        waiting: list[_Kernel] = [self]
        while waiting:
            one = waiting.pop()
            if id(one) not in reached:
                reached[id(one)] = one
                callees = (_kernel_behind(value) for _, _, value in _referenced(one.py_func))
                waiting.extend(callee for callee in callees if callee is not None)
        return hashlib.sha256(b"".join(sorted(_describe_function(one.py_func) for one in reached.values()))).hexdigest()


def _kernel_behind(value: Any) -> _Kernel | None:
    """Return the kernel that a module-level value is, or was before it was replaced by its dispatcher."""
    if isinstance(value, _Kernel):
        return value
    return getattr(value, "marey_kernel", None) if type(value).__module__.startswith("numba") else None


def _referenced(function: FunctionType) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Yield (namespace, name, value) of every global that ``function`` mentions, also as ``module.name`` of ours."""
    space = function.__globals__
    names = sorted(_names_in(function.__code__))
    for name in names:
        if name in space:
            value = space[name]
            yield space, name, value
            if isinstance(value, ModuleType) and value.__name__.startswith("marey"):
                inner = vars(value)
                yield from ((inner, other, inner[other]) for other in names if other in inner)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield {}, name, cell.cell_contents


def _names_in(code: CodeType) -> set[str]:
    """Collect the global and attribute names of a code object and of the closures inside it."""
    inner = (_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _describe_function(function: FunctionType) -> bytes:
    """Hash a kernel's byte code, its defaults, and the values and callees that its globals stand for."""
    digest = hashlib.sha256(f"{function.__module__}.{function.__qualname__}".encode())
    digest.update(repr((function.__defaults__, function.__kwdefaults__)).encode())
    digest.update(_describe_code(function.__code__))
    for _, name, value in _referenced(function):
        digest.update(name.encode() + b"=" + _describe_value(value) + b";")
    return digest.digest()


def _describe_code(code: CodeType) -> bytes:
    """Serialise what a code object does; comments, docstrings and line numbers do not matter."""
    constants = (_describe_code(one) if isinstance(one, CodeType) else repr(one).encode() for one in code.co_consts[1:])
    # The first constant is the docstring, or None: it never changes what is computed.
    first = code.co_consts[0] if code.co_consts else None
    head = b"" if isinstance(first, str) else repr(first).encode()
    names = repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount)).encode()
    return b"|".join((code.co_code, names, head, *constants))


def _describe_value(value: Any) -> bytes:
    """Serialise the value of a global as far as compiled code can depend on it."""
    behind = _kernel_behind(value)
    if behind is not None:
        return f"{behind.py_func.__module__}.{behind.py_func.__qualname__}".encode()
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return f"{array.dtype}{array.shape}".encode() + array.tobytes()
    if isinstance(value, _NumbaFunction):
        return value.name.encode()
    if isinstance(value, type) and issubclass(value, Enum):
        return repr([(member.name, member.value) for member in value]).encode()
    if isinstance(value, type) or callable(value) or isinstance(value, ModuleType):
        fields = cast(tuple[str, ...], getattr(value, "_fields", ()))
        return repr((getattr(value, "__name__", ""), fields)).encode()
    return repr(value).encode()
