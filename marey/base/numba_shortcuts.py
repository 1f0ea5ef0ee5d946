"""Shortcuts through numba and llvmlite while a kernel is compiled: less work, and the same machine code.

Each replaces a function of theirs by one that gives the same answer sooner, or leaves out what no kernel needs. They
are in place while an entry is compiled (:func:`take_shortcuts`) and put back afterwards, so that other users of numba
in the process meet numba as it is. Measured shares are in decision 0017.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import llvmlite.binding as llvm
from llvmlite.ir.instructions import ExtractValue, Instruction
from llvmlite.ir.types import VoidType
from llvmlite.ir.values import Block, NamedValue
from numba.core import errors, ir, lowering, transforms, typeinfer
from numba.core.lowering import BaseLower
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.runtime.context import NRTContext
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.types import Module
from numba.core.types.abstract import Type
from numba.core.types.functions import BaseFunction
from numba.core.typing.context import BaseContext
from numba.extending import overload
from numba.np import arrayobj


@contextmanager
def take_shortcuts(*more: tuple[Any, str, Any]) -> Generator[None]:
    """Exchange names of numba, and of ``more`` as (owner, name, value); numba's lock keeps other threads out.

    - The text of a wrong shape in a slice assignment is numba's constant one, not the one that lists both shapes: that
      compiles the formatting of numbers, a twelfth of the time of a first ``marey ik``.
    - numba's own functions inside a kernel get no wrappers, and one serves all kernels: flags of compilation are
      compared by what changes a piece.
    - What the types of a call, or of an attribute, are is worked out once in a process.
    - Which variables live is worked out where they are freed, not after each of nine passes.
    - Counts of references look at the parts of a record that have one, not at every number of every array.
    - Variables of a statement, instructions and questions about types take shorter ways.
    - Events of LLVM calls are not recorded, and garbage is collected after the entry is compiled.
    """
    shortcuts: tuple[tuple[Any, str, Any], ...] = (
        (arrayobj, "raise_with_shape_context", _raise_mismatch),
        (BaseLower, "create_cfunc_wrapper", _skip_wrapper),
        (TargetConfig, "__eq__", _make_equal_pieces),
        (TargetConfig, "__hash__", _hash_option_names),
        (BaseFunction, "get_call_type", _resolve_call),
        (BaseContext, "resolve_getattr", _resolve_attribute),
        (ir.Inst, "_rec_list_vars", _list_variables),
        (PostProcessor, "run", _process_later),
        (NRTContext, "get_meminfos", _find_counts),
        (lowering, "new_error_context", ErrorPlace),
        (typeinfer, "new_error_context", ErrorPlace),
        (type(Type), "__instancecheck__", type.__instancecheck__),
        (Instruction, "__init__", _begin_instruction),
        (ExtractValue, "__init__", _begin_extraction),
        (ExtractValue, "descr", _describe_extraction),
        (NamedValue, "_to_string", _write_value),
        (NamedValue, "_get_reference", _write_reference),
        (Block, "descr", _write_block),
        (cast(Any, llvm.ffi).lib._lock, "_cblist", []),
        *more,
    )
    before = [vars(owner).get(name, MISSING) for owner, name, _ in shortcuts]
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        for owner, name, value in shortcuts:
            setattr(owner, name, value)
        yield
    finally:
        for (owner, name, _), value in zip(shortcuts, before, strict=True):
            delattr(owner, name) if value is MISSING else setattr(owner, name, value)
        if is_collecting:
            gc.enable()


MISSING = object()


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


def _resolve_call(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """Signature of a call of one of numba's functions; numba tries all candidates at each call, and words why not.

    It follows from the function with its candidates, the types of the arguments and the flags of the caller.
    """
    flags: Any = cast(Any, ConfigStack).top_or_none()
    options = () if flags is None else tuple((k, repr(v)) for k, v in flags._values.items() if k not in OF_WRAPPERS)
    # The type stays in the value, so that its identity is not given to another
    key = id(self), id(context), args, tuple(kws.items()), options
    if key not in SIGNATURES:
        SIGNATURES[key] = self, GET_CALL_TYPE(self, context, args, kws)
    return SIGNATURES[key][1]


GET_CALL_TYPE: Any = cast(Any, BaseFunction).get_call_type
SIGNATURES: dict[Any, tuple[Any, Any]] = {}


def _resolve_attribute(self: Any, typ: Any, attr: str) -> Any:
    """Type of an attribute; what a module holds is asked for anew, since a global may have been given a new value."""
    if isinstance(typ, Module):
        return RESOLVE_GETATTR(self, typ, attr)
    key = id(self), typ, attr
    if key not in ATTRIBUTES:
        ATTRIBUTES[key] = RESOLVE_GETATTR(self, typ, attr)
    return ATTRIBUTES[key]


RESOLVE_GETATTR: Any = cast(Any, BaseContext).resolve_getattr
ATTRIBUTES: dict[Any, Any] = {}


def _list_variables(self: Any, val: Any) -> list[Any]:
    """List the variables in a part of a statement, in numba's order; the common kinds first."""
    kind: type[Any] = val.__class__
    if kind is ir.Var:
        return [val]
    if kind is dict:
        val = val.values()
    elif kind is not list and kind is not tuple:
        return LIST_VARIABLES(self, val)
    found: list[Any] = []
    for part in val:
        kind = part.__class__
        if kind is ir.Var:
            found.append(part)
        elif kind not in PLAIN:
            found += self._rec_list_vars(part)
    return found


