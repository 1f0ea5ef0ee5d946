"""Sequential quadratic programming: sparse nonlinear programmes with many constraints."""
