"""`marey studio`: the browser application."""

from __future__ import annotations

from typing import Annotated

import typer


def studio(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[CLIP|LIBRARY]...", help="What to open.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; loopback unless told otherwise.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8080,
    open_browser: Annotated[bool, typer.Option("--open", help="Open a browser window too.")] = False,
    max_upload_mb: Annotated[int, typer.Option(min=1, max=4096, help="Largest file a user may upload.")] = 64,
) -> None:
    """Play clips in the browser; Ctrl-C ends it."""
    from marey.studio import serve

    serve(tuple(paths or ()), host=host, port=port, open_browser=open_browser, max_upload_mb=max_upload_mb)
