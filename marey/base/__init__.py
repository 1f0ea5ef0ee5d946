"""Ground floor: errors, read-only arrays, the kernel decorator, records from TOML, files of named arrays."""

from marey.base.arrays import EPS, BoolArray, FloatArray, IntArray, frozen, frozen_bools, frozen_ints
from marey.base.deprecation import deprecated_names
from marey.base.errors import (
    ConvergenceError,
    FormatError,
    InputError,
    MareyError,
    MareyWarning,
    MissingExtraError,
    MissingFileError,
    UnknownNameError,
)
from marey.base.files import TensorFormat, Tensors, cache_folder
from marey.base.kernels import inline_kernel, kernel, numba_function
from marey.base.toml import (
    TomlLocation,
    as_number,
    as_numbers,
    as_table,
    as_text,
    check_keys,
    format_toml_keys,
    format_toml_value,
    parse_toml,
    read_record,
    read_records,
    read_tables,
    read_toml_text,
)

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
    "TensorFormat",
    "Tensors",
    "TomlLocation",
    "UnknownNameError",
    "as_number",
    "as_numbers",
    "as_table",
    "as_text",
    "cache_folder",
    "check_keys",
    "format_toml_keys",
    "format_toml_value",
    "frozen",
    "frozen_bools",
    "frozen_ints",
    "inline_kernel",
    "kernel",
    "numba_function",
    "parse_toml",
    "read_record",
    "read_records",
    "read_tables",
    "read_toml_text",
]

__getattr__ = deprecated_names(
    __name__,
    {
        "TablePlace": "TomlLocation",
        "known_keys": "check_keys",
        "list_of_tables": "read_tables",
        "record_of": "read_record",
        "records_of": "read_records",
        "toml_keys": "format_toml_keys",
        "toml_literal": "format_toml_value",
    },
)
