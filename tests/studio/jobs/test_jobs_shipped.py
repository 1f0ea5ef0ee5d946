"""The shipped project and the real tools, in a real worker."""

from __future__ import annotations

import pytest

from ..page import running


@pytest.mark.slow
def test_the_shipped_project_is_whole(tmp_path) -> None:
    with running(tmp_path / "p") as studio, studio.page() as page:
        project = page.welcome["project"]
        assert len(project["takes"]) == 3 and project["sketch"] and project["timeline"]["markers"]
        assert page.welcome["undo"] is None and {"import", "walk", "repair"} <= {t["id"] for t in page.welcome["tools"]}
        page.send("ask", id="s", what="scenery", args={})
        assert len(page.hear("answer", id="s")["arrays"]["faces"])


@pytest.mark.slow
def test_a_file_comes_in_is_cleaned_and_goes_out(tmp_path) -> None:
    with running(tmp_path / "p") as studio, studio.page() as page, studio.client() as client:
        page.send("start", id="export", tool="export", take="t1", settings={"format": "bvh"})
        while (job := page.hear("job", id="export"))["state"] in ("waiting", "running"):
            pass
        out = client.get(job["result"]["files"][0]["url"])
        assert out.status_code == 200 and out.content.startswith(b"HIERARCHY")
        answer = client.post("/api/import", params={"name": "mine.bvh"}, content=out.content).json()
        take = answer["takes"][0]
        page.send("start", id="clean", tool="clean", take=take, settings={})
        while (job := page.hear("job", id="clean"))["state"] in ("waiting", "running"):
            pass
        assert job["state"] == "done", job
        broken = client.post("/api/import", params={"name": "broken.bvh"}, content=b"HIERARCHY\nROOT")
        assert broken.status_code == 400 and broken.json()["sentence"] and broken.json()["fix"]
        for _ in range(2):
            page.send("undo")
        with studio.page() as again:
            assert again.welcome["project"]["takes"].keys() == page.welcome["project"]["takes"].keys()
