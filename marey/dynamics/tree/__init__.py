"""The body as a tree of joints with one degree of freedom each: what spline coordinates move."""
