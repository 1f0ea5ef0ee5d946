"""The tabs of the page: the widgets of each mode; they leave commands with the session and hold no mathematics."""
