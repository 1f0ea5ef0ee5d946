"""The on-line engine for one character and for crowds."""
