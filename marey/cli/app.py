"""The verbs, gathered. Each module imports what it works with when its verb runs, so that `--help` is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from marey.cli import tools as _bench
from marey.cli import tools as _cite
from marey.cli import tools as _studio
from marey.cli.clips import compress as _compress
from marey.cli.clips import contacts as _contacts
from marey.cli.clips import contacts as _plant
from marey.cli.clips import convert as _convert
from marey.cli.clips import convert as _retarget
from marey.cli.clips import fit as _fit
from marey.cli.clips import ik as _ik
from marey.cli.clips import info as _info
from marey.cli.clips import library as _library
from marey.cli.clips import limits as _limits
from marey.cli.clips import physics as _physics
from marey.cli.clips import pictures as _pictures
from marey.cli.synthesis import demo as _demo
from marey.cli.synthesis import graph as _graph
from marey.cli.synthesis import muscle as _muscle
from marey.cli.synthesis import optimize as _optimize
from marey.cli.synthesis import simulate as _simulate
from marey.cli.synthesis import synth as _synth
from marey.cli.synthesis import walk as _walk

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
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; goes anywhere.")] = False,
) -> None:
    """Turn motion capture into controllable, physically valid human motion."""


app.command("info")(_info.info)
app.command("convert")(_convert.convert)
app.command("contacts")(_contacts.contacts)
app.command("retarget")(_retarget.retarget)
app.command("plant")(_plant.plant)
app.command("fit")(_fit.fit)
app.command("ik")(_ik.ik)
app.add_typer(_limits.app, name="limits")
app.command("physics")(_physics.physics)
app.command("compress")(_compress.compress)
app.command("decompress")(_compress.decompress)
app.command("optimize")(_optimize.optimize)
app.command("walk")(_walk.walk)
app.command("synth")(_synth.synth)
app.command("simulate")(_simulate.simulate)
app.command("muscle")(_muscle.muscle)
app.add_typer(_library.app, name="library")
app.add_typer(_graph.app, name="graph")
app.command("strip")(_pictures.strip)
app.command("film")(_pictures.film)
app.command("plot")(_pictures.plot)
app.command("studio")(_studio.studio)
app.command("demo")(_demo.demo)
app.command("bench")(_bench.bench)
app.command("cite")(_cite.cite)
