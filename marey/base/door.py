"""Argument checks of public functions, derived from their annotations.

A function runs first, so that its own checks take precedence and valid calls cost nothing. If it raises an error of
Python or NumPy, the first argument that contradicts its annotation is named in an :class:`InputError`; if there is
none, the original error propagates. Results computed from numbers that are not finite are withheld, and the number is
refused.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import wraps
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Literal, cast, get_args, get_origin

import numpy as np

from marey.base.errors import AccessError, ConvergenceError, InputError, MareyError

LARGEST: Final = 1e15  # in SI units; products of larger numbers with rates and counts overflow integers
SHOWN_CHARACTERS: Final = 60
SMALL_ARRAY: Final = 4096  # largest array that is inspected after each call
FEW_FRAMES: Final = 4  # shorter clips have no acceleration
SHOWN_ITEMS: Final = 1000  # items of a list that are inspected
TOO_LARGE: Final = ("Maximum allowed size exceeded", "array is too big", "Maximum allowed dimension exceeded")
ENDLESS: Final = ("limit", "budget", "max", "most", "until")  # parts of names of numbers that may be infinite
ARRAYS: Final = {"ArrayLike": "numbers", "FloatArray": "numbers", "IntArray": "whole numbers", "BoolArray": "flags"}
SCALARS: Final = {
    "float": "a finite number", "int": "a whole number", "bool": "True or False", "str": "a text", "bytes": "bytes",
    "None": "None",
}  # fmt: skip
INSPECTED: Final[Any] = (float, np.floating, list, tuple, np.ndarray)  # what may hold numbers that are not finite
Function = Callable[..., Any]


def guard_room(room: str) -> None:
    """Guard every public function of a room, and every public method of its classes."""
    module = sys.modules[room]
    for name in cast(Sequence[str], vars(module)["__all__"]):
        value = vars(module).get(name)
        # Names of other rooms are guarded there
        if not str(getattr(value, "__module__", "")).startswith(f"{room}."):
            continue
        if isinstance(value, FunctionType):
            guarded = guard_function(value)
            guarded.__module__ = room  # where pickle finds it
            setattr(module, name, guarded)
        elif isinstance(value, type) and not issubclass(value, (BaseException, Enum, tuple)):
            # Constructors and methods of a class
            kind = cast(Any, value)
            label, is_data = str(kind.__name__), hasattr(kind, "__dataclass_fields__")
            members = dict(cast("dict[str, Any]", vars(kind)))
            for title, member in members.items():
                # Constructors of settings and of classes with behaviour; plain data validate themselves
                if title.startswith("_") and not (title == "__init__" and (label.endswith("Settings") or not is_data)):
                    continue
                function: Any = getattr(member, "__func__", member)  # of class and static methods
                if isinstance(function, FunctionType) and not getattr(function, "__isabstractmethod__", False):
                    checked = guard_function(function)
                    setattr(kind, title, type(member)(checked) if function is not member else checked)


def guard_function(function: Function) -> Function:
    """Wrap a function so that misuse is reported in terms of its annotations, as the module describes."""

    @wraps(function)
    def call(*values: Any, **options: Any) -> Any:
        try:
            result = function(*values, **options)
        except MareyError:
            raise
        except OSError as error:
            if error.filename is None or not error.strerror:
                raise
            raise AccessError(str(error.filename), error.strerror) from error
        except Exception as error:
            _refuse_misfit(function, values, options, error)
            _refuse_shapes(function, values, options, error)
            if isinstance(error, MemoryError) or any(words in str(error) for words in TOO_LARGE):
                raise InputError(f"{function.__name__} needs too much memory: {error}", "Reduce the sizes") from error
            if isinstance(error, OverflowError):
                what = f"{function.__name__}: a number is too large ({error})"
                raise InputError(what, f"Give at most {LARGEST:g}") from error
            if isinstance(error, np.linalg.LinAlgError):
                what = f"{function.__name__}: {error}. Check the units, rates and sizes of its arguments"
                raise ConvergenceError(what) from error
            raise
        for value in (*values, *options.values()) if options else values:
            if not isinstance(value, INSPECTED):
                continue
            if isinstance(value, float) and value - value != 0.0:  # of NaN and infinities
                _refuse_misfit(function, values, options)
            if _is_odd(value) and _has_nan(result):
                what = f"{function.__name__} has no finite result: an argument is not finite or out of range"
                raise InputError(what, "Fill gaps and remove unknown values")
        return result

    return call


def _refuse_misfit(
    function: Function, values: tuple[Any, ...], options: Mapping[str, Any], error: Exception | None = None
) -> None:
    """Raise an error that names the first argument that contradicts its annotation, if there is one."""
    try:
        bound = inspect.signature(function).bind(*values, **options)
    except TypeError:
        return  # too many, too few or misnamed arguments: the message of Python is clear
    spaces = inspect.unwrap(function).__globals__
    for name, parameter in inspect.signature(function).parameters.items():
        annotation: Any = parameter.annotation
        if (
            name not in bound.arguments
            or annotation is inspect.Parameter.empty
            or parameter.kind.name.startswith("VAR")
        ):
            continue
        try:
            tree = ast.parse(annotation if isinstance(annotation, str) else str(annotation), mode="eval").body
        except SyntaxError:
            continue
        value = bound.arguments[name]
        if error is None and (not isinstance(value, float) or "Array" in str(annotation)):
            continue
        is_number = "float" in str(annotation)
        if is_number and isinstance(value, float) and value == math.inf and any(part in name for part in ENDLESS):
            continue
        if isinstance(error, ZeroDivisionError) and isinstance(value, Real) and value == 0:
            raise InputError(f"{function.__name__}: {name} is {value}", "Give a number that is not zero") from error
        wanted = list[str]()
        if not _fits(value, tree, spaces, wanted):
            asked = " or ".join(dict.fromkeys(wanted)) or "a value as documented"
            raise InputError(f"{function.__name__}: {name} is {_show(value)}", f"Give {asked}") from error


def _refuse_shapes(function: Function, values: tuple[Any, ...], options: Mapping[str, Any], error: Exception) -> None:
    """Raise an error that names the shapes of the arguments if NumPy or a kernel rejected them.

    Annotations declare arrays but not their lengths.
    """
    if not isinstance(error, (ValueError, IndexError, TypeError)) and type(error).__name__ != "TypingError":
        return
    given = inspect.signature(function).bind(*values, **options).arguments
    annotations = {name: str(p.annotation) for name, p in inspect.signature(function).parameters.items()}
    # A role map that refers to joints which the skeleton does not have
    joints = [getattr(getattr(v, "skeleton", v), "num_joints", math.inf) for v in given.values()]
    maps = [
        cast("Mapping[str, int]", m) for v in given.values() if isinstance(m := getattr(v, "joints", None), Mapping)
    ]
    if any(joint >= min(joints) for roles in maps for joint in roles.values()):
        what = f"{function.__name__}: the role map belongs to another skeleton"
        raise InputError(what, "Build it with role_map(skeleton)") from error
    arrays = dict[str, object]()
    for name, value in given.items():
        if value is not None and any(kind in annotations.get(name, "") for kind in (*ARRAYS, "Sequence[float]")):
            arrays[name] = "with rows of different lengths"
            with suppress(TypeError, ValueError):
                arrays[name] = np.asarray(value).shape
        elif isinstance(getattr(value, "shape", None), tuple):  # a batch of rotations, a contact track
            arrays[name] = cast(Any, value).shape
        frames = getattr(value, "num_frames", 0)
        if isinstance(frames, int) and 0 < frames < FEW_FRAMES:
            what = f"{function.__name__}: {name} has only {frames} frames"
            raise InputError(what, f"Give at least {FEW_FRAMES}") from error
    # Records of two different clips: their first tables differ in length
    records = dict[str, tuple[int, ...]]()
    for name, value in given.items():
        is_of_body = hasattr(value, "num_joints") or hasattr(value, "skeleton")  # a row for each joint
        if is_of_body and not hasattr(value, "num_frames"):
            continue
        parts = (getattr(value, part, None) for part in getattr(value, "__dataclass_fields__", ()))
        tables = [cast("np.ndarray[Any, Any]", part) for part in parts if isinstance(part, np.ndarray)]
        first = next((table for table in tables if table.ndim > 1), None)
        if first is not None:
            records[name] = first.shape
    if len({shape[0] for shape in records.values()}) > 1:
        arrays = records | arrays
    if arrays:
        shapes = ", ".join(f"{name} {shape}" for name, shape in arrays.items())
        said = " ".join(str(error).split())[:120]
        fix = "See the shapes in its documentation"
        raise InputError(f"{function.__name__}: arrays do not fit together: {shapes} ({said})", fix) from error


def _is_odd(value: Any) -> bool:
    """Return whether a number, an item of a list or a value of a small array is not finite or very large."""
    if isinstance(value, (float, np.floating)):
        return not abs(cast(float, value)) <= LARGEST
    if isinstance(value, np.ndarray):
        given = cast("np.ndarray[Any, Any]", value)
        return given.dtype.kind == "f" and 0 < given.size <= SMALL_ARRAY and not bool(np.abs(given).max() <= LARGEST)
    # A loop: a generator takes three times as long for short lists of objects
    for v in value[:SHOWN_ITEMS]:  # noqa: SIM110
        if isinstance(v, (float, np.floating, list, tuple)) and _is_odd(v):
            return True
    return False


def _has_nan(result: Any, depth: int = 3) -> bool:
    """Return whether a result or one of its fields contains NaN."""
    if isinstance(result, float):
        return result != result
    if isinstance(result, np.ndarray):
        found = cast("np.ndarray[Any, Any]", result)
        return found.dtype.kind == "f" and bool(np.isnan(found).any())
    names = cast("Iterable[str]", getattr(result, "__dataclass_fields__", ()))
    parts: Iterable[Any] = [getattr(result, name, None) for name in names]
    if isinstance(result, (list, tuple, Mapping)):
        parts = cast("Any", result).values() if isinstance(result, Mapping) else cast("Any", result)
    return depth > 0 and any(_has_nan(part, depth - 1) for part in parts)


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        given = cast("np.ndarray[Any, Any]", value)
        return f"an array of shape {given.shape} and type {given.dtype}"
    try:
        text = repr(value)
    except Exception:  # an object without a working repr
        text = ""
    if 0 < len(text) <= SHOWN_CHARACTERS:
        return text
    name = type(value).__name__
    kind = f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
    return f"{text[: SHOWN_CHARACTERS - 3]}..." if isinstance(value, str) else kind


def _fits(value: Any, tree: ast.expr, spaces: Mapping[str, Any], wanted: list[str]) -> bool:
    """Return whether a value agrees with an annotation; descriptions of the annotation are appended to ``wanted``."""
    if isinstance(tree, ast.BinOp):  # A | B
        sides = [_fits(value, side, spaces, wanted) for side in (tree.left, tree.right)]  # both append to `wanted`
        return any(sides)
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):  # a name in quotes
        return _fits(value, ast.parse(tree.value, mode="eval").body, spaces, wanted)
    if isinstance(tree, ast.Subscript):
        return _fits_generic(value, tree, spaces, wanted)
    name = ast.unparse(tree)
    if name in ARRAYS:
        wanted.append(f"an array of {ARRAYS[name]}")
        # Finite numbers, or values that convert to an array of them
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, OverflowError):
            return False
        is_finite = array.dtype.kind in "fiub" and array.size > 0 and bool(np.isfinite(array).all())
        return is_finite and (name == "ArrayLike" or isinstance(value, np.ndarray))
    if name in SCALARS:
        wanted.append(SCALARS[name])
        if name == "float":
            return isinstance(value, Real) and math.isfinite(value) and abs(float(value)) <= LARGEST
        if name == "int":
            return isinstance(value, Integral) and abs(int(value)) <= LARGEST
        if name == "str":
            return isinstance(value, str) and "\0" not in value  # not allowed in paths and names
        kinds: dict[str, Any] = {"bool": (bool, np.bool_), "bytes": bytes, "None": type(None)}
        return isinstance(value, kinds[name])
    known = _resolve(name, spaces)
    if isinstance(known, type) and known is not object:
        wanted.append(f"a {known.__name__}" if known not in (Path,) else "a path")
        try:
            return isinstance(value, known)
        except TypeError:  # a protocol: compare the members
            members = {*vars(known), *vars(known).get("__annotations__", {})}
            return all(hasattr(value, member) for member in members if not member.startswith("_"))
    if known is not None and get_origin(known) is not None:  # an alias such as AnyPath = str | PathLike
        arguments = get_args(known)
        if get_origin(known) is Literal:
            wanted.append(f"one of {', '.join(map(str, arguments))}")
            return any(type(value) is type(choice) and value == choice for choice in arguments)
        try:
            parsed = ast.parse(str(known), mode="eval").body
        except SyntaxError:
            return True
        return _fits(value, parsed, spaces, wanted)
    return True


def _fits_generic(value: Any, tree: ast.Subscript, spaces: Mapping[str, Any], wanted: list[str]) -> bool:
    """Implement :func:`_fits` for an annotation with type arguments."""
    name = ast.unparse(tree.value).rpartition(".")[2]
    inner = list(tree.slice.elts) if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    if name == "Literal":
        choices = [ast.literal_eval(choice) for choice in inner]
        wanted.append(f"one of {', '.join(map(str, choices))}")
        return any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices)
    if name in ("Sequence", "list", "tuple", "Iterable", "frozenset", "set"):
        wanted.append(f"a list of {ast.unparse(inner[0]).rpartition('.')[2]}")
        items = cast(Sequence[Any], value)
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            return False
        if name in ("frozenset", "set") and not isinstance(value, (frozenset, set)):
            return False
        if isinstance(value, np.ndarray) and cast("np.ndarray[Any, Any]", value).ndim == 0:
            return False
        if name in ("Sequence", "tuple") and not hasattr(items, "__len__"):
            return False
        fixed = name == "tuple" and not (len(inner) == 2 and ast.unparse(inner[1]) == "...")
        if fixed and len(items) != len(inner):
            return False
        if not isinstance(items, (list, tuple, np.ndarray, set, frozenset)):
            return True  # inspecting an iterator would consume it
        kinds = inner if fixed else [inner[0]] * len(items)
        return all(_fits(item, kind, spaces, []) for item, kind in zip(list(items)[:SHOWN_ITEMS], kinds, strict=False))
    if name in ("Mapping", "dict"):
        wanted.append("a table of names and values")
        return isinstance(value, Mapping)
    if name == "Callable":
        wanted.append("a function")
        return callable(value)
    if name in ("NDArray", "ndarray"):
        wanted.append("an array")
        return isinstance(value, np.ndarray)
    if name == "PathLike":
        wanted.append("a path")
        return isinstance(value, os.PathLike)
    return True


def _resolve(name: str, spaces: Mapping[str, Any]) -> Any:
    """Resolve a name of an annotation in the module of the function, among built-ins, or in a room."""
    first, *rest = name.split(".")
    found = spaces.get(first, getattr(builtins, first, None))
    if found is None and rest:
        found = sys.modules.get(first)
    if found is None and not rest:
        # Names imported for the type checker only are looked up in the rooms that are loaded
        rooms = [
            module for key, module in tuple(sys.modules.items()) if key.startswith("marey.") and key.count(".") == 1
        ]
        return next((vars(room)[first] for room in rooms if isinstance(vars(room).get(first), type)), None)
    for part in rest:
        if found is not None and inspect.ismodule(found) and not hasattr(found, part):
            try:
                import_module(f"{found.__name__}.{part}")
            except ImportError:
                return None
        found = getattr(found, part, None)
    return found
