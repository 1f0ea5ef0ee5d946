"""The three-dimensional part of the page: what each mode shows in the scene."""
