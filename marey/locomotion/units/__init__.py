"""Motion units cut from captured clips: cycles of gaits, and jumps with their flight."""
