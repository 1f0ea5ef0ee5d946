"""How numba compiles a kernel: every piece is typed and lowered once, and only the whole is optimised and translated.

numba by itself optimises each function with all that it calls and makes machine code of it, then does the same again
for its caller. Here the kernels below the one that Python calls (the *entry*) stay LLVM modules. They are linked into
the entry, whose optimisation sees them all; that takes a third of the time. Some shortcuts through numba, which leave
the machine code as it is, save a further fifth (:mod:`marey.base.numba_shortcuts`).
"""

from __future__ import annotations

import logging
import time
from functools import cache
from typing import Any, cast

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import create_new_function_pass_manager
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.lowering import BaseLower
from numba.core.registry import cpu_target
from numba.core.types import Dispatcher
from numba.extending import typeof_impl

from marey.base import kernels
from marey.base.kernel_cache import free_locks, kernel_folder
from marey.base.numba_shortcuts import take_shortcuts

LOG = logging.getLogger("marey")
EVERY_S = 10.0  # [s] between two messages on the progress
# Solvers, whose loops are over the three numbers of a vector and the joints of a chain: vector registers made inverse
# kinematics a tenth slower, and its machine code longer to make. Loops over clips and tables are small kernels.
LARGE_BYTES = 200_000
# Below it, optimisation costs little, and tight loops over clips and tables run many times faster for it
PLAIN_BYTES = 40_000
ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of the variable through which compiled code finds its Python constants


def simplify_functions(codegen: Any, module: Any) -> None:
    """Take variables from memory into registers, and fold what is then plain, in every function of a module.

    numba runs all passes of the highest level here, and again after linking. The second time suffices.
    """
    module.data_layout = codegen._data_layout
    builder = codegen._pass_builder(opt=1, loop_vectorize=False, slp_vectorize=False)
    for function in module.functions:
        if not function.is_declaration:
            passes: Any = create_new_function_pass_manager()
            passes.add_sroa_pass()
            passes.add_simplify_cfg_pass()
            passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
            passes.run(function, builder)


@cache
def _plain_machine(codegen: Any) -> Any:
    """The processor as the target of machine code that is translated instruction by instruction."""
    options: dict[str, Any] = {"opt": 0}
    codegen._customize_tm_options(options)
    return cast(Any, llvm).Target.from_triple(llvm.get_process_triple()).create_target_machine(**options)


class EntryLibrary(JITCodeLibrary):
    """Code that Python calls: linked with its pieces, then optimised and translated."""

    _plain_code: bytes | None = None  # machine code that was not optimised

    def _optimize_functions(self: Any, ll_module: Any) -> None:
        """Simplify each function; the whole is optimised later."""
        simplify_functions(self._codegen, ll_module)

    def _optimize_final_module(self: Any) -> None:
        """Optimise the whole; large kernels as numba does, but without loops over vector registers."""
        size, scalar = len(self._final_module.as_bitcode()), {"loop_vectorize": False, "slp_vectorize": False}
        if kernels.IS_PLAIN and size > PLAIN_BYTES:
            # Write inline pieces into their callers, and no more
            builder = self._codegen._pass_builder(opt=0, **scalar)
            builder.getModulePassManager().run(self._final_module, builder)
            self._plain_code = _plain_machine(self._codegen).emit_object(self._final_module)
            return
        if size < LARGE_BYTES:
            cast(Any, super())._optimize_final_module()
            return
        for options in ({"opt": self._codegen._opt_level, "cost": "cheap"}, {"opt": 2}):
            passes, builder = self._codegen._module_pass_manager(**options, **scalar)
            passes.run(self._final_module, builder)

    def _finalize_final_module(self: Any) -> None:
        """Make machine code that can be called; plain code is handed over as if it came from disk, and kept for it."""
        self._compiled_object = self._plain_code
        cast(Any, super())._finalize_final_module()
        self._compiled_object = self._plain_code or self._compiled_object


class PieceLibrary(JITCodeLibrary):
    """Code that is linked into an entry: neither optimised as a whole nor translated on its own."""

    def _optimize_functions(self: Any, ll_module: Any) -> None:
        """Simplify each function."""
        simplify_functions(self._codegen, ll_module)

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
        PROGRESS.announce(state.func_id, state.args)
        state.library = cast(Any, EntryLibrary)(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        try:
            codegen = state.targetctx.codegen()
            with take_shortcuts(
                (codegen, "_library_class", PieceLibrary), (BaseLower, "create_cpython_wrapper", _wrap_entry)
            ):
                return cast(Any, super())._compile_bytecode()
        except BaseException:
            free_locks()
            raise


class CompileProgress:
    """Tells the log that kernels are compiled: at once, then every ten seconds; the name of each at level DEBUG."""

    def __init__(self) -> None:
        self.compiled: list[tuple[str, str, tuple[Any, ...]]] = []  # module, name and types of arguments, in order
        self._began_s, self._said_s = 0.0, 0.0

    def announce(self, function: Any, types: tuple[Any, ...]) -> None:
        """Count a kernel that is not on disk yet, before it is compiled."""
        now = time.perf_counter()
        if not self.compiled:
            for begin in kernels.Kernel.on_first_compilation:
                begin()
            self._began_s = self._said_s = now
            is_kept = kernel_folder() is not None
            LOG.info("compiling for this processor%s", "; it is kept, and later runs start at once" if is_kept else "")
        elif now - self._said_s > EVERY_S:
            self._said_s = now
            LOG.info("compiled %d kernels in %.0f s", len(self.compiled), now - self._began_s)
        LOG.debug("compiling %s", function.func_name)
        self.compiled.append((function.modname, function.func_name, types))


PROGRESS = CompileProgress()


def _wrap_entry(lower: Any, release_gil: bool = False) -> None:
    """Make the function for Python to call, of entries alone."""
    if not isinstance(lower.library, PieceLibrary):
        CREATE_WRAPPER(lower, release_gil)


CREATE_WRAPPER: Any = cast(Any, BaseLower).create_cpython_wrapper


def _register_types(register: Any, context: Any) -> None:
    """Tell numba what a kernel, or a function of its own, is where compiled code mentions it."""

    def type_kernel(value: kernels.Kernel, _purpose: Any) -> Any:
        return cast(Any, Dispatcher)(value.piece())

    def type_function(value: kernels.NumbaFunction, _purpose: Any) -> Any:
        return context.resolve_value_type(value.resolve())

    register(kernels.Kernel)(type_kernel)
    register(kernels.NumbaFunction)(type_function)


_register_types(cast(Any, typeof_impl).register, cast(Any, cpu_target).typing_context)
