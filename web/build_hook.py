"""Builds the page's player and the studio's client for a wheel; an editable install takes what `make web` made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlayerBuild(BuildHookInterface):
    """Runs npm in ``web/``; without Node the wheel has no player and no client, and the verbs say so."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build both before files are collected."""
        npm = shutil.which("npm")
        if version == "editable" or npm is None:
            if npm is None and version != "editable":
                self.app.display_warning("no npm: the wheel lacks the pages of `marey view` and `marey studio`")
            return
        web = Path(self.root) / "web"
        for arguments in (["install", "--no-save", "--silent"], ["run", "--silent", "build"]):
            subprocess.run([npm, *arguments], cwd=web, check=True)
