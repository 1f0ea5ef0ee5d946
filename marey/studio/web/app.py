"""The server of the studio: the page, one socket, files in and out. Nothing else is served, no path of the disk."""

from __future__ import annotations

import re
import secrets
import shutil
import socket
import webbrowser
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from marey.base import InputError, MareyError, MissingFileError
from marey.io import load
from marey.studio.commands import read_command
from marey.studio.project import Project
from marey.studio.protocol import MAX_FRAME_BYTES, StartMessage
from marey.studio.web.gate import CLOSED, LOOPBACK, Gate, GateMiddleware, keep_token
from marey.studio.web.hub import FILES, UPLOADS, StudioHub
from marey.studio.web.session import PageSession
from marey.studio.worker import describe_motion, explain

STATIC: Final = Path(__file__).with_name("static")
MEDIA: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
UNBUILT: Final = (
    "<!doctype html><title>marey</title><p>The page of the studio is part of a wheel; in a checkout, build it with "
    "<code>make studio</code>.</p>"
)
MAX_UPLOAD_BYTES: Final = 512 << 20
MAX_SESSIONS: Final = 64
MAX_UPLOADS: Final = 8  # at the same time
MOST_UPLOADS: Final = 200  # kept
Endpoint = Callable[[Request], Any]


class StudioServer:
    """The routes over one hub."""

    def __init__(
        self, hub: StudioHub, gate: Gate, *, max_upload_bytes: int = MAX_UPLOAD_BYTES, max_sessions: int = MAX_SESSIONS
    ) -> None:
        self.hub, self.gate = hub, gate
        self._max_upload_bytes, self._max_sessions = max_upload_bytes, max_sessions
        self._num_sessions = self._num_uploads = 0

        @asynccontextmanager
        async def live(_: Starlette) -> AsyncGenerator[None]:
            hub.pool.start()
            yield
            await hub.close()

        routes = [
            Route("/", self._page),
            Route("/api/import", self._guard(self._import), methods=["POST"]),
            Route("/api/export", self._guard(self._export)),
            Route("/{name}", self._guard(self._static)),
            WebSocketRoute("/ws", self._socket),
        ]

        self.app = Starlette(routes=routes, middleware=[Middleware(GateMiddleware, gate=gate)], lifespan=live)

    def _guard(self, endpoint: Endpoint) -> Endpoint:
        """Let only pages in that were opened with the token; errors become sentences."""

        async def guarded(request: Request) -> Response:
            if not self.gate.has_cookie(request):
                return PlainTextResponse(CLOSED, 403)
            try:
                return await endpoint(request)
            except MareyError as error:
                return JSONResponse(explain(error), 400)
            except OSError as error:
                why = f"the disk refused it: {error.strerror}"
                return JSONResponse({"sentence": why, "fix": "Make room on it, and try again"}, 507)

        return guarded

    async def _page(self, request: Request) -> Response:
        has_token = self.gate.is_token(request.query_params.get("token"))
        if not has_token and not self.gate.has_cookie(request):
            return PlainTextResponse(CLOSED, 403)
        index = STATIC / "index.html"
        page = HTMLResponse(index.read_text(encoding="utf-8") if index.is_file() else UNBUILT)
        if has_token:
            page.set_cookie(self.gate.cookie, self.gate.token, httponly=True, samesite="strict", path="/")
        return page

    async def _static(self, request: Request) -> Response:
        # Names are looked up among those that there are, so that none can leave the folder
        name = request.path_params["name"]
        known = {path.name: path for path in STATIC.iterdir()} if STATIC.is_dir() else {}
        path = known.get(name)
        if path is None or not path.is_file() or path.suffix not in MEDIA:
            return PlainTextResponse("There is nothing here.\n", 404)
        return Response(path.read_bytes(), media_type=MEDIA[path.suffix])

    async def _socket(self, socket: WebSocket) -> None:
        # A browser says where a page comes from and sends its cookie; a program gives the token in `hello`
        is_known = self.gate.has_cookie(socket)
        if not is_known and socket.headers.get("origin") is not None:
            await socket.close(1008)
            return
        if self._num_sessions >= self._max_sessions:
            await socket.close(1013)
            return
        self._num_sessions += 1
        try:
            await socket.accept()
            await PageSession(socket, self.hub, is_known=is_known, is_token=self.gate.is_token).run()
        finally:
            self._num_sessions -= 1

    async def _import(self, request: Request) -> Response:
        """Take a file; with ``keep`` only that, else read its motions into the project."""
        name = Path(request.query_params.get("name", "").replace("\\", "/")).name
        stem, suffix = re.sub(r"[^\w .()-]", "_", Path(name).stem)[:80], Path(name).suffix.lower()
        if not re.fullmatch(r"\.[a-z0-9]{1,12}", suffix):
            raise InputError("the file has no ending that says what it is", "Give its name, such as walk.bvh")
        too_large = InputError(
            f"the file is larger than {self._max_upload_bytes >> 20} MB", "Start the studio with --max-upload-mb"
        )
        if int(request.headers.get("content-length") or 0) > self._max_upload_bytes:
            return JSONResponse(explain(too_large), 413)
        if self._num_uploads >= MAX_UPLOADS:
            return JSONResponse({"sentence": f"{MAX_UPLOADS} files are coming in", "fix": "Wait for one of them"}, 429)
        # An empty folder for the upload; the oldest go when there are many
        uploads = self.hub.project.folder / UPLOADS
        uploads.mkdir(exist_ok=True)
        known = sorted(uploads.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in known[: max(0, len(known) - MOST_UPLOADS + 1)]:
            shutil.rmtree(old, ignore_errors=True)
        folder = uploads / secrets.token_hex(12)
        folder.mkdir()
        target = folder / f"{stem.strip(' .') or 'file'}{suffix}"
        size, is_whole = 0, False
        self._num_uploads += 1
        try:
            with target.open("wb") as file:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > self._max_upload_bytes:
                        return JSONResponse(explain(too_large), 413)
                    file.write(chunk)
            is_whole = True
        finally:
            self._num_uploads -= 1
            if not is_whole:
                shutil.rmtree(folder, ignore_errors=True)
        if "keep" in request.query_params:
            return JSONResponse({"upload": folder.name, "name": name})
        job = self.hub.start(StartMessage("", "import", "", {"file": folder.name}))
        await job.ended.wait()
        if job.state != "done":
            return JSONResponse({"sentence": job.sentence, "fix": job.fix, "job": job.id}, 400)
        return JSONResponse({"upload": folder.name, "job": job.id, **job.result})

    async def _export(self, request: Request) -> Response:
        """Give a file that a job has made, at the address that the job told."""
        address = f"{request.url.path}?{request.url.query}"
        jobs = self.hub.pool.jobs.values()
        found = [file["name"] for job in jobs for file in job.result.get("files", ()) if file["url"] == address]
        query = request.query_params
        path = self.hub.project.folder / FILES / query.get("job", "") / query.get("file", "")
        if not found or not path.is_file():
            return PlainTextResponse("This file is gone: make it again.\n", 404)
        name = quote(found[0], safe=" .()-_")
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
        return FileResponse(path, media_type="application/octet-stream", headers=headers)


def open_project(folder: str | Path, clips: Sequence[str | Path] = ()) -> StudioHub:
    """Open the project of a folder and put clips into it; a new one begins with a shipped clip that moves."""
    motions = [load(path) for path in clips]
    hub = StudioHub(Project(folder))
    project = hub.project
    if project.is_new and not motions:
        from marey.samples import starter_project

        starter = starter_project()
        hub.add_clips([describe_motion(motion, project.store) for motion in starter.motions])
        sketch, markers = dict(starter.sketch), [{"time_s": time_s, "text": text} for time_s, text in starter.markers]
        project.run(read_command("edit_world", {"root": "sketch", "patches": [{"path": [], "value": sketch}]}))
        project.run(read_command("set_timeline", {"markers": markers}))
        project.forget_history()
    elif motions:
        hub.add_clips([describe_motion(motion, project.store) for motion in motions])
    return hub


def serve_project(
    folder: str | Path,
    clips: Sequence[str | Path] = (),
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    allow_remote: bool = False,
    open_browser: bool = True,
    max_upload_mb: int = MAX_UPLOAD_BYTES >> 20,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the studio until Ctrl-C."""
    if host not in LOOPBACK and not allow_remote:
        raise InputError(
            f"'{host}' lets other machines reach this studio, its project and its processor",
            "Say --allow-remote if that is meant; whoever has the printed address can then do what you can",
        )
    for path in clips:
        if not Path(path).is_file():
            raise MissingFileError(str(path))
    # The protocol is named: only then does asyncio send small frames at once (TCP_NODELAY)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(MAX_SESSIONS)  # who comes before the server runs waits
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen on {host} port {port}: {error.strerror}", "Choose another --port") from error
    port = listener.getsockname()[1]
    try:
        hub = open_project(folder, clips)
        gate = Gate(host, port, keep_token(hub.project.folder))
        server = StudioServer(hub, gate, max_upload_bytes=max_upload_mb << 20)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/?token={gate.token}"
        tell(address)
        if open_browser:
            webbrowser.open(address)
        uvicorn.Server(make_config(server)).run(sockets=[listener])
    finally:
        listener.close()


def make_config(server: StudioServer) -> uvicorn.Config:
    """How the studio is served: no compression on loopback, no log of addresses, which carry the token."""
    return uvicorn.Config(
        server.app,
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        limit_concurrency=4 * MAX_SESSIONS,
    )
