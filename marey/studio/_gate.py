"""Doors of the server that must be shut, in one place because they use names that viser keeps private.

What it leaves open by itself: any web page may connect to it (no check of the origin), any page may ask for a
public tunnel, and uploads have no size limit. The version of viser is pinned for this module's sake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import viser
from viser import _messages as messages  # pyright: ignore[reportPrivateUsage]

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
    this machine (DNS rebinding) is refused. Programs that are no browsers send no origin.
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
