"""The parameters of generated ratings whose sizes and tastes are planted."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from rankbound_study.config.sections.base import Keys, Positive, Problem, ProperShare, Rate

LARGEST_SPREAD = 3.0
"""Beyond it, the shortest lists of any affordable data set are empty."""

Extent = Annotated[float, Field(ge=0, le=1_000_000)]


class PlantedKeys(Keys):
    """Ratings by utilities of planted tastes (`data/synthetic.py` has the formulas)."""

    spread: float = Field(
        0, ge=0, le=LARGEST_SPREAD, description="Standard deviation of log P, P relevant items a user"
    )
    correlation: float = Field(
        0, ge=0, le=1, description="Correlation of list size and kind of taste: 1 gives long lists to the minority"
    )
    minority: ProperShare = Field(0.25, description="Share of users with the tastes of long lists")
    rank: int = Field(4, ge=2, le=1000, description="Dimensions of tastes, one half for each kind")
    taste: Extent = Field(2.0, description="Standard deviation of utilities by taste")
    popularity: Extent = Field(0, description="Standard deviation of utilities that all users share")
    noise: Rate = Field(1.0, description="Scale of the noise of a user's choices")
    mean_relevant: Positive = Field(175, description="Mean of P, the same at every spread")
    items: Positive = Field(3000, description="Items of the catalogue")

    def given(self, *without: str) -> dict[str, Any]:
        """Return the parameters that are set, whole numbers as integers."""
        return {key: int(value) if value == int(value) else value for key, value in super().given(*without).items()}

    def problems(self) -> Iterator[Problem]:
        """Yield a rank without halves."""
        if self.rank % 2:
            yield ("rank",), f"is {self.rank}: expected an even number, half of it for each kind of taste"
