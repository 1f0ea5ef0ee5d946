"""Shortcuts through numba and llvmlite while a kernel is compiled: less work, and the same machine code.

Each replaces a function of theirs by one that gives the same answer sooner, or leaves out what no kernel needs. They
are in place while an entry is compiled (:func:`take_shortcuts`) and put back afterwards, so that other users of numba
in the process meet numba as it is. Measured shares are in decision 0017.

What numba does with a kernel, in its words: *byte code* becomes an intermediate code of statements (``ir.Assign``,
``ir.Del``) over variables (``ir.Var``). *Type inference* gives each variable a type; a ``Dispatcher`` is the type of a
kernel, a ``BaseFunction`` that of a function of numpy. *Lowering* (``Lower``) writes LLVM instructions for each
statement by llvmlite's ``IRBuilder``, as Python objects that are then printed as text, which LLVM parses and optimises.
A *data model* says how a type is held: in registers (value), in memory (data), between functions (argument, return).
Arrays have *counts of references* (``NRT``, incref and decref), which lowering adds around each use.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import llvmlite.binding as llvm
from llvmlite.ir import Constant, IRBuilder, PointerType
from llvmlite.ir.instructions import ExtractValue, InsertValue, Instruction, StoreInstr
from llvmlite.ir.types import VoidType
from llvmlite.ir.values import Block, NamedValue
from numba.core import callconv, cgutils, dispatcher, errors, ir, lowering, transforms, typeinfer
from numba.core.datamodel.models import StructModel, TupleModel, UniTupleModel
from numba.core.lowering import BaseLower, Lower
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.runtime.context import NRTContext
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.types import (
    Array,
    BaseNamedTuple,
    BaseTuple,
    Integer,
    IntegerLiteral,
    Module,
    NamedTupleClass,
    SliceType,
)
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
    - A piece is compiled for whole numbers, not also for the zero that a variable begins with.
    - What the types of a call, or of an attribute, are is worked out once in a process.
    - Which variables live is worked out where they are freed, not after each of nine passes.
    - Counts of references look at the parts of a record that have one, not at every number of every array.
    - What is read from an argument, or for a moment from a variable, is counted there: see :func:`_find_borrowed`.
    - Kernels hand records with arrays over by their place in memory, not number by number; the text of a call does not
      grow with what it carries. What a record holds in memory is what it holds in registers, and is not rebuilt.
    - A call asks how it ended by one question, and has no places on the stack that are filled with zeros first.
    - A part of a record that was put together before is that part.
    - An element of an array is found from the numbers that it takes; numba puts the array on the stack, and reads all.
    - Variables of a statement, instructions and questions about types take shorter ways.
    - Events of LLVM calls are not recorded, and garbage is collected after the entry is compiled.
    """
    shortcuts: tuple[tuple[Any, str, Any], ...] = (
        (arrayobj, "raise_with_shape_context", _raise_mismatch),
        (BaseLower, "create_cfunc_wrapper", _skip_wrapper),
        (TargetConfig, "__eq__", _make_equal_pieces),
        (TargetConfig, "__hash__", _hash_option_names),
        (BaseFunction, "get_call_type", _resolve_call),
        (dispatcher.Dispatcher, "get_call_template", _resolve_piece),
        (BaseContext, "resolve_getattr", _resolve_attribute),
        (ir.Inst, "_rec_list_vars", _list_variables),
        (PostProcessor, "run", _process_later),
        (NRTContext, "get_meminfos", _find_counts),
        (NRTContext, "_call_incref_decref", _count_references),
        (Lower, "_find_singly_assigned_variable", _find_borrowed),
        (Lower, "lower_assign", _assign),
        (Lower, "storevar", _store_variable),
        (Lower, "delvar", _delete_variable),
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
        *((model, name, way) for model in (TupleModel, UniTupleModel) for name, way in RECORD_WAYS.items()),
        *((StructModel, name, _keep_plain(name)) for name in ("as_data", "from_data", "as_return", "from_return")),
        *((UniTupleModel, name, _keep_plain(name, UniTupleModel)) for name in ("as_data", "from_data")),
        (callconv.CPUCallConv, "call_function", _call_function),
        (IRBuilder, "extract_value", _extract_value),
        (arrayobj, "make_array", _make_array),
        (arrayobj, "basic_indexing", _index_elements),
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


def _resolve_piece(self: Any, args: Any, kws: Any) -> Any:
    """Types of a call of a piece; a constant counts as its kind of number."""
    kinds = tuple(arg.literal_type if isinstance(arg, IntegerLiteral) else arg for arg in args)
    return GET_CALL_TEMPLATE(self, kinds, kws)


GET_CALL_TEMPLATE: Any = cast(Any, dispatcher).Dispatcher.get_call_template


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


def _find_borrowed(self: Any) -> None:
    """Find the variables that need no counts of references, since what they hold lives longer elsewhere.

    The caller keeps arguments alive, with all that is read from them: parts of records, rows of arrays, records made of
    these. What is read from a variable of this function is kept by that one until it is deleted or assigned anew. numba
    counts each reading; pairing and removing the counts again took a third of the optimisation of large kernels.
    """
    FIND_SINGLY_ASSIGNED(self)
    self.borrowed = set[str]()
    if self.func_ir.is_generator:
        return
    assignments = dict[str, list[Any]]()
    for block in self.blocks.values():
        for one in block.find_insts(ir.Assign):
            assignments.setdefault(one.target.name, []).append(one)
    # All that comes from arguments alone: take away what does not, until nothing changes
    sources = {name: [_list_sources(self, one) for one in ones] for name, ones in assignments.items()}
    found = {name for name, lists in sources.items() if _has_counts(self, name) and None not in lists}
    size = -1
    while size != len(found):
        size = len(found)
        for name in list(found):
            parts = [part for names in sources[name] for part in names or ()]
            if not all(part in found or not _has_counts(self, part) for part in parts):
                found.discard(name)
    # What is read from a variable and deleted, in the same block, before that one changes
    for block in self.blocks.values():
        owners = dict[str, set[str]]()
        for at, one in enumerate(block.body):
            if not isinstance(one, ir.Assign) or (name := one.target.name) in found or not _has_counts(self, name):
                continue
            names = sources[name][0] if len(assignments[name]) == 1 else None
            if not names:
                continue
            kept = [part for part in names if part not in found and _has_counts(self, part)]
            roots = set[str]().union(*(owners.get(part, {part}) for part in kept))
            for later in block.body[at + 1 :]:
                if not isinstance(later, ir.Del | ir.Assign):
                    continue
                changed = later.value if isinstance(later, ir.Del) else later.target.name
                if changed == name:
                    owners[name] = roots
                if changed == name or changed in roots:
                    break
        self.borrowed |= owners.keys()
    self.borrowed |= found


FIND_SINGLY_ASSIGNED: Any = cast(Any, Lower)._find_singly_assigned_variable


def _has_counts(self: Any, name: str) -> bool:
    """Tell if the value of a variable has counts of references."""
    kind = self.typeof(name)
    if kind not in COUNTED_TYPES:
        COUNTED_TYPES[kind] = self.context.data_model_manager[kind].contains_nrt_meminfo()
    return COUNTED_TYPES[kind]


COUNTED_TYPES: dict[Any, bool] = {}


def _list_sources(self: Any, assign: Any) -> list[str] | None:
    """Variables that own what an assignment reads, or None if it makes something new."""
    value, kind = assign.value, self.typeof(assign.target.name)
    if _is_a(value, ir.Arg):
        return [] if self.typeof(f"arg.{value.name}") == kind else None
    if _is_a(value, ir.Var):
        names, parts = [value.name], [kind]
    elif not _is_a(value, ir.Expr):
        return None
    elif (op := value.op) == "build_tuple":
        names, parts = [item.name for item in value.items], list(kind)
    elif op == "call":
        is_record = _is_a(self.typeof(value.func.name), NamedTupleClass) and not value.kws and not value.vararg
        names, parts = [item.name for item in value.args], list(kind) if is_record else [None]
    else:
        base = self.typeof(value.value.name) if op in READINGS else None
        if _is_a(base, Array) and "getitem" in op and _is_a(kind, Array):
            index = value.index_var if op == "static_getitem" else value.index
            place: Any = None if index is None else self.typeof(index.name)
            kinds: list[Any] = list(place) if _is_a(place, BaseTuple) else [place]
            is_view = all(_is_a(one, Integer | SliceType) for one in kinds)
        else:
            is_view = _is_a(base, BaseNamedTuple if op == "getattr" else BaseTuple) and op != "getitem"
        return [value.value.name] if is_view else None
    return names if [self.typeof(name) for name in names] == parts else None


def _is_a(value: Any, kind: Any) -> bool:
    """``isinstance`` that leaves numba's classes, which declare no types, unknown to the type checker."""
    return isinstance(value, kind)


READINGS = frozenset({"getattr", "getitem", "static_getitem", "exhaust_iter"})


def _assign(self: Any, ty: Any, inst: Any) -> Any:
    """Work out the value of an assignment; that of a variable that borrows is not counted."""
    if inst.target.name not in self.borrowed:
        return LOWER_ASSIGN(self, ty, inst)
    UNCOUNTED.append(self.builder)
    try:
        return LOWER_ASSIGN(self, ty, inst)
    finally:
        UNCOUNTED.pop()


LOWER_ASSIGN: Any = cast(Any, Lower).lower_assign
UNCOUNTED: list[Any] = []  # the builder of a value that is not counted; others count, also in functions on the way


def _count_references(self: Any, builder: Any, typ: Any, value: Any, function: str) -> None:
    """Add or remove counts, unless the value is a borrowed one."""
    if not UNCOUNTED or UNCOUNTED[-1] is not builder:
        CALL_COUNTS(self, builder, typ, value, function)


CALL_COUNTS: Any = cast(Any, NRTContext)._call_incref_decref


def _store_variable(self: Any, value: Any, name: str, argidx: Any = None) -> None:
    """Store a value; numba reads the old one first, to remove its counts."""
    if name not in self.borrowed and _has_counts(self, name):
        STORE_VARIABLE(self, value, name, argidx)
        return
    self._alloca_var(name, self.typeof(name))
    if name in self._singly_assigned_vars:
        self._blk_local_varmap[name] = value
    else:
        self.builder.store(value, self.getvar(name))


STORE_VARIABLE: Any = cast(Any, Lower).storevar


def _delete_variable(self: Any, name: str) -> None:
    """Delete a variable; numba overwrites it with zeros, so that counts are not removed twice."""
    if name not in self.borrowed and _has_counts(self, name):
        DELETE_VARIABLE(self, name)
        return
    if name not in self._blk_local_varmap:
        self._singly_assigned_vars.discard(name)
    self._alloca_var(name, self.typeof(name))


DELETE_VARIABLE: Any = cast(Any, Lower).delvar


def _carries_arrays(self: Any) -> bool:
    """Tell if a record holds arrays; records of numbers alone are vectors, and stay in registers."""
    return bool(COUNTED_PARTS_OF.setdefault(self, self.contains_nrt_meminfo()))


COUNTED_PARTS_OF: dict[Any, bool] = {}


def _find_argument_type(self: Any) -> Any:
    """A record with arrays is one pointer among the arguments of a function."""
    if not _carries_arrays(self):
        return FLAT_WAYS[type(self)]["get_argument_type"](self)
    return self.get_value_type().as_pointer()


def _hand_over(self: Any, builder: Any, value: Any) -> Any:
    """Put a record on the stack of the caller; after inlining nothing of it is left."""
    if not _carries_arrays(self):
        return FLAT_WAYS[type(self)]["as_argument"](self, builder, value)
    place = cast(Any, cgutils).alloca_once(builder, value.type)
    builder.store(value, place)
    return place


def _take_over(self: Any, builder: Any, value: Any) -> Any:
    """Read a record where the caller put it."""
    if not _carries_arrays(self):
        return FLAT_WAYS[type(self)]["from_argument"](self, builder, value)
    return builder.load(value)


RECORD_WAYS: dict[str, Any] = {
    "get_argument_type": _find_argument_type,
    "as_argument": _hand_over,
    "from_argument": _take_over,
}
FLAT_WAYS: dict[Any, dict[str, Any]] = {
    model: {name: getattr(model, name) for name in RECORD_WAYS} for model in (TupleModel, UniTupleModel)
}


def _keep_plain(name: str, model: Any = StructModel) -> Any:
    """Way of a record to memory, or back: itself, if memory holds what registers hold; truth values do not."""
    rebuild = getattr(model, name)

    def convert(self: Any, builder: Any, value: Any) -> Any:
        if self not in PLAIN_RECORDS:
            PLAIN_RECORDS[self] = self.get_value_type() == self.get_data_type()
        return value if PLAIN_RECORDS[self] else rebuild(self, builder, value)

    return convert


PLAIN_RECORDS: dict[Any, bool] = {}


def _call_function(
    self: Any, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any, attrs: Any = None
) -> tuple[Any, Any]:
    """Call a compiled function; return how it ended and its value."""
    result = self.get_return_type(resty).pointee
    # One place for errors serves all calls of a function
    if not hasattr(builder.function, "error_place"):
        with builder.goto_entry_block():
            builder.function.error_place = builder.alloca(PointerType(cast(Any, callconv).excinfo_t))
    with builder.goto_entry_block():
        place = builder.alloca(result)
    values = self._get_arg_packer(argtys).as_arguments(builder, args)
    code = builder.call(callee, [place, builder.function.error_place, *values], attrs=tuple(attrs or ()))
    status = CallStatus(builder, code, builder.function.error_place)
    return status, self.context.get_returned_value(builder, resty, builder.load(place))


class CallStatus:
    """How a call ended; each answer is worked out where it is asked for."""

    def __init__(self, builder: Any, code: Any, place: Any) -> None:
        self.code, self._builder, self._place = code, builder, place

    def __getattr__(self, name: str) -> Any:
        """Work out an answer."""
        builder, code, known = self._builder, self.code, cast(Any, callconv)
        if name == "excinfoptr":
            return builder.load(self._place)
        if name in ("is_ok", "is_error"):
            # Codes are 0 for a value, -2 for None, and others for errors
            norm = builder.icmp_signed("==", code, known.RETCODE_OK)
            is_ok = builder.or_(norm, builder.icmp_signed("==", code, known.RETCODE_NONE))
            return is_ok if name == "is_ok" else builder.not_(is_ok)
        if name == "is_user_exc":
            return builder.icmp_signed(">=", code, known.RETCODE_USEREXC)
        codes = {"is_none": "RETCODE_NONE", "is_python_exc": "RETCODE_EXC", "is_stop_iteration": "RETCODE_STOPIT"}
        if name not in codes:
            raise AttributeError(name)
        return builder.icmp_signed("==", code, getattr(known, codes[name]))


def _extract_value(self: Any, agg: Any, idx: Any, name: str = "") -> Any:
    """Take a part out of a record; if it was put there before, it is known."""
    indices: list[int] = list(idx) if _is_a(idx, tuple | list) else [idx]
    whole = agg
    while indices and _is_a(whole, InsertValue):
        if whole.indices[0] != indices[0]:
            whole = whole.aggregate
        elif len(whole.indices) == 1:
            whole, indices = whole.value, indices[1:]
        else:
            break
    if not indices:
        return whole
    taken = cast(Any, ExtractValue)(self.block, whole, indices, name=name)
    self._insert(taken)
    return taken


def _make_array(array_type: Any) -> Any:
    """Class of arrays of a type in the making of instructions; numba makes a class for each use."""
    if array_type not in ARRAY_CLASSES:
        usual = MAKE_ARRAY(array_type)
        ARRAY_CLASSES[array_type] = type("Light", (LightArray, usual), {}) if type(array_type) is Array else usual
    return ARRAY_CLASSES[array_type]


MAKE_ARRAY: Any = cast(Any, arrayobj).make_array
ARRAY_CLASSES: dict[Any, Any] = {}
SHAPE, STRIDES = 5, 6  # places in the record of an array


class LightArray:
    """An array whose parts are taken from its value; it is put on the stack when its place there is asked for."""

    def __init__(self: Any, context: Any, builder: Any, value: Any = None, ref: Any = None) -> None:
        self._context, self._builder = context, builder
        self._datamodel = context.data_model_manager[self._fe_type]
        self._be_type = self._datamodel.get_value_type()
        self._known, self._place = None, ref
        # Where the value was known first: there it would be stored
        self._block, self._last = builder.block, builder.block.instructions[-1] if builder.block.instructions else None
        if value is None and ref is None:
            self._place = cast(Any, cgutils).alloca_once(builder, self._be_type, zfill=True)
        elif ref is None:
            self._known = value
        elif value is not None:
            builder.store(value, ref)

    @property
    def _value(self: Any) -> Any:
        if self._place is None:
            self._place = cast(Any, cgutils).alloca_once(self._builder, self._be_type)
            at = 0 if self._last is None else self._block.instructions.index(self._last) + 1
            store = cast(Any, StoreInstr)(self._block, self._known, self._place)
            store.align = None
            self._block.instructions.insert(at, store)
            self._builder.position_at_end(self._builder.block)
        self._known = None
        return self._place

    @property
    def _outer_ref(self: Any) -> Any:
        return self._value

    @property
    def shape(self: Any) -> Any:
        """Sizes of the axes."""
        return self[SHAPE]

    def __getitem__(self: Any, index: int) -> Any:
        if self._known is not None:
            return self._builder.extract_value(self._known, index)
        return cast(Any, super()).__getitem__(index)

    def _getvalue(self: Any) -> Any:
        return self._known if self._known is not None else cast(Any, super())._getvalue()


def _index_elements(
    context: Any, builder: Any, aryty: Any, ary: Any, index_types: Any, indices: Any, boundscheck: Any = None
) -> Any:
    """Place of an element, or of a row, of an array in C order; with it what is left of shape and strides."""
    known = getattr(ary, "_known", None)
    is_plain = aryty.layout == "C" and known is not None and not boundscheck and len(indices) > 0
    if not is_plain or not all(isinstance(kind, Integer) for kind in index_types):
        return BASIC_INDEXING(context, builder, aryty, ary, index_types, indices, boundscheck)
    sizes = [builder.extract_value(known, (SHAPE, axis)) for axis in range(aryty.ndim)]
    place: Any = None
    for axis, size in enumerate(sizes):
        place = builder.mul(place, size) if axis > 0 else None
        if axis < len(indices):
            index: Any = indices[axis]
            if not _is_a(index, Constant) or index.constant < 0:
                index = cast(Any, arrayobj).fix_integer_index(context, builder, index_types[axis], index, size)
            place = index if place is None else builder.add(place, index)
    strides = [builder.extract_value(known, (STRIDES, axis)) for axis in range(len(indices), aryty.ndim)]
    return builder.gep(ary.data, [place]), sizes[len(indices) :], strides


BASIC_INDEXING: Any = cast(Any, arrayobj).basic_indexing
