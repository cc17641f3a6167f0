"""Losses and metrics in the form that other training libraries expect; each module needs the extra of its library."""
