"""Ranking losses over ragged lists."""

from rankbound.losses.smooth import SmoothLoss

__all__ = ["SmoothLoss"]
