"""The renderer: scenes as plain data, compiled ray casting of capsules, a depth buffer for triangles."""
