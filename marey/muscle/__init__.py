"""Muscles: soft bodies moved by activation splines, and optimal control of them."""

__all__: list[str] = []
