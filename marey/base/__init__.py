"""Ground floor: errors, read-only arrays, the kernel decorator, records from TOML, files of named arrays."""

from marey.base._arrays import EPS, BoolArray, FloatArray, IntArray, frozen, frozen_bools, frozen_ints
from marey.base._cache_folder import cache_folder
from marey.base._errors import (
    ConvergenceError,
    FormatError,
    InputError,
    MareyError,
    MareyWarning,
    MissingExtraError,
    MissingFileError,
    UnknownNameError,
)
from marey.base._kernels import inline_kernel, kernel, numba_function
from marey.base._tables import (
    TablePlace,
    as_number,
    as_numbers,
    as_table,
    as_text,
    known_keys,
    list_of_tables,
    parse_toml,
    read_toml_text,
    record_of,
    records_of,
    toml_keys,
    toml_literal,
)
from marey.base._tensors import TensorFormat, Tensors

__all__ = [
    "EPS",
    "BoolArray",
    "ConvergenceError",
    "FloatArray",
    "FormatError",
    "InputError",
    "IntArray",
    "MareyError",
    "MareyWarning",
    "MissingExtraError",
    "MissingFileError",
    "TablePlace",
    "TensorFormat",
    "Tensors",
    "UnknownNameError",
    "as_number",
    "as_numbers",
    "as_table",
    "as_text",
    "cache_folder",
    "frozen",
    "frozen_bools",
    "frozen_ints",
    "inline_kernel",
    "kernel",
    "known_keys",
    "list_of_tables",
    "numba_function",
    "parse_toml",
    "read_toml_text",
    "record_of",
    "records_of",
    "toml_keys",
    "toml_literal",
]
