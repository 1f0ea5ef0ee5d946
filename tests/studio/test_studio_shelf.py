"""What a page can open, and the names that files arrive with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import InputError, MissingFileError, UnknownNameError
from marey.io import save
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN
from marey.studio.document.shelf import ClipCatalogue, safe_name
from marey.studio.view.widgets import contact_bars


@pytest.fixture
def still() -> Motion:
    """A person who stands."""
    return Motion(HUMAN, 60.0, np.tile(HUMAN.offsets[0], (8, 1)), SO3.identity(8, 22))


def test_a_folder_offers_its_motion_files(tmp_path: Path, still: Motion) -> None:
    (tmp_path / "sub").mkdir()
    save(still, tmp_path / "a.bvh")
    save(still, tmp_path / "sub" / "b.safetensors")
    (tmp_path / "notes.md").write_text("no motion")
    shelf = ClipCatalogue.from_paths([tmp_path])
    assert shelf.labels == ("a.bvh", str(Path("sub") / "b.safetensors"))
    assert shelf.load("a.bvh").num_frames == 8


def test_without_paths_there_are_the_samples() -> None:
    assert {"walk", "run", "jump"} <= set(ClipCatalogue.from_paths([]).labels)


def test_a_label_that_is_taken_gets_a_number(still: Motion) -> None:
    shelf = ClipCatalogue()
    assert shelf.put("walk", lambda: still) == "walk"
    assert shelf.put("walk", lambda: still) == "walk (2)"


def test_a_copy_keeps_its_own_additions(still: Motion) -> None:
    shelf = ClipCatalogue()
    shelf.put("walk", lambda: still)
    mine = shelf.copy()
    mine.put("upload", lambda: still)
    assert shelf.labels == ("walk",)


def test_unknown_labels_and_paths_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no clip 'x'"):
        ClipCatalogue().load("x")
    with pytest.raises(MissingFileError):
        ClipCatalogue.from_paths([tmp_path / "none"])
    with pytest.raises(InputError, match="no motion file"):
        ClipCatalogue.from_paths([tmp_path])


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ("walk.bvh", "walk.bvh"),
        ("../../etc/x.bvh", "x.bvh"),
        ("C:\\temp\\walk 1.bvh", "walk 1.bvh"),
        (".hidden", "hidden"),
        ("<b>.bvh", "_b_.bvh"),
        ("a" * 300 + ".bvh", "a" * 76 + ".bvh"),
    ],
)
def test_uploaded_names_are_made_harmless(raw: str, kept: str) -> None:
    assert safe_name(raw) == kept


def test_a_name_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no name"):
        safe_name("../..")


def test_bars_show_one_rectangle_a_contact() -> None:
    active = np.zeros((10, 2), dtype=bool)
    active[2:4, 0] = active[6:9, 0] = True
    picture = contact_bars(("left_heel", "right_heel"), active)
    assert picture.count("<rect") == 2
    assert '<rect x="2" y="0" width="2"' in picture and '<rect x="6" y="0" width="3"' in picture
