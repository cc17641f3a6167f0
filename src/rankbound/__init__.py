"""Ranking metrics, losses and bounds over ragged lists."""

from rankbound._version import __version__

__all__ = ["__version__"]
