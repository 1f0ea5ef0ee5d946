"""Who may speak with the studio: the token, the cookie, Host and Origin, and the headers of every answer.

The printed address carries a random token, which becomes a cookie that no other site can send along (``SameSite``) and
no script can read (``HttpOnly``). ``Host`` must name this machine, so that a foreign name that resolves to it (DNS
rebinding) reaches nothing; ``Origin``, where a browser sends it, must be the page's own.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
CLOSED: Final = "This studio answers only the address that it printed, with its token: copy it from the terminal.\n"


class Gate:
    """The token of one server, and the names that it answers to."""

    def __init__(self, host: str, port: int) -> None:
        self.token = secrets.token_urlsafe(24)
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
        if name not in self._names and not (self.is_remote and _is_address(name)):
            return False
        origin = headers.get("origin")
        return origin is None or origin in (f"http://{host}", f"https://{host}")


def _is_address(name: str) -> bool:
    """Whether a name is an IP address, which no foreign name server can turn elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


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
