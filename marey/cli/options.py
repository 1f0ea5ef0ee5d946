"""Options of verbs: their values, the ones that verbs share, and groups of options as frozen types.

Values of options and names of outputs are checked while the command line is read, before any work.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

import typer

PLOT_SUFFIXES = (".png", ".pdf", ".svg", ".jpg")


# Values


def one_of(*known: str) -> Callable[[typer.CallbackParam, Any], Any]:
    """Callback of an option that takes one of these values, or of a repeatable one."""

    def check(param: typer.CallbackParam, value: Any) -> Any:
        given = cast(list[str | None], value if isinstance(value, list) else [value])
        for one in given:
            if one is None or one in known:
                continue
            from difflib import get_close_matches

            # A typing error is likelier than another idea
            nearest = get_close_matches(one, known, 1)
            hint = f" Did you mean '{nearest[0]}'?" if nearest else ""
            raise typer.BadParameter(f"there is no {param.name} '{one}'; it is one of {', '.join(known)}.{hint}")
        return cast(Any, value)

    return check


def writable(*suffixes: str) -> Callable[[Any], Any]:
    """Callback of an option that names a file to write with one of these suffixes."""

    def check(target: str | None) -> str | None:
        check_target(target, suffixes)
        return target

    return check


def check_target(target: str | None, suffixes: Sequence[str]) -> None:
    """Refuse a file that cannot be written, before time is spent on what goes into it."""
    if target is None:
        return
    # The suffix first: it names what is written, wherever it goes
    folder = Path(target).resolve().parent
    if Path(target).suffix.lower() not in suffixes:
        raise typer.BadParameter(f"cannot write '{target}': use one of {', '.join(suffixes)}.")
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder '{Path(target).parent}' to write {target} to.")
    if Path(target).is_dir() or not os.access(target if Path(target).exists() else folder, os.W_OK):
        raise typer.BadParameter(f"cannot write '{target}': it is a folder, or you may not write there.")


def check_motion_file(target: str | None) -> str | None:
    """Callback of an option that names a motion file to write."""
    if target is not None:
        from marey.io import WRITABLE_SUFFIXES

        check_target(target, WRITABLE_SUFFIXES)
    return target


def check_picture_file(target: str | None) -> str | None:
    """Callback of an option that names a picture to write."""
    if target is not None:
        from marey.picture import PICTURE_SUFFIXES

        check_target(target, PICTURE_SUFFIXES)
    return target


@contextmanager
def usage_of(option: str) -> Generator[None]:
    """Blame an option for what its value cannot mean: an error of usage, not of the work."""
    from marey.base import InputError

    try:
        yield
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error


def check_up(axis: str | None) -> str | None:
    """Callback of an option that names a vertical axis."""
    from marey.io import parse_up

    if axis is not None:
        with usage_of("--up"):
            parse_up(axis)
    return axis


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text, one line for each input.")]
Csv = Annotated[
    str | None, typer.Option("--csv", metavar="FILE", help="Also write a table.", callback=writable(".csv"))
]
RateHz = Annotated[float | None, typer.Option("--read-rate-hz", help="Frame rate of the input, if the file is wrong.")]
Unit = Annotated[
    str | None, typer.Option("--unit", help="Length unit of the input (m, cm, inch, ..., file), if the guess is wrong.")
]
Up = Annotated[
    str | None,
    typer.Option(
        "--up",
        metavar="AXIS",
        help="Vertical axis of the input (x, y, z, -y), if the guess is wrong.",
        callback=check_up,
    ),
]
ClipName = Annotated[
    str | None,
    typer.Option("--clip", metavar="NAME", help="Clip of a file that holds several; a name, or a number from 0."),
]
Clip = Annotated[
    str, typer.Argument(metavar="CLIP", help="Motion file or shipped clip; - is stdin.", show_default=False)
]
Clips = Annotated[
    list[str],
    typer.Argument(metavar="CLIP...", help="Motion files, folders, shipped clips; - is stdin.", show_default=False),
]
MotionOut = Annotated[
    str | None,
    typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, .gltf, ...", callback=check_motion_file),
]
FORMATS = ("bvh", "glb", "gltf", "safetensors", "fbx", "usda", "npz", "csv", "trc")
Format = Annotated[str, typer.Option(help=f"Of files in a folder: {', '.join(FORMATS)}.", callback=one_of(*FORMATS))]
OutOrFolder = Annotated[
    str, typer.Option("-o", "--out", help="File to write; for several, a folder.", show_default=False)
]
Strip = Annotated[
    str | None, typer.Option("--strip", metavar="PNG", help="Film strip to draw.", callback=check_picture_file)
]
Count = Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")]
RequireValid = Annotated[
    bool, typer.Option("--require-valid", help="Exit with 1 where physics does not hold for the motion.")
]


# Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read a motion where its file, or the guess of the reader, is wrong."""

    read_rate_hz: RateHz = None
    unit: Unit = None
    up: Up = None
    take: ClipName = None


def flat_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Decorate a verb whose parameters may be groups of options: the command gets the fields in their place."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    hints = get_type_hints(verb, include_extras=True)
    for own in inspect.signature(verb).parameters.values():
        kind = hints[own.name]
        if not is_dataclass(kind):
            parameters.append(own.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[own.name] = kind
        inner = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=inner[one.name])
            for one in fields(kind)
        ]

    @wraps(verb)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
        verb(**given)

    # Typer reads signature and annotations of what it is given, not of what that wraps
    del run.__wrapped__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    return run
