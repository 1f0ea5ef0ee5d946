"""A studio with toy tools in a thread, for all tests of the server and of its jobs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from marey.samples import walk

from .. import toys
from ..page import running


@pytest.fixture(scope="module")
def toy_tools():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("marey.studio.worker.list_tools", lambda: toys.TOYS)
        patch.setattr("marey.studio.web.hub.list_tools", lambda: toys.TOYS)
        patch.setattr("marey.studio.job_pool.MODULE", "toys")
        # The shipped project takes two seconds to make
        starter = SimpleNamespace(motions=(walk(),), sketch={}, markers=())
        patch.setattr("marey.samples.starter_project", lambda: starter)
        patch.syspath_prepend(str(Path(toys.__file__).parent))
        yield


@pytest.fixture(scope="module")
def studio(toy_tools, tmp_path_factory):
    with running(tmp_path_factory.mktemp("studio") / "project", max_upload_bytes=1 << 20, max_sessions=8) as studio:
        yield studio


@pytest.fixture
def page(studio):
    with studio.page() as page:
        yield page
