"""Who may connect to the studio."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
import viser
from viser import _messages as messages
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from marey.base import InputError
from marey.io import save
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN
from marey.studio import Studio
from marey.studio.server.app import POLICY_VIOLATION, is_allowed_origin


@pytest.mark.parametrize(
    ("origin", "address", "host", "welcome"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", True),
        ("http://localhost:8080", "localhost:8080", "127.0.0.1", True),
        (None, "127.0.0.1:8080", "127.0.0.1", True),  # a program, not a page
        ("http://evil.example", "127.0.0.1:8080", "127.0.0.1", False),  # a foreign page
        ("http://evil.example:8080", "evil.example:8080", "127.0.0.1", False),  # a name that resolves to us
        ("http://127.0.0.1:9999", "127.0.0.1:8080", "127.0.0.1", False),  # another server on this machine
        ("null", "127.0.0.1:8080", "127.0.0.1", False),  # a page from a file
        (None, None, "127.0.0.1", False),
        ("http://host.example:8080", "host.example:8080", "0.0.0.0", True),  # asked for: other machines
        ("http://evil.example", "host.example:8080", "0.0.0.0", False),
        ("http://[::1", "[::1", "127.0.0.1", False),  # no address at all
    ],
)
def test_only_pages_of_the_studio_itself_are_welcome(
    origin: str | None, address: str | None, host: str, welcome: bool
) -> None:
    assert is_allowed_origin(origin, address, host) is welcome


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio with one still clip."""
    folder = tmp_path_factory.mktemp("clips")
    still = Motion(HUMAN, 60.0, np.tile(HUMAN.offsets[0], (4, 1)), SO3.identity(4, 22))
    save(still, folder / "still.safetensors")
    with Studio([folder], port=0) as running:
        yield running


def dial(studio: Studio, origin: str | None) -> ClientConnection:
    protocol = Subprotocol(f"viser-v{viser.__version__}")
    asked = None if origin is None else Origin(origin)
    return connect(studio.url.replace("http", "ws"), subprotocols=[protocol], origin=asked)


def test_a_foreign_page_is_sent_away_before_it_hears_anything(studio: Studio) -> None:
    with dial(studio, "http://evil.example") as socket, pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=60.0)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == POLICY_VIOLATION


def test_the_own_page_is_served(studio: Studio) -> None:
    with dial(studio, studio.url) as socket:
        assert len(socket.recv(timeout=60.0)) > 0


@pytest.mark.parametrize("frame", [b"\x00\xff noise", b"", "text", b"\x81" * 4096])
def test_a_malformed_message_harms_nobody_else(studio: Studio, frame: bytes | str) -> None:
    with dial(studio, studio.url) as good, dial(studio, studio.url) as bad:
        bad.send(frame)
        with contextlib.suppress(ConnectionClosed):
            bad.recv(timeout=1.0)
        assert len(good.recv(timeout=60.0)) > 0
    with dial(studio, studio.url) as late:
        assert len(late.recv(timeout=60.0)) > 0


def test_a_taken_port_is_an_error_and_not_another_port(studio: Studio) -> None:
    port = int(studio.url.rsplit(":", 1)[1])
    with pytest.raises(InputError, match=f"port {port} is taken"):
        Studio([], port=port)


def test_the_share_tunnel_cannot_be_asked_for(studio: Studio) -> None:
    handlers = studio._server._websock_server._incoming_handlers
    assert messages.ShareUrlRequest not in handlers and messages.ShareUrlDisconnect not in handlers
