"""The command `marey`: one verb per public function."""

from marey.cli.entry import main

__all__ = ["main"]
