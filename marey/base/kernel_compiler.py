"""How numba compiles a kernel: every piece is typed and lowered once, and only the whole is optimised and translated.

numba by itself optimises each function with all that it calls and makes machine code of it, then does the same again
for its caller. Here the kernels below the one that Python calls (the *entry*) stay LLVM modules. They are linked into
the entry, whose optimisation sees them all; that takes a third of the time. Some shortcuts through numba, which leave
the machine code as it is, save a further fifth (:func:`_take_shortcuts`).
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.lowering import BaseLower
from numba.core.registry import cpu_target
from numba.core.targetconfig import TargetConfig
from numba.core.types import Dispatcher
from numba.extending import overload, typeof_impl
from numba.np import arrayobj

from marey.base import kernels
from marey.base.kernel_cache import free_locks, kernel_folder

LOG = logging.getLogger("marey")
EVERY_S = 10.0  # [s] between two messages on the progress
GARBAGE_OBJECTS = 100_000  # new objects between two searches for garbage: what the compiler makes, it mostly keeps
ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of the variable through which compiled code finds its Python constants


class PieceLibrary(JITCodeLibrary):
    """Code that is linked into an entry: neither optimised as a whole nor translated on its own."""

    def _optimize_functions(self: Any, ll_module: Any) -> None:
        """Simplify each function; numba also makes a list of passes for each one that is only declared."""
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        """Leave it to the entry."""

    def _finalize_final_module(self: Any) -> None:
        """Make the module ready for linking; of all its symbols the process needs the environments alone."""
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        engine = self._codegen._engine
        names = [one.name for one in self._final_module.global_variables if one.name.startswith(ENVIRONMENT)]
        lines = [f'@"{name}" = common global ptr null' for name in names if not engine.is_symbol_defined(name)]
        if lines:
            engine.add_module(cast(Any, llvm).parse_assembly("\n".join(lines)))
        self._finalized = True

    def get_pointer_to_function(self: Any, name: str) -> int:
        """Return zero: there is no machine code."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self: Any) -> Any:
        """What the cache keeps: the module, ready for linking."""
        return self.name, "bitcode", self._get_module_for_linking().as_bitcode()


class InlineLibrary(PieceLibrary):
    """A piece that has no calls left in the entry: passing records of arrays costs a count of references for each."""

    def add_llvm_module(self, ll_module: Any) -> None:
        """Mark the functions, then add them."""
        for function in ll_module.functions:
            if not function.is_declaration:
                function.add_function_attribute("alwaysinline")
        cast(Any, super()).add_llvm_module(ll_module)


class InlineCompiler(Compiler):
    """numba's compiler for a piece that is written into its callers."""

    def _compile_bytecode(self) -> Any:
        state = cast(Any, self).state
        state.library = cast(Any, InlineLibrary)(state.targetctx.codegen(), state.func_id.func_qualname)
        return cast(Any, super())._compile_bytecode()


