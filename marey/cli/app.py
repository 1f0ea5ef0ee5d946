"""The verbs, gathered. Each module imports what it works with when its verb runs, so that `--help` is quick."""

from __future__ import annotations

import logging
from copy import copy
from functools import cache
from typing import Annotated, Any

import typer

from marey.cli import tools
from marey.cli.clips import convert, edit, info, library, physics
from marey.cli.common import LOG
from marey.cli.options import option
from marey.cli.poses import between, fit, ik, limits, track
from marey.cli.synthesis import demo, graph, muscle, optimize, simulate, synth, walk

app = typer.Typer(
    name="marey",
    help="Motion capture in, controllable and physically valid human motion out.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich costs a third of the time that `marey --help` may take
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from marey import __version__

        typer.echo(f"marey {__version__}")
        raise typer.Exit


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction] (typer calls it)
    version: Annotated[bool, option("Print the version.", "--version", is_eager=True, callback=_show_version)] = False,
    quiet: Annotated[
        bool, option("No remarks and progress, only results, warnings and errors.", "--quiet", "-q")
    ] = False,
    verbose: Annotated[bool, option("Say how long each input takes, too.", "--verbose", "-v")] = False,
    debug: Annotated[bool, option("Show the traceback of an error.", "--debug")] = False,
) -> None:
    """Turn motion capture into controllable, physically valid human motion.

    --quiet, --verbose and --debug may also stand behind the verb.
    """
    # The long forms never arrive here: `entry` takes them from anywhere on the line
    if quiet or verbose:
        LOG.setLevel(logging.WARNING if quiet else logging.DEBUG)


# Clips: look, convert, clean, learn, judge, compress
app.command("info")(info.info)
app.command("convert")(convert.convert)
app.command("clean")(convert.clean)
app.command("contacts")(physics.contacts)
app.command("retarget")(convert.retarget)
app.command("plant")(physics.plant)
app.command("fit")(fit.fit)
app.command("fit-markers")(between.fit_markers)
app.command("ik")(ik.ik)
app.add_typer(limits.app, name="limits")
app.command("track")(track.track)
app.command("between")(between.between)
app.command("measure")(info.measure)
app.command("physics")(physics.physics)
app.command("compress")(library.compress)
app.command("decompress")(library.decompress)
# Motions that are made
app.command("optimize")(optimize.optimize)
app.command("edit")(edit.edit)
app.command("walk")(walk.walk)
app.command("blend")(edit.blend)
app.command("synth")(synth.synth)
app.command("simulate")(simulate.simulate)
app.command("muscle")(muscle.muscle)
app.command("run")(tools.run)
# Stores, pictures and tools
app.add_typer(library.app, name="library")
app.add_typer(graph.app, name="graph")
app.command("strip")(info.strip)
app.command("film")(info.film)
app.command("view")(info.view)
app.command("plot")(info.plot)
app.command("studio")(tools.studio)
app.command("demo")(demo.demo)
app.command("warm-up")(tools.warm_up)
app.command("bench")(tools.bench)
app.command("cite")(tools.cite)


@cache
def build_command(verb: str) -> Any:
    """Return the command with this verb alone, or with all verbs if there is none of this name.

    typer builds all verbs at each call of ``app`` and reads the annotations of each four times: 0.2 s.
    """
    one = copy(app)
    one.registered_commands = [command for command in app.registered_commands if command.name == verb]
    one.registered_groups = [group for group in app.registered_groups if group.name == verb]
    return typer.main.get_command(one if one.registered_commands or one.registered_groups else app)
