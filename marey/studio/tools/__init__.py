"""Every engine of the library as a tool of the studio: a panel's schema and a run over a public function."""

from typing import Final

from marey.pipeline.tools import Tool
from marey.studio.tools import clips, figures, files, layers, making, physics

TOOLS: Final[dict[str, Tool]] = {
    tool.id: tool for tool in (*files.TOOLS, *clips.TOOLS, *layers.TOOLS, *making.TOOLS, *physics.TOOLS, *figures.TOOLS)
}

__all__ = ["TOOLS"]
