"""Widgets that follow the document: a hand that changes one is never overwritten by a picture in between."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from marey.studio._shown import Shown


@pytest.fixture
def shown(server) -> Shown[str]:
    return Shown(server.gui.add_dropdown("Will", options=("free", "puppet", "balance")))


def call(shown: Shown[str], client: object) -> None:
    for handler in shown.widget._impl.update_cb:
        handler(SimpleNamespace(client=client))


def test_a_picture_between_choice_and_handler_does_not_undo_the_choice(shown: Shown[str]) -> None:
    told: list[str] = []
    shown.on_user(told.append)
    shown.widget._impl.value = "puppet"  # as the server does when the page's message comes
    shown.show("free")  # a picture: the document has not heard of it yet
    call(shown, object())
    assert told == ["puppet"] and shown.widget.value == "puppet"


def test_a_choice_that_was_refused_goes_back(shown: Shown[str]) -> None:
    shown.widget._impl.value = "puppet"
    shown.heard("puppet")
    shown.show("free")
    assert shown.widget.value == "free"


def test_the_widget_follows_the_document(shown: Shown[str]) -> None:
    shown.show("balance")
    assert shown.widget.value == "balance"


def test_our_own_assignments_are_not_the_users(shown: Shown[str]) -> None:
    told: list[str] = []
    shown.on_user(told.append)
    shown.show("balance")
    call(shown, None)
    assert not told
