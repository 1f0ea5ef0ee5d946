"""Every source that the code cites is in the bibliography, and `marey cite` finds it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import marey
from marey.base import InputError, UnknownNameError
from marey.cli import main
from marey.cli.tools import cited_keys, references

PACKAGE = Path(marey.__file__).parent
KEY = re.compile(r"\[([A-Z][A-Za-z0-9]*\d{4}[a-z]?)\]_")


def test_every_cited_key_has_an_entry():
    sources = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    cited = {(key, name) for name, text in sources.items() for key in KEY.findall(text)}
    known = references()
    assert len(cited) > 5
    assert sorted((key, file) for key, file in cited if key not in known) == []


def test_the_five_theses_are_there():
    assert {"Tournier2011", "Glardon2005", "Engell2012", "Fang2003", "Safonova2006"} <= set(references())


def test_every_entry_is_whole():
    for key, text in references().items():
        assert text.count("{") == text.count("}"), key
        for field in ("author", "title", "year"):
            assert re.search(rf"^\s+{field}\s*=", text, re.MULTILINE), (key, field)
        assert re.search(r"\d{4}$", key)[0] in re.search(r"year\s*=\s*\{(\d{4})\}", text)[1]


def test_the_bibliography_is_kept_once():
    root = PACKAGE.parent
    if not (root / "docs").is_dir():
        pytest.skip("not a checkout")
    kept = [path for folder in ("docs", "marey") for path in (root / folder).rglob("references.bib")]
    assert kept == [PACKAGE / "cli" / "references.bib"]


def test_cite_prints_entries(capfd):
    assert main(["cite", "Fang2003", "Fang2003"]) == 0
    assert capfd.readouterr().out.count("@phdthesis{Fang2003,") == 1
    assert main(["cite", "--json"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [json.loads(line)["key"] for line in lines] == list(references())


def test_a_public_name_stands_for_the_sources_of_its_docstring():
    assert "Winter2009" in cited_keys("samples.walk")
    assert "Glardon2005" in cited_keys("marey.samples.walk")
    assert set(cited_keys("samples.walk")) <= set(cited_keys("samples"))


def test_an_unknown_source_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'Fang2003'"):
        cited_keys("Fang2004")


def test_what_cites_nothing_says_so():
    with pytest.raises(InputError, match="cites no source"):
        cited_keys("base.InputError")
