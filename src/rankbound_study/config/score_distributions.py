"""The files of score distributions: one for each loss, method and tilt."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rankbound.texts import split_text

EXACT, SAMPLED = "exact", "sampled"
METHODS = (EXACT, SAMPLED)

KIND = rf"(-({'|'.join(METHODS)}))?(-tilt[0-9]+(\.[0-9]+)?)?"
"""Regular expression of a file's kind."""

_TILT = "-tilt"


class DistributionFile(NamedTuple):
    """A file of score distributions.

    Attributes:
        loss: the loss whose metric's distributions it has.
        kind: what distinguishes it from other files of the loss: nothing, `-sampled`, `-tilt4`, `-sampled-tilt4`.
    """

    loss: str
    kind: str

    @classmethod
    def read_by(cls, usual: str, method: str, loss: str, bounding: str) -> "DistributionFile":
        """Return the file that a training reads whose bounding needs distributions, made by a method."""
        _, parameters, _ = split_text(bounding, "bound")
        tilt = f"{_TILT}{parameters['tilt']}" if "tilt" in parameters else ""
        return cls(loss, f"{'' if method == usual else f'-{method}'}{tilt}")

    @property
    def path(self) -> str:
        """Its path."""
        return f"<results>/distributions/{self.loss}{self.kind}.parquet"

    def options(self, usual: str, samples: int, seed: int) -> dict[str, Any]:
        """Return the options of the step that makes it."""
        method, _, tilt = self.kind.partition(_TILT)
        options = {"method": method.removeprefix("-") or usual, "samples": samples, "seed": seed}
        return {**options, "tilt": float(tilt)} if tilt else options


def needs_distributions(bounding: str) -> bool:
    """Return whether trainings with a bounding read score distributions."""
    return bounding.startswith("distribution")


def method_of(method: str | Mapping[str, str], datasets: Mapping[str, str], protocol: str, source: str) -> str:
    """Return the method for the lists of a data set in a protocol; that of the data set takes precedence."""
    own = datasets.get(source, method)
    return own if isinstance(own, str) else own[protocol]
