"""`marey walk`: a script becomes a motion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marey.cli.common import Json, check_target, check_targets, print_json, remark, write_motion, write_strip

if TYPE_CHECKING:
    pass


def walk(
    script: Annotated[
        str | None,
        typer.Argument(metavar="SCRIPT", help="Script file (TOML, or the thesis's XML), or the name of a shipped one."),
    ] = None,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, .gltf, ...")] = None,
    model: Annotated[str | None, typer.Option(metavar="FILE", help="Model made by `marey fit locomotion`.")] = None,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip to draw.")] = None,
    report: Annotated[str | None, typer.Option(metavar="JSON", help="Report file to write.")] = None,
    count: Annotated[int, typer.Option(min=1, max=200, help="Bodies on the strip.")] = 12,
    names: Annotated[bool, typer.Option("--list", help="List the shipped scripts.")] = False,
    json: Json = False,
) -> None:
    """Walk, run and jump as a script says.

    A script is a time line of actions, transitions and jumps. `marey walk --list` names those that are shipped.
    """
    if names:
        _list_scripts(is_json=json)
        return
    if script is None:
        raise typer.BadParameter("give a SCRIPT, or --list.")
    check_targets(out, strip)
    check_target(report, (".json",))
    from marey import samples
    from marey.locomotion import load_model, load_script, perform_script

    is_name = script in samples.script_names() and not Path(script).is_file()
    read = load_script(samples.script_file(script) if is_name or _is_name(script) else script)
    done = perform_script(read, load_model(model))
    for warning in done.warnings:
        remark(warning)
    write_motion(done.motion, out)
    write_strip(done.motion, strip, count)
    facts = {"script": script, "out": out, **done.report.to_json()}
    if report is not None:
        from json import dumps

        Path(report).write_text(dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
        remark(f"wrote {report}")
    if json:
        print_json(facts)
    else:
        typer.echo(done.report.sentence)


def _is_name(script: str) -> bool:
    """Whether the text looks like a name rather than a path; the message then lists the names there are."""
    return not Path(script).suffix and not Path(script).exists() and Path(script).name == script


def _list_scripts(*, is_json: bool) -> None:
    from marey import samples

    if is_json:
        print_json(list(samples.script_names()))
    else:
        typer.echo("\n".join(samples.script_names()))
