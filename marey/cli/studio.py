"""The verb of the browser application."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from marey.cli.options import option


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
