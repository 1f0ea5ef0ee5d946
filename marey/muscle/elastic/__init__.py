"""Elastic models: material laws, assembly over cells, tetrahedra and spring lattices."""
