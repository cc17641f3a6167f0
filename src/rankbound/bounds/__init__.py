"""Bounds of ranking metrics: extremes, expectations and score distributions over all orders of a list."""
