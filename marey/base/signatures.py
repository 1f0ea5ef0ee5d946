"""Types of a kernel's arguments as plain data, so that a kernel can be compiled before anything calls it.

A list of kernels and signatures is a JSON value: ``types`` holds every type once, parts before what they make up, and
each kernel names its module, itself and the numbers of its argument types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

import numpy as np
from numba.core import types
from numba.np.numpy_support import as_dtype, from_dtype

from marey.base.errors import InputError
from marey.base.kernels import Kernel

SCALARS: dict[str, Any] = {
    str(one): one
    for one in (types.boolean, types.int32, types.int64, types.uint64, types.float32, types.float64, types.none)
}


class TypeTable:
    """Types as rows of plain data, each once: a name, or a kind with its parts."""

    def __init__(self, rows: Sequence[Any] = ()) -> None:
        self.rows: list[Any] = list(rows)
        self._built: list[Any] = []

    def number(self, kind: Any) -> int:
        """Row of a type; it is added if it is new.

        Raises:
            InputError: a kind of type that no list can hold.
        """
        row = self._describe(kind)
        if row not in self.rows:
            self.rows.append(row)
        return self.rows.index(row)

    def _describe(self, kind: Any) -> Any:
        if str(kind) in SCALARS:
            return str(kind)
        if isinstance(kind, types.Array) and kind.aligned:
            dtype: Any = as_dtype(cast(Any, kind).dtype)
            return ["array", _describe_cells(dtype), kind.ndim, kind.layout, kind.mutable]
        if isinstance(kind, types.BaseNamedTuple):
            record: Any = cast(Any, kind).instance_class
            return ["record", record.__module__, record.__qualname__, [self.number(part) for part in cast(Any, kind)]]
        if isinstance(kind, types.BaseTuple):
            return ["tuple", [self.number(part) for part in cast(Any, kind)]]
        raise InputError(f"'{kind}' cannot stand in a list of signatures")

    def build(self, number: int) -> Any:
        """The type of a row; rows are built in order, so that parts are there first."""
        while len(self._built) <= number:
            row = self.rows[len(self._built)]
            if isinstance(row, str):
                made = SCALARS[row]
            elif row[0] == "array":
                made = types.Array(from_dtype(_build_cells(row[1])), row[2], row[3], readonly=not row[4])
            else:
                record = getattr(import_module(row[1]), row[2]) if row[0] == "record" else None
                made = cast(Any, types.BaseTuple).from_types([self._built[part] for part in row[-1]], record)
            self._built.append(made)
        return self._built[number]


def _describe_cells(dtype: Any) -> Any:
    """A plain type by its name; a row of named cells by the type, shape and offset of each, and the size of the row."""
    if dtype.names is None:
        return dtype.str
    cells = [(name, *dtype.fields[name][:2]) for name in dtype.names]
    rows = [[name, cell.base.str, list(cell.shape), offset] for name, cell, offset in cells]
    return [rows, dtype.itemsize, dtype.isalignedstruct]


def _build_cells(row: Any) -> Any:
    """The inverse of :func:`_describe_cells`."""
    if isinstance(row, str):
        return np.dtype(row)
    cells, itemsize, is_aligned = row
    names, kinds, shapes, offsets = zip(*cells, strict=True)
    formats = [(kind, tuple(shape)) for kind, shape in zip(kinds, shapes, strict=True)]
    whole = {"names": names, "formats": formats, "offsets": offsets, "itemsize": itemsize}
    return np.dtype(cast(Any, whole), align=is_aligned)


def compile_listed(listed: Mapping[str, Any], kernels: Sequence[Sequence[Any]]) -> list[str]:
    """Compile kernels of a list, or find them on disk; return what could not be compiled, and why.

    Args:
        listed: holds ``types``, the rows of a :class:`TypeTable`.
        kernels: module, name and numbers of argument types of each.
    """
    table, failed = TypeTable(listed["types"]), list[str]()
    for module, name, numbers in kernels:
        try:
            found = getattr(import_module(module), name)
            assert isinstance(found, Kernel)
            found.compile_signature(tuple(table.build(number) for number in numbers))
        except Exception as error:  # a list that is older than the code: the verb compiles what it needs by itself
            failed.append(f"{module}.{name}: {type(error).__name__} {str(error)[:200]}")
    return failed