class EntryCompiler(Compiler):
    """numba's compiler, for which everything that is compiled on the way is a piece."""

    def _compile_bytecode(self) -> Any:
        state = cast(Any, self).state
        PROGRESS.announce(state.func_id.func_name)
        state.library = cast(Any, JITCodeLibrary)(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        try:
            with _take_shortcuts(state.targetctx.codegen()):
                return cast(Any, super())._compile_bytecode()
        except BaseException:
            free_locks()
            raise


class CompileProgress:
    """Tells the log that kernels are compiled: at once, then every ten seconds; the name of each at level DEBUG."""

    def __init__(self) -> None:
        self._count, self._began_s, self._said_s = 0, 0.0, 0.0

    def announce(self, name: str) -> None:
        """Count a kernel that is not on disk yet, before it is compiled."""
        now = time.perf_counter()
        if self._count == 0:
            self._began_s = self._said_s = now
            is_kept = kernel_folder() is not None
            LOG.info("compiling for this processor%s", "; it is kept, and later runs start at once" if is_kept else "")
        elif now - self._said_s > EVERY_S:
            self._said_s = now
            LOG.info("compiled %d kernels in %.0f s", self._count, now - self._began_s)
        LOG.debug("compiling %s", name)
        self._count += 1


PROGRESS = CompileProgress()


@contextmanager
def _take_shortcuts(codegen: Any) -> Generator[None]:
    """Let ``codegen`` make pieces, and spare numba work that changes no result; its lock keeps other threads out.

    The text of a wrong shape in a slice assignment is numba's constant one, not the one that lists both shapes: that
    compiles the formatting of numbers, a twelfth of the time of a first ``marey ik``. numba's own functions inside a
    kernel get no wrappers, and one serves all kernels: flags of compilation are compared by what changes a piece.
    Nobody is told of every call of LLVM, and garbage is looked for less often.
    """
    shortcuts: tuple[tuple[Any, str, Any], ...] = (
        (codegen, "_library_class", PieceLibrary),
        (arrayobj, "raise_with_shape_context", _raise_mismatch),
        (BaseLower, "create_cfunc_wrapper", _skip_wrapper),
        (BaseLower, "create_cpython_wrapper", _wrap_entry),
        (TargetConfig, "__eq__", _make_equal_pieces),
        (TargetConfig, "__hash__", _hash_option_names),
        (cast(Any, llvm.ffi).lib._lock, "_cblist", []),
    )
    before = [getattr(owner, name) for owner, name, _ in shortcuts]
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(max(GARBAGE_OBJECTS, thresholds[0]), *thresholds[1:])
        for owner, name, value in shortcuts:
            setattr(owner, name, value)
        yield
    finally:
        for (owner, name, _), value in zip(shortcuts, before, strict=True):
            setattr(owner, name, value)
        gc.set_threshold(*thresholds)


def _raise_mismatch(source: Any, target: Any) -> None:
    """Stand for numba's error where the shapes of a slice and of its new value differ."""


def _compile_mismatch(source: Any, target: Any) -> Any:
    """Hand numba the code of :func:`_raise_mismatch`."""

    def raise_error(source: Any, target: Any) -> None:
        raise ValueError("cannot assign slice from input of different size")

    return raise_error


overload(_raise_mismatch)(_compile_mismatch)


def _skip_wrapper(_: Any) -> None:
    """Make no function for C to call."""


def _wrap_entry(lower: Any, release_gil: bool = False) -> None:
    """Make the function for Python to call, of entries alone."""
    if not isinstance(lower.library, PieceLibrary):
        CREATE_WRAPPER(lower, release_gil)


CREATE_WRAPPER: Any = cast(Any, BaseLower).create_cpython_wrapper
OF_WRAPPERS = frozenset({"no_cpython_wrapper", "no_cfunc_wrapper", "release_gil"})  # flags that change no piece


def _make_equal_pieces(self: Any, other: Any) -> Any:
    """Compare flags by the values that were set, or else by all values, as numba does; not those of wrappers."""
    if not isinstance(other, TargetConfig):
        return NotImplemented
    ours: dict[str, Any] = self._values
    theirs: dict[str, Any] = cast(Any, other)._values
    if {k: v for k, v in ours.items() if k not in OF_WRAPPERS} == {
        k: v for k, v in theirs.items() if k not in OF_WRAPPERS
    }:
        return True
    names: dict[str, Any] = self.options
    return all(getattr(self, name) == getattr(other, name) for name in names if name not in OF_WRAPPERS)


def _hash_option_names(self: Any) -> int:
    """What numba computes: the hash of the names, which all flags of a kind share."""
    kind: Any = self.__class__
    if kind not in NAME_HASHES:
        NAME_HASHES[kind] = hash(tuple(sorted(kind.options)))
    return NAME_HASHES[kind]


NAME_HASHES: dict[Any, int] = {}


def _register_types(register: Any, context: Any) -> None:
    """Tell numba what a kernel, or a function of its own, is where compiled code mentions it."""

    def type_kernel(value: kernels.Kernel, _purpose: Any) -> Any:
        return cast(Any, Dispatcher)(value.piece())

    def type_function(value: kernels.NumbaFunction, _purpose: Any) -> Any:
        return context.resolve_value_type(value.resolve())

    register(kernels.Kernel)(type_kernel)
    register(kernels.NumbaFunction)(type_function)


_register_types(cast(Any, typeof_impl).register, cast(Any, cpu_target).typing_context)
