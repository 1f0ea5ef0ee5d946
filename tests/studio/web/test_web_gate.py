"""The gate: token, cookie, Host, Origin, headers, what is served, uploads and their limits."""

from __future__ import annotations

import os
import time

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from marey.base import InputError
from marey.studio.web.app import serve_project
from marey.studio.web.gate import TOKEN_S, Gate, keep_token

from ..frames import read_frame, write_frame


def test_the_printed_address_gives_a_cookie_that_opens_the_rest(studio) -> None:
    with httpx.Client(base_url=studio.address) as client:
        for path in ("/", "/studio.js", "/api/export?take=t1", "/?token=wrong", "/?token=", "/?token=%00%ff"):
            answer = client.get(path)
            assert (answer.status_code, answer.text[:11]) == (403, "This studio")
        assert client.post("/api/import?name=a.bvh", content=b"x").status_code == 403
        opened = client.get("/", params={"token": studio.gate.token})
        assert opened.status_code == 200
        cookie = opened.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie and f"marey-{studio.port}" in cookie
        assert client.get("/").status_code == 200
        client.cookies.set(studio.gate.cookie, "wrong", domain="127.0.0.1")
    assert httpx.get(studio.address, cookies={studio.gate.cookie: studio.gate.token[:-1]}).status_code == 403


def test_every_answer_has_the_strict_headers(studio) -> None:
    with studio.client() as client:
        answers = (httpx.get(studio.address), client.get("/"), client.get("/nothing"))
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    "path",
    ["/app.py", "/../gate.py", "/%2e%2e/gate.py", "/..%2f..%2fetc%2fpasswd", "/static/index.html", "/api/other",
     "/api/export?job=..&file=..", "/api/export?job=x/../../..&file=project.json", "/.", "/%00"],
)  # fmt: skip
def test_no_path_of_the_disk_is_served(studio, path) -> None:
    with studio.client() as client:
        answer = client.get(path)
        assert answer.status_code in (200, 404, 400) and (answer.status_code != 200 or path == "/.")
        assert b"import" not in answer.content and b"root:" not in answer.content and b'"seq"' not in answer.content


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1", "a[b", "", "localhost.evil"]
)
def test_a_foreign_host_reaches_nothing(studio, host) -> None:
    with studio.client() as client:
        answer = client.get("/", headers={"host": host})
        assert answer.status_code in (400, 403) and "marey" not in answer.text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example", "file://"]
)
def test_a_foreign_page_reaches_nothing(studio, origin) -> None:
    with studio.client() as client:
        assert client.post("/api/import?name=a.bvh", content=b"", headers={"origin": origin}).status_code == 403
    cookie = {"Cookie": f"{studio.gate.cookie}={studio.gate.token}"}
    address = f"ws://127.0.0.1:{studio.port}/ws"
    with pytest.raises(InvalidStatus, match="403"), connect(address, additional_headers=cookie, origin=origin):
        pass


def test_a_page_without_the_cookie_gets_no_socket_and_a_program_needs_the_token(studio) -> None:
    address = f"ws://127.0.0.1:{studio.port}/ws"
    wrong = {"Cookie": f"{studio.gate.cookie}=no"}
    for headers in ({}, wrong):
        with (
            pytest.raises(InvalidStatus, match="403"),
            connect(address, origin=studio.address, additional_headers=headers),
        ):
            pass
    for token, kind in (("no", "refused"), (None, "refused"), (studio.gate.token, "welcome")):
        with connect(address) as socket:
            socket.send(write_frame({"t": "hello", "version": 2, "token": token}))
            assert read_frame(socket.recv(timeout=20))["t"] == kind
            if kind == "refused":
                with pytest.raises(ConnectionClosed):
                    socket.recv(timeout=20)


def test_a_frame_that_is_too_large_closes_its_socket_alone(studio, page) -> None:
    def flood(hostile) -> None:
        hostile.socket.send(bytes(9 << 20))
        hostile.socket.recv(timeout=20)

    with studio.page() as hostile, pytest.raises(ConnectionClosed):
        flood(hostile)
    page.send("ask", id="a", what="sum", args={})
    assert page.hear("answer", id="a")


def test_uploads_have_a_limit_and_a_name(studio) -> None:
    with studio.client() as client:

        def chunks():
            for _ in range(40):
                yield bytes(64 << 10)

        uploads = studio.hub.project.folder / "uploads"
        for content in (bytes((1 << 20) + 1), chunks()):
            answer = client.post("/api/import?name=a.bvh&keep=1", content=content)
            assert answer.status_code == 413 and "larger than 1 MB" in answer.json()["sentence"]
        assert not uploads.is_dir() or list(uploads.iterdir()) == []
        for name in ("", "noending", "a.", "a.b/c", "x" * 300):
            assert client.post("/api/import", params={"name": name, "keep": 1}, content=b"x").status_code == 400
        for name, kept in (("../../walk one.BVH", "walk one.bvh"), ("C:\\x\\a.fbx", "a.fbx"), ("..%00.bvh", "_.bvh")):
            answer = client.post("/api/import", params={"name": name, "keep": 1}, content=b"x")
            folder = uploads / answer.json()["upload"]
            assert [path.name for path in folder.iterdir()] == [kept] or name.startswith("..%")
            assert folder.parent == uploads


@pytest.mark.slow
def test_100_oversized_uploads_leave_nothing(studio) -> None:
    with studio.client() as client:
        for _ in range(100):
            assert client.post("/api/import?name=a.bvh", content=bytes((1 << 20) + 1)).status_code == 413
    assert not any(path.is_file() and path.stat().st_size > 1 << 20 for path in studio.hub.project.folder.rglob("*"))


def test_another_machine_needs_to_be_allowed(tmp_path) -> None:
    with pytest.raises(InputError, match="--allow-remote"):
        serve_project(tmp_path, host="0.0.0.0", port=0)
    gate = Gate("0.0.0.0", 80)
    assert gate.is_at_home({"host": "192.168.1.7:80"}) and not gate.is_at_home({"host": "evil.example:80"})
    assert not Gate("127.0.0.1", 80).is_at_home({"host": "192.168.1.7:80"})


def test_a_port_in_use_is_said(studio, tmp_path) -> None:
    with pytest.raises(InputError, match="cannot listen"):
        serve_project(tmp_path, port=studio.port)


def test_a_project_keeps_its_token_for_a_week_where_nobody_else_can_read_it(tmp_path) -> None:
    token = keep_token(tmp_path)
    assert len(token) == 32 and keep_token(tmp_path) == token
    assert Gate("127.0.0.1", 80, token).is_token(token) and not Gate("127.0.0.1", 80).is_token(token)
    path = tmp_path / "token"
    assert path.stat().st_mode & 0o777 == 0o600
    spoil = (
        lambda: path.chmod(0o644),
        lambda: os.utime(path, (time.time() - TOKEN_S - 9,) * 2),
        lambda: path.write_text("short"),
        lambda: path.write_bytes(bytes(32)),
        path.unlink,
    )
    for act in spoil:
        act()
        again = keep_token(tmp_path)
        assert again != token and len(again) == 32 and path.stat().st_mode & 0o777 == 0o600
        token = again
