"""Compiled hot loops: a decorator that loads numba and compiles at the first call.

A kernel is defined beside the function that calls it. Importing its module costs nothing; numba (about a second) is
loaded when a kernel is first called. Compiled code is cached on disk and stamped with everything it depends on: the
kernel's byte code, every kernel it reaches in any file, and the constants that numba froze into it. An edit of any of
them therefore takes effect at the next run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from enum import Enum
from functools import update_wrapper
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
COMPILE_VARIABLE = "MAREY_COMPILE"  # "always": kernels are never interpreted; "plain": large ones are not optimised
IS_PLAIN = os.environ.get(COMPILE_VARIABLE) == "plain"
PATIENCE = 12  # interpreted calls of a patient kernel, some seconds in all, before it is compiled
CONVENTION = b"records by place 7"  # calling convention of compiled pieces: raise it when the compiler changes


def kernel(function: Function) -> Function:
    """Compile ``function`` with numba at its first call: cached on disk, without the GIL, with C division.

    Calls from other kernels link it as a piece of theirs: see :mod:`marey.base.kernel_compiler`.
    """
    return cast(Function, Kernel(cast(FunctionType, function), is_inline=False))


def inline_kernel(function: Function) -> Function:
    """Declare a kernel that is inlined into the kernels that call it.

    A call costs two atomic operations per array argument. In the inner loop of a solver, with records of thirty arrays,
    these take as long as the arithmetic. Each caller holds a copy of the code.
    """
    return cast(Function, Kernel(cast(FunctionType, function), is_inline=True))


def patient_kernel(function: Function) -> Function:
    """Declare a kernel whose first calls in a process are interpreted if no compiled code is on disk.

    A solver of ten thousand instructions takes ten seconds to compile, while interpreting it for one pose takes a tenth
    of a second, so only frequent callers should wait. Both give the same numbers. Callers that expect many calls use
    :func:`compile_at_once`.
    """
    return cast(Function, Kernel(cast(FunctionType, function), is_inline=False, patience=PATIENCE))


def compile_at_once() -> None:
    """Make patient kernels of this process compile at their first call."""
    Kernel.is_patient = False


def is_interpreted(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether the next call of a kernel with these arguments will be interpreted."""
    return isinstance(function, Kernel) and function.is_waiting(arguments)


def numba_function(module: str, name: str) -> Callable[..., Any]:
    """Refer to a function of numba that kernels call by a module-level name; resolved at the first compilation."""
    return NumbaFunction(module, name)


class NumbaFunction:
    """A reference to an intrinsic of numba that does not load numba at import."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def resolve(self) -> Any:
        """Return numba's own function."""
        return getattr(import_module(self.module), self.name)

    def __call__(self, *arguments: Any) -> Any:
        """Run it outside of compiled code."""
        return self.resolve()(*arguments)


class Kernel:
    """A function that is compiled when it is first called, with every kernel that it reaches.

    It has two compiled forms. Python calls the *entry*; other kernels call the *piece*, which omits the code that
    unpacks Python objects. For records of many arrays that code is longer than the kernel itself.
    """

    is_interpreting = False  # a patient kernel runs as Python, and so do those that it calls
    is_patient = os.environ.get(COMPILE_VARIABLE) != "always"
    on_first_compilation: ClassVar[list[Callable[[], None]]] = []  # called before a process compiles its first kernel

    def __init__(self, function: FunctionType, *, is_inline: bool, patience: int = 0) -> None:
        self.py_func = function
        self._is_inline, self._patience = is_inline, patience
        self._entry: Any = None
        self._piece: Any = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled code; compile it, or read it from disk, at the first call."""
        if Kernel.is_interpreting:
            return self.py_func(*arguments)
        if self._patience and self.is_waiting(arguments):
            self._patience -= 1
            Kernel.is_interpreting = True
            try:
                with np.errstate(all="ignore"):
                    return self.py_func(*arguments)
            except (ArithmeticError, ValueError):
                # Python raises where compiled code returns infinity
                self._patience = 0
            finally:
                Kernel.is_interpreting = False
        if self._entry is None:
            self._entry = self._compile_lazily(is_piece=False)
        return self._entry(*arguments)

    def is_waiting(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether a call is to be interpreted: there is patience left, and no compiled code for it."""
        if not self._patience or not Kernel.is_patient:
            self._patience = 0
            return False
        if self._entry is None:
            self._entry = self._compile_lazily(is_piece=False)
        if self._entry is not self.py_func:
            kinds = tuple(self._entry.typeof_pyval(one) for one in arguments)
            kept = getattr(self._entry._cache, "read_overload", None)
            if kinds in self._entry.overloads or (kept and kept(kinds, self._entry.targetctx) is not None):
                self._patience = 0
        return self._patience > 0

    @property
    def signatures(self) -> list[Any]:
        """Argument types of the compiled code that Python has called."""
        return [] if self._entry is None else list(self._entry.signatures)

    def compile_signature(self, signature: tuple[Any, ...]) -> None:
        """Compile the entry for the given argument types, or load it from disk."""
        if self._entry is None:
            self._entry = self._compile_lazily(is_piece=False)
        self._entry.compile(signature)

    def piece(self) -> Any:
        """Return numba's dispatcher for calls from other kernels."""
        if self._piece is None:
            self._piece = self._compile_lazily(is_piece=True)
        return self._piece

    def _compile_lazily(self, *, is_piece: bool) -> Any:
        """Make a dispatcher, which compiles or reads from disk at its first call with each signature."""
        numba = import_module("numba")
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
        compiler = import_module("marey.base.kernel_compiler")
        if is_piece:
            pipeline = {"pipeline_class": compiler.InlineCompiler} if self._is_inline else {}
            dispatcher = numba.njit(no_cpython_wrapper=True, **options, **pipeline)(self.py_func)
        else:
            dispatcher = numba.njit(pipeline_class=compiler.EntryCompiler, **options)(self.py_func)
        if dispatcher is not self.py_func:  # NUMBA_DISABLE_JIT hands the function back
            kinds = ("piece",) if is_piece else ("plain", "entry") if IS_PLAIN else ("entry",)
            stamp = self.stamp()
            import_module("marey.base.kernel_cache").enable_cache(dispatcher, *(f"{kind}-{stamp}" for kind in kinds))
        return dispatcher

    def stamp(self) -> str:
        """Hash everything the compiled code depends on: this kernel and every kernel it reaches."""
        reached: dict[int, Kernel] = {}
        waiting: list[Kernel] = [self]
        while waiting:
            one = waiting.pop()
            if id(one) not in reached:
                reached[id(one)] = one
                waiting.extend(value for _, _, value in _list_references(one.py_func) if isinstance(value, Kernel))
        parts = sorted(_describe_function(one.py_func) for one in reached.values())
        return hashlib.sha256(b"".join((CONVENTION, *parts))).hexdigest()


def _list_references(function: FunctionType) -> Iterator[tuple[dict[str, Any], str, Any]]:
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
    for _, name, value in _list_references(function):
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
    if isinstance(value, Kernel):
        return f"{value.py_func.__module__}.{value.py_func.__qualname__}".encode()
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return f"{array.dtype}{array.shape}".encode() + array.tobytes()
    if isinstance(value, NumbaFunction):
        return value.name.encode()
    if isinstance(value, type) and issubclass(value, Enum):
        return repr([(member.name, member.value) for member in value]).encode()
    if isinstance(value, type) or callable(value) or isinstance(value, ModuleType):
        fields = cast(tuple[str, ...], getattr(value, "_fields", ()))
        return repr((getattr(value, "__name__", ""), fields)).encode()
    return repr(value).encode()
