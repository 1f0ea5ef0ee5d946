"""The browser application `marey studio`, and `marey run`: its takes made again from their recipes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from marey.cli.common import Outcome, plan_outputs, progress_bar, remark, run_each, write_motion
from marey.cli.options import Csv, Format, Json, check_motion_file, option


def studio(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PROJECT-FOLDER] [CLIP]...", help="What to open.", show_default=False)
    ] = None,
    host: Annotated[str, option("Address to listen on; loopback by default.")] = "127.0.0.1",
    port: Annotated[int, option("0 takes a free one.", min=0, max=65535)] = 8080,
    allow_remote: Annotated[
        bool, option("Let other machines in that know the printed address.", "--allow-remote")
    ] = False,
    no_open: Annotated[bool, option("Open no browser window.", "--no-open")] = False,
    max_upload_mb: Annotated[int, option("Largest file a page may send.", min=1, max=4096)] = 512,
) -> None:
    """Edit motions in the browser; Ctrl-C ends it.

    A folder is a project: it need not exist, and keeps everything, as of the last change, also when the machine stops.
    Clips are imported into it. Without a folder, the user's own project is opened.
    """
    from marey.base import InputError
    from marey.studio import serve_project

    clips = [path for path in paths or () if Path(path).is_file() or Path(path).suffix]
    folders = [path for path in paths or () if path not in clips]
    if len(folders) > 1:
        raise InputError(f"{len(folders)} folders are more than one project", "Give one folder, and files")
    # The folder that is named, else the user's own: MAREY_PROJECT, or where the system keeps data of programs
    project: str | Path
    if folders:
        project = folders[0]
    elif own := os.environ.get("MAREY_PROJECT"):
        project = Path(own)
    elif sys.platform == "win32":
        project = Path(os.environ.get("APPDATA", str(Path.home()))) / "marey" / "project"
    elif sys.platform == "darwin":
        project = Path.home() / "Library" / "Application Support" / "marey" / "project"
    else:
        project = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "marey" / "project"
    serve_project(
        project,
        clips,
        host=host,
        port=port,
        allow_remote=allow_remote,
        open_browser=not no_open,
        max_upload_mb=max_upload_mb,
        tell=typer.echo,
    )


def run(
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE...", help="Recipe files (TOML).")],
    out: Annotated[str | None, option("Motion file to write; for several recipes, a folder.", "-o", "--out")] = None,
    format: Format = "safetensors",  # noqa: A002 (the option is called so)
    seed: Annotated[int | None, option("Another seed than the recipe's.", min=0)] = None,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """Run recipes of takes: a tool of the studio, its inputs, settings and seed, and the layers and edits on top.

    Each gives its motion, beside the recipe unless -o says where; files that a tool makes go to the same folder. Paths
    in a recipe are those of its own folder. Same recipe, same bytes.
    """
    from marey.pipeline.recipes import load_recipe, run_recipe
    from marey.studio.tools import TOOLS

    targets = plan_outputs(recipes, out, f".{format}")
    for target in targets.values():
        check_motion_file(target)

    def cook(file: str) -> Outcome:
        from dataclasses import replace

        from marey.base import write_atomically

        recipe = load_recipe(file)
        recipe = recipe if seed is None else replace(recipe, seed=seed)
        with progress_bar(recipe.tool) as tell:
            made = run_recipe(recipe, TOOLS, on_progress=lambda share, _: tell(round(100 * share), 100))
        facts: dict[str, Any] = {"tool": recipe.tool, "out": None, "files": [], "text": made.text}
        if made.motion is not None:
            write_motion(made.motion, targets[file])
            facts |= {"out": targets[file], "frames": made.motion.num_frames, "rate_hz": made.motion.rate_hz}
        for name, data in made.files.items():
            path = Path(targets[file]).parent / name
            write_atomically(path, data)
            remark(f"wrote {path}")
            facts["files"].append(str(path))
        facts |= {"table": list(made.table), "report": dict(made.report)}
        return Outcome(facts, f"{file}  {recipe.tool}: {made.text}", list(made.table) or None)

    run_each("run", recipes, cook, is_json=json, csv=csv)
