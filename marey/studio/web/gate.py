"""Who may speak with the studio: the token, the cookie, Host and Origin, and the headers of every answer.

The printed address carries a random token, which becomes a cookie that no other site can send along (``SameSite``) and
no script can read (``HttpOnly``). ``Host`` must name this machine, so that a foreign name that resolves to it (DNS
rebinding) reaches nothing; ``Origin``, where a browser sends it, must be the page's own.

A project keeps its token for a week, in a file that only its owner can read: a page that is open while the server is
started again finds it by itself.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marey.base import WriteError

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
TOKEN_BYTES: Final = 24
TOKEN_S: Final = 7 * 86_400.0  # [s] that a token is kept
CLOSED: Final = "This studio answers only the address that it printed, with its token: copy it from the terminal.\n"


class Gate:
    """The token of one server, and the names that it answers to."""

    def __init__(self, host: str, port: int, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(TOKEN_BYTES)
        # Browsers share cookies between the ports of a host: the name keeps two studios apart
        self.cookie = f"marey-{port}"
        self.is_remote = host not in LOOPBACK
        self._names = {*LOOPBACK, host.lower()}
        self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()} if self.is_remote else set()

    def is_token(self, given: str | None) -> bool:
        """Whether this is the token; takes as long for every wrong one."""
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def has_cookie(self, connection: HTTPConnection) -> bool:
        """Whether the request comes from a page that was opened with the token."""
        return self.is_token(connection.cookies.get(self.cookie))

    def is_at_home(self, headers: Mapping[str, str]) -> bool:
        """Whether ``Host`` names this machine, and ``Origin``, if there is one, the same host."""
        host = headers.get("host", "")
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if name not in self._names:
            if not self.is_remote:
                return False
            # From elsewhere by an IP address alone, which no foreign name server can turn elsewhere
            try:
                ipaddress.ip_address(name)
            except ValueError:
                return False
        origin = headers.get("origin")
        return origin is None or origin in (f"http://{host}", f"https://{host}")


def keep_token(folder: Path) -> str:
    """Token of a project: that of its last server where it is young and was read by nobody else, or a new one."""
    path = folder / "token"
    try:
        about, text = path.stat(), path.read_text(encoding="ascii")
        is_private = os.name != "posix" or (about.st_mode & 0o077 == 0 and about.st_uid == os.getuid())
        is_young = 0.0 <= time.time() - about.st_mtime < TOKEN_S
        if is_private and is_young and not path.is_symlink() and re.fullmatch(r"[\w-]{32}", text, re.ASCII):
            return text
    except (OSError, ValueError):
        pass  # none yet, or one that was damaged
    token = secrets.token_urlsafe(TOKEN_BYTES)
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(token)
    except OSError as error:
        raise WriteError(str(path), error.strerror or str(error)) from error
    return token


class GateMiddleware:
    """Refuses foreign hosts and origins before anything else runs, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        if self._gate.is_at_home(Headers(scope=scope)):
            await self._app(scope, receive, send_guarded)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await PlainTextResponse(CLOSED, 403)(scope, receive, send_guarded)
