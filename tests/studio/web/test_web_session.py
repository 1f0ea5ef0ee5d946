"""One page and several: welcome, clips, commands, undo, questions, drags, live sessions, and what is refused."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from marey.samples import walk

from ..frames import read_frame
from ..page import running
from ..protocol.test_protocol_frames import damage


def test_a_new_project_begins_with_a_clip_that_moves(page) -> None:
    project = page.welcome["project"]
    assert next(iter(project["clips"].values()))["name"] == "walk" and page.welcome["undo"] is None
    key = project["takes"]["t1"]["result"]
    page.send("want", hash=key)
    clip = page.hear("clip")
    motion = walk()
    assert clip["header"]["joints"] == list(motion.skeleton.names) and clip["header"]["frames"] == motion.num_frames
    np.testing.assert_array_equal(clip["arrays"]["offsets"], motion.skeleton.offsets.astype("f4"))
    page.send("want", hash=key, first=0, count=1)
    block = page.hear("block")
    np.testing.assert_array_equal(block["roots"], motion.root_positions.astype("f4"))
    np.testing.assert_array_equal(block["rotations"][..., 3], motion.rotations.wxyz[..., 0].astype("f4"))
    np.testing.assert_array_equal(block["rotations"][..., :3], motion.rotations.wxyz[..., 1:].astype("f4"))


@pytest.mark.parametrize("fields", [{"hash": "0" * 64}, {"hash": "../../project"}, {"hash": "", "count": 5}])
def test_a_clip_that_is_not_there_is_refused(page, fields) -> None:
    page.send("want", **fields)
    assert "there is no motion" in page.hear("refused", id=fields["hash"])["sentence"]


def test_two_pages_see_one_document(studio, page) -> None:
    with studio.page() as other:
        seq = other.welcome["seq"]
        page.send("command", id="a", name="rename", args={"kind": "takes", "id": "t1", "name": "hop"})
        mine, theirs = page.hear("patch"), other.hear("patch")
        assert (mine["id"], theirs["id"], theirs["seq"]) == ("a", "", seq + 1)
        assert theirs["patches"] == [{"path": ["takes", "t1", "name"], "value": "hop"}] == mine["patches"]
        other.send("undo")
        back = page.hear("patch", seq=seq + 2)
        assert back["patches"][0]["value"] == "walk" and (back["undo"], back["redo"]) == (None, "Rename")
        with studio.page() as third:
            assert third.welcome["seq"] == seq + 2 and third.welcome["redo"] == "Rename"
            assert third.welcome["project"]["takes"]["t1"]["name"] == "walk"


def test_a_command_that_cannot_be_done_is_refused_with_its_id(page) -> None:
    page.send("command", id="b", name="renam", args={})
    assert "Did you mean 'rename'" in page.hear("refused", id="b")["sentence"]
    page.send("command", id="c", name="remove", args={"kind": "clips", "id": "c1"})
    told = page.hear("refused", id="c")
    assert "is used by walk" in told["sentence"] and told["fix"] == "Remove them first"
    page.send("undo", redo=True)
    page.hear("patch")
    page.send("undo", redo=True)
    assert "nothing" in page.hear("refused")["sentence"]


def test_a_question_is_answered_with_its_id(page) -> None:
    page.send("ask", id="q", what="sum", args={"a": 41})
    assert page.hear("answer", id="q")["value"]["text"] == "42"
    for what, args, words in (
        ("summ", {}, "no tool 'summ'"),
        ("sum", {"a": "x"}, "not a number"),
        ("sum", {"b": 1}, "'b'"),
    ):
        page.send("ask", id="r", what=what, args=args)
        assert words in page.hear("refused", id="r")["sentence"]
    page.send("ask", id="s", what="scenery", args={})
    assert page.hear("answer", id="s")["arrays"]["vertices"].shape == (0, 3)
    page.send("ask", id="m", what="mesh", args={"character": "p1"})
    assert "no skin" in page.hear("refused", id="m")["sentence"]


def test_a_sketch_is_drawn(page) -> None:
    sketch = {
        "version": 1,
        "path": {"points": [[0.0, 0.0], [0.0, 4.0]]},
        "wall": [{"from": [1.0, 0.0], "to": [1.0, 2.0]}],
    }
    page.send("command", id="w", name="edit_world", args={"root": "sketch", "patches": [{"path": [], "value": sketch}]})
    page.hear("patch", "refused")
    page.send("ask", id="s", what="scenery", args={})
    answer = page.hear("answer", "refused", id="s")
    if answer["t"] == "answer":
        assert sum(thing["faces"] for thing in answer["value"]) == len(answer["arrays"]["faces"]) > 0
        assert answer["arrays"]["faces"].max() < len(answer["arrays"]["vertices"])
    page.send("undo")
    page.hear("patch")


def test_of_a_drag_the_newest_position_is_answered_and_its_end_is_one_step(page) -> None:
    takes = page.welcome["project"]["takes"]
    page.send("drag", channel="d", n=0, phase="begin", tool="push", args={"motion": "t1"})
    for n in range(1, 60):
        page.send("drag", channel="d", n=n, phase="move", tool="push", args={"x": n})
    answers = [page.hear("frame")]
    while answers[-1]["n"] < 59:
        answers.append(page.hear("frame"))
    numbers = [answer["n"] for answer in answers]
    assert numbers == sorted(set(numbers)) and len(numbers) < 30
    assert answers[-1]["arrays"]["pose_root"].tolist() == [59.0] * 3
    assert answers[-1]["arrays"]["pose_rotations"].tolist() == [[2.0, 3.0, 4.0, 1.0]]  # scalar last on the wire
    page.send("drag", channel="d", n=60, phase="end", tool="push", args={})
    step = page.hear("patch")
    assert step["undo"] == "Push" and step["patches"][0]["insert"]["kind"] == "trim"
    assert {"path": ["takes", "t1", "result"], "value": None} in step["patches"]
    made = page.hear("patch", "toast")  # the edit is put on, in the same step
    result = made["patches"][0]["value"]
    assert made["undo"] == "Push" and result not in (None, takes["t1"]["result"])
    page.send("want", hash=result)
    assert page.hear("clip")["header"]["frames"] == 61
    page.send("undo")
    back = page.hear("patch")
    assert (back["undo"], back["redo"]) == (page.welcome["undo"], "Push")
    values = {patch["path"][-1]: patch.get("value") for patch in back["patches"]}
    assert values["result"] == takes["t1"]["result"]


def test_a_drag_that_fails_says_so_on_its_channel(page) -> None:
    page.send("drag", channel="e", n=0, phase="begin", tool="push", args={"motion": "nobody"})
    assert "no clip or take 'nobody'" in page.hear("refused", id="e")["sentence"]
    page.send("drag", channel="f", n=0, phase="begin", tool="push", args={"motion": "t1"})
    page.send("drag", channel="f", n=1, phase="move", tool="push", args={"bad": True})
    assert page.hear("refused", id="f")["fix"] == "Come nearer"
    page.send("drag", channel="g", n=1, phase="move", tool="push", args={})
    assert "has not begun" in page.hear("refused", id="g")["sentence"]
    for number in range(5):
        page.send("drag", channel=f"h{number}", n=0, phase="begin", tool="push", args={"motion": "t1"})
    assert "drags at a time" in page.hear("refused", id="h4")["sentence"]


def test_a_drag_that_is_given_up_leaves_nothing(page) -> None:
    page.send("drag", channel="k", n=0, phase="begin", tool="push", args={"motion": "t1"})
    page.send("drag", channel="k", n=1, phase="move", tool="push", args={"x": 1})
    page.hear("frame")
    page.send("drag", channel="k", n=2, phase="end", tool="push", args={"cancel": True})
    page.send("drag", channel="k", n=3, phase="end", tool="push", args={})
    assert "has ended" in page.hear("refused", id="k")["sentence"]
    assert not [message for message in page.aside if message["t"] == "patch"]


def test_a_live_session_sends_frames_and_leaves_a_take(page) -> None:
    page.send("drag", channel="l", phase="begin", tool="stroll", args={"motion": "t1"})
    page.hear("frame")
    # Two messages between two steps: neither is lost
    page.send("drag", channel="l", phase="move", tool="stroll", args={"speed": 2})
    page.send("drag", channel="l", phase="move", tool="stroll", args={"jump": True})
    seen: dict = {}
    while seen != {"speed": 2, "jump": True}:
        seen |= page.hear("frame")["facts"]["args"]
    page.send("drag", channel="l", phase="end", tool="stroll", args={})
    take = page.hear("patch")["patches"][0]["value"]
    assert take["name"].endswith(" · Stroll") and take["recipe"]["tool"] == "stroll" and take["recipe"]["seed"] == 3
    page.send("undo")
    page.hear("patch")


def test_malformed_messages_are_refused_and_too_many_close_the_socket(studio, page) -> None:
    rng = random.Random(1)

    def pester(hostile) -> None:
        for _ in range(150):
            hostile.socket.send(damage(rng) + b"\xff" * 16)
        while True:
            assert read_frame(hostile.socket.recv(timeout=20))["t"] in ("refused", "welcome")

    with studio.page() as hostile, pytest.raises(ConnectionClosed):
        pester(hostile)
    with studio.page() as texter:
        texter.socket.send("hello")
        assert "text" in texter.hear("refused")["sentence"]
    page.send("ask", id="z", what="sum", args={})
    assert page.hear("answer", id="z")["value"]["text"] == "1"


def test_a_page_of_another_version_is_told_to_reload(studio) -> None:
    with studio.page(hello=False) as page:
        page.send("hello", version=99)
        assert page.hear("refused")["fix"] == "Reload the page"
    with studio.page(hello=False) as page:
        page.send("undo")
        assert "not hello" in page.hear("refused")["sentence"]


def test_more_sockets_than_allowed_are_refused(studio) -> None:
    pages = []
    while len(pages) < 8:
        pages.append(studio.page())
    with pytest.raises(InvalidStatus, match="403"):
        studio.page()
    for page in pages:
        page.close()
    for _ in range(200):
        try:
            studio.page().close()
            break
        except InvalidStatus:
            time.sleep(0.05)
    else:
        pytest.fail("places of pages that left are not free again")


@pytest.mark.slow
def test_50_pages_and_10_000_malformed_messages_leave_memory_flat(toy_tools, tmp_path) -> None:
    psutil = pytest.importorskip("psutil")
    rng = random.Random(7)
    with running(tmp_path / "p") as studio:

        def storm(count: int) -> None:
            pages = [studio.page() for _ in range(50)]
            sent = 0
            while sent < count:
                place = rng.randrange(50)
                try:
                    pages[place].socket.send(damage(rng))
                except ConnectionClosed:
                    pages[place] = studio.page()
                sent += 1
            pages[0] = studio.page()
            name = str(rng.random())
            pages[0].send("command", id="n", name="rename_project", args={"name": name})
            pages[0].hear("patch", id="n")
            with studio.page() as fresh:
                assert fresh.welcome["project"]["name"] == name
            for page in pages:
                page.close()

        storm(2000)
        before = psutil.Process().memory_info().rss
        for _ in range(4):
            storm(2500)
        assert psutil.Process().memory_info().rss - before < 40 << 20
