"""`marey walk`: a script becomes a motion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marey.cli.common import Json, check_target, check_targets, print_json, remark, write_motion, write_strip

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    crowd: Annotated[int | None, typer.Option(min=1, max=1000, help="Walk N people in place of a script.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Crowd: duration [s].")] = 5.0,
    seed: Annotated[int, typer.Option(min=0, help="Crowd: seed of sizes, styles and speeds.")] = 0,
    names: Annotated[bool, typer.Option("--list", help="List the shipped scripts.")] = False,
    json: Json = False,
) -> None:
    """Walk, run and jump as a script says.

    A script is a time line of actions, transitions and jumps. `marey walk --list` names those that are shipped.
    With --crowd N people of different size and style walk; each gets a file of its own, OUT with a number.
    """
    if names:
        _list_scripts(is_json=json)
        return
    if (script is None) == (crowd is None):
        raise typer.BadParameter("give a SCRIPT, --crowd N, or --list.")
    check_targets(out, strip)
    check_target(report, (".json",))
    if crowd is not None:
        from marey.cli.synthesis.crowd import describe_crowd, walk_crowd, write_crowd

        facts = write_crowd(walk_crowd(crowd, seconds, seed, model), out, strip)
        _report_facts(facts, describe_crowd(facts), report, is_json=json)
        return
    from marey import samples
    from marey.locomotion import load_model, load_script, perform_script

    assert script is not None
    is_name = script in samples.script_names() and not Path(script).is_file()
    read = load_script(samples.script_file(script) if is_name or _is_name(script) else script)
    done = perform_script(read, load_model(model))
    for warning in done.warnings:
        remark(warning)
    write_motion(done.motion, out)
    write_strip(done.motion, strip, count)
    facts = {"script": script, "out": out, **done.report.to_json()}
    _report_facts(facts, done.report.sentence, report, is_json=json)


def _report_facts(facts: Mapping[str, object], sentence: str, file: str | None, *, is_json: bool) -> None:
    """Write the report, if one is asked for, and print it as JSON or as a sentence."""
    if file is not None:
        from json import dumps

        Path(file).write_text(dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
        remark(f"wrote {file}")
    if is_json:
        print_json(facts)
    else:
        typer.echo(sentence)


def _is_name(script: str) -> bool:
    """Whether the text looks like a name rather than a path; the message then lists the names there are."""
    return not Path(script).suffix and not Path(script).exists() and Path(script).name == script


def _list_scripts(*, is_json: bool) -> None:
    from marey import samples

    if is_json:
        print_json(list(samples.script_names()))
    else:
        typer.echo("\n".join(samples.script_names()))
