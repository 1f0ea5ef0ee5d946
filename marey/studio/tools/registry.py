"""Names of what a tool is, as the server uses them."""

from marey.pipeline.sessions import DragAnswer, DragSession
from marey.pipeline.tools import Parameter, Tool, ToolContext, ToolResult

__all__ = ["DragAnswer", "DragSession", "Parameter", "Tool", "ToolContext", "ToolResult"]
