"""The sketch of one page: items, forms, undo, and the job that makes a motion of it."""
