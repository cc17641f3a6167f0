"""Rankers as graphs for other programs: ONNX, and PyTorch's exported programs, from raw features to scores."""

import io
import json
import logging
import os
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rankbound.io.atomic import atomic_path
from rankbound.io.files import needs_extra
from rankbound.texts import LONGEST_VALUE, shortened
from rankbound.training.encoding import Encoding
from rankbound.training.models import Encoder, ScaledFeatures, Scaling

OPSET = 18
"""The version of ONNX's operators in a file."""

FEATURES = "features"
"""The key of the features' names, as JSON, in the metadata of a file."""


class Graph(nn.Module):
    """A model of raw features: encoding, scaling and network in one. With `query` scaling, the rows are one list."""

    def __init__(self, model: nn.Module, scaling: Scaling, encode: Encoder | None) -> None:
        super().__init__()
        self.model, self._scaling, self._encode = deepcopy(model).cpu().eval(), scaling, encode

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n_items,)` of `features` `(n_items, d)`."""
        scaling, encode = self._scaling, self._encode
        if scaling.kind == "query":
            features, encode = features if encode is None else encode(features), None
            low, high = features.amin(0), features.amax(0)
            # A factor that would be infinite is not taken, but an exported graph may compute it.
            spread = torch.where(high > low, high - low, 1.0)
            scaling = Scaling("standard", low, torch.where(high > low, 1 / spread, 0.0))
        scores: Tensor = self.model(ScaledFeatures(scaling, features, None, encode).of_rows(slice(None)))
        return scores


def export_graph(model: nn.Module, scaling: Scaling, encoding: Encoding, path: str | os.PathLike[str]) -> None:
    """Write a model of encoded and scaled features, as `Ranker.export`."""
    kind = Path(path).suffix
    if kind not in (".onnx", ".pt2"):
        raise ValueError(f"path: found {os.fspath(path)!r}, expected a name with the ending .onnx or .pt2")
    if encoding.categories:
        raise ValueError(
            f"features: {shortened(', '.join(encoding.categories), LONGEST_VALUE)} have categories, which are texts; "
            "expected numbers alone: train with inputs that are encoded before"
        )
    # Of two items: PyTorch would take one for a size that never changes.
    example = torch.zeros(2, len(encoding.names), dtype=torch.float32, device="cpu")
    sizes = {"features": {0: torch.export.Dim("n_items", min=1)}}
    with torch.no_grad():
        graph = Graph(model, scaling, encoding.encoder({}))
        program = torch.export.export(graph, (example,), dynamic_shapes=sizes)
    names, content = json.dumps(list(encoding.names)), io.BytesIO()
    if kind == ".onnx":
        content.write(_onnx(program, names))
    else:
        torch.export.save(program, content, extra_files={FEATURES: names})
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.getvalue())


def _onnx(program: Any, names: str) -> bytes:
    with needs_extra("export"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    names_of: dict[str, Any] = {"input_names": ["features"], "output_names": ["scores"]}
    # The warnings of PyTorch's exporter are about its own parts and about libraries that are not used.
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            written = torch.onnx.export(program, (), **names_of, opset_version=OPSET, dynamo=True, verbose=False)
    finally:
        logger.setLevel(level)
    assert written is not None
    written.model.metadata_props[FEATURES] = names
    content: bytes = written.model_proto.SerializeToString()
    return content
