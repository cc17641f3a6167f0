"""A figure of the report, with the caption that stands in the figure's module."""

from rankbound_study.figures import figure_specs, title
from rankbound_study.report.blocks import FigureBlock


def figure_block(name: str, *, synthetic: bool) -> FigureBlock:
    """Return a figure with its caption; the caption of a figure drawn from synthetic data begins by saying so."""
    spec = figure_specs()[name]
    label = "Synthetic data. " if synthetic and (spec.needs_runs or spec.needs) else ""
    return FigureBlock(name, title(name), label + spec.caption)
