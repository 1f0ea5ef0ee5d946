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
LARGEST_NUMBER = 1e9  # of any quantity of a command, whatever its unit
LARGEST_COUNT = 2**62  # of counts and seeds


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


def parse_numbers(text: str, what: str, example: str) -> list[float]:
    """Read a list of numbers with commas between them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not a list of {what}: write {example}.") from None


@contextmanager
def usage_of(option: str) -> Generator[None]:
    """Blame an option for what its value cannot mean: an error of usage, not of the work."""
    from marey.base import InputError

    try:
        yield
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error


def check_number(param: typer.CallbackParam, value: Any) -> Any:
    """Callback of an option: a number, or each of several, is finite and not absurdly large."""
    given = cast(list[Any], value if isinstance(value, list) else [value])
    for one in given:
        most = LARGEST_COUNT if isinstance(one, int) else LARGEST_NUMBER
        if isinstance(one, int | float) and not abs(one) <= most:
            raise typer.BadParameter(f"{one} is no number to work with: give one between {-most:g} and {most:g}.")
    return cast(Any, value)


def check_up(axis: str | None) -> str | None:
    """Callback of an option that names a vertical axis."""
    from marey.io import parse_up

    if axis is not None:
        with usage_of("--up"):
            parse_up(axis)
    return axis


def option(
    help_: str,
    *names: str,
    choices: Sequence[str] = (),
    suffixes: Sequence[str] = (),
    callback: Any = None,
    **more: Any,
) -> Any:
    """Option of a verb: what it is for, its names, and what its value must be.

    Args:
        help_: one sentence.
        names: with dashes; that of the parameter without them.
        choices: the values that it takes.
        suffixes: of the file that it names, and that will be written.
        callback: another check of its value.
        more: what :func:`typer.Option` takes, such as ``min`` and ``metavar``.
    """
    check = one_of(*choices) if choices else writable(*suffixes) if suffixes else callback or check_number
    return typer.Option(*names, help=help_, callback=check, **more)


Json = Annotated[bool, option("Print JSON instead of text, one line for each input.", "--json")]
Csv = Annotated[str | None, option("Also write a table.", "--csv", metavar="FILE", suffixes=(".csv",))]
RateHz = Annotated[float | None, option("Frame rate of the input, if the file is wrong.", "--read-rate-hz")]
Unit = Annotated[
    str | None, option("Length unit of the input (m, cm, inch, ..., file), if the guess is wrong.", "--unit")
]
Up = Annotated[
    str | None,
    option(
        "Vertical axis of the input (x, y, z, -y), if the guess is wrong.", "--up", metavar="AXIS", callback=check_up
    ),
]
ClipName = Annotated[
    str | None, option("Clip of a file that holds several; a name, or a number from 0.", "--clip", metavar="NAME")
]
Clip = Annotated[
    str, typer.Argument(metavar="CLIP", help="Motion file or shipped clip; - is stdin.", show_default=False)
]
Clips = Annotated[
    list[str],
    typer.Argument(metavar="CLIP...", help="Motion files, folders, shipped clips; - is stdin.", show_default=False),
]
MotionOut = Annotated[
    str | None, option("Motion file to write: .bvh, .glb, .gltf, ...", "-o", "--out", callback=check_motion_file)
]
FORMATS = ("bvh", "glb", "gltf", "safetensors", "fbx", "usda", "npz", "csv", "trc")
Format = Annotated[str, option(f"Of files in a folder: {', '.join(FORMATS)}.", choices=FORMATS)]
OutOrFolder = Annotated[str, option("File to write; for several, a folder.", "-o", "--out", show_default=False)]
Strip = Annotated[str | None, option("Film strip to draw.", "--strip", metavar="PNG", callback=check_picture_file)]
Count = Annotated[int, option("Bodies on the strip.", min=1, max=200)]
RequireValid = Annotated[bool, option("Exit with 1 where physics does not hold for the motion.", "--require-valid")]


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
