"""The server: pages come and go, each with a session of its own.

What must be shut off in viser is shut off here, in one place, because it uses names that viser keeps private.

What it leaves open by itself: any web page may connect to it (no check of the origin), any page may ask for a
public tunnel, and uploads have no size limit. The version of viser is pinned for this module's sake.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import viser
from viser import _messages as messages

from marey.base import InputError
from marey.studio.document.page import PageDocument
from marey.studio.document.shelf import ClipCatalogue
from marey.studio.server.session import Session

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
POLICY_VIOLATION: Final = 1008  # policy violation [RFC 6455 §7.4.1]
MAX_PARTS = 4096


def restrict_origins(server: viser.ViserServer, host: str) -> None:
    """Refuse foreign pages and public tunnels on this server."""
    sockets: Any = server._websock_server  # pyright: ignore[reportPrivateUsage]
    for request in (messages.ShareUrlRequest, messages.ShareUrlDisconnect):
        sockets.unregister_handler(request)

    async def check(connection: Any) -> None:
        socket = sockets._live_connections[connection.client_id]
        headers = socket.request.headers
        if not is_allowed_origin(headers.get("Origin"), headers.get("Host"), host):
            await socket.close(POLICY_VIOLATION, "This page does not belong to the studio")

    sockets._client_connect_cb.insert(0, check)


def is_allowed_origin(origin: str | None, address: str | None, host: str) -> bool:
    """Whether a socket may stay: its page must come from the very address it connects to.

    A studio on the loopback address also insists on a loopback name, so that a foreign name which resolves to
    this machine (DNS rebinding) is refused. Other programs than browsers send no origin.
    """
    named = _hostname(f"//{address}") if address else None
    if host in LOOPBACK and named not in LOOPBACK:
        return False
    return origin is None or urlsplit(origin).netloc == address


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def limit_uploads(client: viser.ClientHandle, max_bytes: int, refuse: Callable[[str], None]) -> None:
    """Stop uploads that announce or send more than ``max_bytes``, before they fill the memory."""
    gui: Any = client.gui
    wire: Any = gui._websock_interface
    started, arrived = gui._handle_file_transfer_start, gui._handle_file_transfer_part
    wire.unregister_handler(messages.FileTransferStartUpload)
    wire.unregister_handler(messages.FileTransferPart)

    def start(client_id: Any, message: Any) -> None:
        if 0 <= message.size_bytes <= max_bytes and 0 <= message.part_count <= MAX_PARTS:
            started(client_id, message)
        else:
            refuse(f"the file is larger than {max_bytes / 1e6:.0f} MB")

    def part(client_id: Any, message: Any) -> None:
        state = gui._current_file_upload_states.get(message.transfer_uuid)
        if state is not None and state["transferred_bytes"] + len(message.content) > max_bytes:
            gui._current_file_upload_states.pop(message.transfer_uuid, None)
            refuse(f"the file is larger than {max_bytes / 1e6:.0f} MB")
        else:
            arrived(client_id, message)

    wire.register_handler(messages.FileTransferStartUpload, start)
    wire.register_handler(messages.FileTransferPart, part)


SESSION_COOKIE = "marey-session"  # key of the page's identity in its local storage
FORGET_AFTER_S = 3600.0  # a page that does not come back loses its state


class Studio:
    """A running studio. Use it as a context manager, or call :meth:`close`."""

    def __init__(
        self,
        paths: Iterable[str | Path] = (),
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        max_upload_mb: int = 64,
    ) -> None:
        self._shelf = ClipCatalogue.from_paths(paths)
        self._max_bytes = max_upload_mb * 1_000_000
        self._sessions: dict[int, tuple[str, Session]] = {}
        self._parked: dict[str, tuple[float, PageDocument, ClipCatalogue]] = {}
        self._lock = threading.Lock()
        import io

        with contextlib.redirect_stdout(io.StringIO()):  # the server prints a banner of its own
            server = viser.ViserServer(host=host, port=port, verbose=False)
        if port not in (0, server.get_port()):
            server.stop()
            raise InputError(f"port {port} is taken", "Choose another with --port")
        self._server = server
        restrict_origins(self._server, host)
        self._server.scene.set_up_direction("+y")
        self._server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(92, 132, 190))
        self._server.gui.set_panel_label("marey studio")
        self._server.on_client_connect(self._welcome)
        self._server.on_client_disconnect(self._part)
        self.url = f"http://{host}:{self._server.get_port()}"

    def wait(self) -> None:
        """Block until the process is interrupted."""
        with contextlib.suppress(KeyboardInterrupt):
            self._server.sleep_forever()

    def close(self) -> None:
        """End all sessions and the server."""
        with self._lock:
            sessions = [session for _, session in self._sessions.values()]
            documents = [session.document for session in sessions] + [kept[1] for kept in self._parked.values()]
            self._sessions.clear()
        for session in sessions:
            session.close()
        for document in documents:
            if document.task is not None:
                document.task.stop()
            if document.draft is not None and document.draft.synthesis is not None:
                document.draft.synthesis.stop()
        self._server.stop()

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _welcome(self, client: viser.ClientHandle) -> None:
        name = _session_name(client)
        with self._lock:
            in_use = {owner for owner, _ in self._sessions.values()}
            parked = self._parked.pop(name, None) if name is not None and name not in in_use else None
            if name is None or name in in_use:
                name = secrets.token_hex(16)
            _, document, shelf = parked or (0.0, PageDocument(), self._shelf.copy())
            session = Session(client, shelf, document)
            self._sessions[client.client_id] = (name, session)
        limit_uploads(client, self._max_bytes, lambda why: session.report(InputError(why, "Open a smaller one")))
        client.local_storage.set_item(SESSION_COOKIE, name)

    def _part(self, client: viser.ClientHandle) -> None:
        with self._lock:
            name, session = self._sessions.pop(client.client_id, (None, None))
            now = time.monotonic()
            self._parked = {n: kept for n, kept in self._parked.items() if now - kept[0] < FORGET_AFTER_S}
            if name is not None and session is not None:
                self._parked[name] = (now, session.document, session.shelf)
        if session is not None:
            session.close()


def _session_name(client: viser.ClientHandle) -> str | None:
    """Ask the page for its identity; a page without one is new."""
    try:
        return client.local_storage.get_item(SESSION_COOKIE, timeout=2.0)
    except (RuntimeError, TimeoutError):
        return None


def serve(
    paths: Iterable[str | Path] = (),
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    open_browser: bool = False,
    max_upload_mb: int = 64,
) -> None:
    """Run the studio until interrupted.

    Args:
        paths: clips, folders of clips or libraries; the samples without any.
        host: address to listen on; anything but loopback lets other machines in.
        port: where to listen.
        open_browser: open the page in the default browser.
        max_upload_mb: largest file that a page may bring [MB].
    """
    with Studio(paths, host=host, port=port, max_upload_mb=max_upload_mb) as studio:
        print(f"marey studio is at {studio.url}  (Ctrl+C ends it)", flush=True)
        if open_browser:
            import webbrowser

            webbrowser.open(studio.url)
        studio.wait()
