"""Ground floor: errors, read-only arrays, lazy kernels, records from TOML, atomic files, jobs in processes."""

from marey.base.arrays import EPS, BoolArray, FloatArray, IntArray, frozen, frozen_bools, frozen_ints
from marey.base.errors import (
    ConvergenceError,
    FormatError,
    InputError,
    MareyError,
    MareyWarning,
    MissingExtraError,
    MissingFileError,
    UnknownNameError,
    deprecated_names,
)
from marey.base.files import TensorFormat, Tensors, atomic_file, cache_folder, write_atomically
from marey.base.jobs import DaskJobs, ask_workers, count_cores, run_in_pool, serve_requests
from marey.base.kernels import inline_kernel, kernel, numba_function
from marey.base.shipped import find_shipped_file, load_shipped_clip
from marey.base.tables import write_table
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
    "DaskJobs",
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
    "ask_workers",
    "atomic_file",
    "cache_folder",
    "check_keys",
    "count_cores",
    "deprecated_names",
    "find_shipped_file",
    "format_toml_keys",
    "format_toml_value",
    "frozen",
    "frozen_bools",
    "frozen_ints",
    "inline_kernel",
    "kernel",
    "load_shipped_clip",
    "numba_function",
    "parse_toml",
    "read_record",
    "read_records",
    "read_tables",
    "read_toml_text",
    "run_in_pool",
    "serve_requests",
    "write_atomically",
    "write_table",
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
