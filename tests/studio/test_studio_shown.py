"""Widgets that follow the document: a hand that changes one is never overwritten by a picture in between."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from marey.studio.view.widgets import MAX_STALE_REFRESHES, SyncedWidget


@pytest.fixture
def shown(server) -> SyncedWidget[str]:
    return SyncedWidget(server.gui.add_dropdown("Will", options=("free", "puppet", "balance")))


def call(shown: SyncedWidget[str], client: object) -> None:
    for handler in shown.widget._impl.update_cb:
        handler(SimpleNamespace(client=client))


def test_a_picture_between_choice_and_handler_does_not_undo_the_choice(shown: SyncedWidget[str]) -> None:
    told: list[str] = []
    shown.on_user(told.append)
    shown.widget._impl.value = "puppet"  # as the server does when the page's message comes
    shown.show("free")  # a picture: the document has not heard of it yet
    call(shown, object())
    assert told == ["puppet"] and shown.widget.value == "puppet"


def test_a_choice_that_was_refused_goes_back(shown: SyncedWidget[str]) -> None:
    shown.widget._impl.value = "puppet"
    shown.acknowledge("puppet")
    shown.show("free")
    assert shown.widget.value == "free"


def test_the_widget_follows_the_document(shown: SyncedWidget[str]) -> None:
    shown.show("balance")
    assert shown.widget.value == "balance"


def test_our_own_assignments_are_not_the_users(shown: SyncedWidget[str]) -> None:
    told: list[str] = []
    shown.on_user(told.append)
    shown.show("balance")
    call(shown, None)
    assert not told


def test_a_choice_that_was_never_heard_of_goes_back_after_a_while(shown: SyncedWidget[str]) -> None:
    shown.widget._impl.value = "puppet"
    for _ in range(MAX_STALE_REFRESHES):
        shown.show("free")
    assert shown.widget.value == "free"


def test_an_edit_that_is_made_tells_what_the_page_shows(shown: SyncedWidget[str]) -> None:
    edits: list = []
    shown.bind(lambda key, edit: edits.append((key, edit)), "will", lambda document, value: document.append(value))
    shown.widget._impl.value = "puppet"
    call(shown, object())
    (key, edit), document = edits[0], []
    edit(document)
    shown.show("free")  # the document thought better of it
    assert key == "will" and document == ["puppet"] and shown.widget.value == "free"