LIST_VARIABLES: Any = cast(Any, ir.Inst)._rec_list_vars
PLAIN = frozenset({ir.Loc, ir.Const, ir.Global, ir.FreeVar, ir.Arg, str, int, bool, type(None)})  # hold no variable


def _process_later(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Order the blocks; numba also lists the variables at the start of each, which only generators read."""
    code: Any = self.func_ir
    if code.is_generator:
        POST_PROCESS(self, emit_dels, extend_lifetimes)
        return
    code.blocks = cast(Any, transforms).canonicalize_cfg(code.blocks)
    code.variable_lifetime = cast(Any, VariableLifetime)(code.blocks)
    code.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


POST_PROCESS: Any = cast(Any, PostProcessor).run


def _find_counts(self: Any, builder: Any, ty: Any, val: Any) -> list[tuple[Any, Any]]:
    """List (type, counter) of every array inside a value; numba takes all parts of the value out to look for them."""
    models: Any = self._context.data_model_manager
    model = models[ty]
    found: list[tuple[Any, Any]] = []
    if model.has_nrt_meminfo():
        found.append((ty, model.get_nrt_meminfo(builder, val)))
    parts = model.traverse(builder)
    if ty not in COUNTED_PARTS:
        COUNTED_PARTS[ty] = [i for i, (kind, _) in enumerate(parts) if models[kind].contains_nrt_meminfo()]
    for i in COUNTED_PARTS[ty]:
        kind, take_part = parts[i]
        found += _find_counts(self, builder, kind, take_part(val))
    return found


COUNTED_PARTS: dict[Any, list[int]] = {}


class ErrorPlace:
    """numba's context that adds a place to an error, without a generator for each statement."""

    __slots__ = ("arguments", "names", "text")

    def __init__(self, text: str, *arguments: Any, **names: Any) -> None:
        self.text, self.arguments, self.names = text, arguments, names

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Tell the error where it arose."""
        if isinstance(error, errors.NumbaError):
            cast(Any, error).add_context(self.text.format(*self.arguments, **self.names))


def _begin_instruction(
    self: Any, parent: Any, typ: Any, opname: str, operands: Any, name: str = "", flags: Any = ()
) -> None:
    """Set what three constructors of llvmlite set."""
    self.parent, self.type = parent, typ
    self._name = parent.scope.register(name, deduplicate=True)
    self.opname, self.operands, self.flags, self.metadata = opname, operands, list(flags), {}


def _begin_extraction(self: Any, parent: Any, agg: Any, indices: Any, name: str = "") -> None:
    """Set what four constructors of llvmlite set; every second instruction takes a part of a record or an array."""
    typ = agg.type
    for i in indices:
        typ = typ.elements[i]
    self.parent, self.type = parent, typ
    self._name = parent.scope.register(name, deduplicate=True)
    self.opname, self.operands, self.flags, self.metadata = "extractvalue", [agg], [], {}
    self.aggregate, self.indices = agg, indices


def _describe_extraction(self: Any, buf: list[str]) -> None:
    """Write the instruction as text."""
    indices = str(self.indices[0]) if len(self.indices) == 1 else ", ".join([str(i) for i in self.indices])
    metadata = self._stringify_metadata(leading_comma=True) if self.metadata else ""
    buf.append(f"extractvalue {self.aggregate.type} {self.aggregate.get_reference()}, {indices} {metadata}\n")


def _write_value(self: Any) -> str:
    """Text of an instruction; llvmlite would also cache it, though it is read once."""
    parts: list[str] = []
    self.descr(parts)
    text = "".join(parts).rstrip()
    return text if self.type.__class__ is VoidType else f"{self.get_reference()} = {text}"


def _write_reference(self: Any) -> str:
    """Name of a value in the text of others."""
    name: str = self._name
    if "\\" in name or '"' in name:
        name = name.replace("\\", "\\5c").replace('"', "\\22")
    return f'{self.name_prefix}"{name}"'


def _write_block(self: Any, buf: list[str]) -> None:
    """Text of a block of instructions."""
    buf.append(f"{self._format_name()}:\n")
    buf += [f"  {one._to_string()}\n" for one in self.instructions]
