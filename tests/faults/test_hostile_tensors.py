"""Files of tensors made to do harm: rankers, weights, and a pickle in place of either.

For rankers whose parts do not fit each other see `tests/library/test_ranker_files.py`.
"""

import json
import os
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io.models import read_tensors, write_tensors
from rankbound.training.models import Scaling
from rankbound.training.ranker import Ranker
from rankbound.training.recipe import Recipe, build
from rankbound_study.jobs.vgg16 import generate_weights, read_pickled_tensors, read_weights
from tests.faults.hostile_files import with_little_memory
from tests.library.planted_ratings import rewrite

MUTATIONS = int(os.environ.get("RANKBOUND_FUZZ", "300"))
HEADER_BYTES = 8


@pytest.fixture
def ranker(tmp_path: Path) -> Path:
    recipe = Recipe(model="mlp", hidden=(3,))
    scaling = Scaling("standard", torch.zeros(2), torch.ones(2))
    path = tmp_path / "whole.safetensors"
    Ranker(recipe, ["a", "b"], scaling, build(recipe, 2, torch.Generator().manual_seed(0)), {"epoch": 1}).save(path)
    path.write_bytes(unsealed(path.read_bytes()))
    assert rb.load(path).score(torch.zeros(1, 2)).shape == (1,)
    return path


def unsealed(content: bytes) -> bytes:
    """Without a seal that anybody would know: what is sealed never gets past it, and who means harm leaves it out."""
    return content.replace(b"rankbound-sha256:", b"rankbound-sha257:")


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    whole = path.read_bytes()
    size = int.from_bytes(whole[:HEADER_BYTES], "little")
    return json.loads(whole[HEADER_BYTES : HEADER_BYTES + size]), whole[HEADER_BYTES + size :]


def rebuilt(folder: Path, header: bytes, body: bytes, length: int | None = None) -> Path:
    path = folder / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + body)
    return path


FIRST = "model.layers.0.weight"

BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "overlapping tensors": lambda header: header[FIRST].update(data_offsets=header["scaling.shift"]["data_offsets"]),
    "offsets beyond the file": lambda header: header[FIRST].update(data_offsets=[0, 2**60]),
    "offsets backwards": lambda header: header[FIRST].update(data_offsets=header[FIRST]["data_offsets"][::-1]),
    "another type of other size": lambda header: header[FIRST].update(dtype="F64"),
    "a type that is none": lambda header: header[FIRST].update(dtype="OBJECT"),
    "a shape of more": lambda header: header[FIRST].update(shape=[2**40, 2**40]),
    "a negative shape": lambda header: header[FIRST].update(shape=[-3, -2]),
    "a tensor without a place": lambda header: header[FIRST].pop("data_offsets"),
    "a tensor that is missing": lambda header: header.pop(FIRST),
    "metadata that are no texts": lambda header: header.update(__metadata__={"rankbound": 1}),
}


LENGTHS = (0, 1, 10**8, 2**31, 2**63 - 1, 2**63, 2**64 - 1)
NO_HEADERS = (b"", b"[" * 100_000, b'{"\xff": 1}', b"null", b"[1]", b'{"a": {}}', b'{"__metadata__": [1]}', b"\0" * 99)


@pytest.mark.parametrize("lie", [*BROKEN, *LENGTHS, *NO_HEADERS])
def test_headers_that_lie_their_lengths_and_what_is_no_header_are_refused(
    ranker: Path, tmp_path: Path, lie: str | int | bytes
) -> None:
    header, body = parts(ranker)
    if isinstance(lie, str):
        BROKEN[lie](header)
    content = (lie, b"") if isinstance(lie, bytes) else (json.dumps(header).encode(), body)
    path = rebuilt(tmp_path, *content, lie if isinstance(lie, int) else None)
    for read in (rb.load, read_tensors, read_weights):
        with pytest.raises(DataError, match=r"x\.safetensors: "):
            read(path)


def test_a_recipe_of_gigabytes_is_refused_with_little_memory(ranker: Path) -> None:
    rewrite(ranker, lambda text, tensors: text["recipe"].update(hidden=[40_000, 40_000]))
    said = with_little_memory("from rankbound.training.ranker import load as run; import safetensors.torch", ranker)
    assert said.startswith("refused: ")
    assert "don't fit each other" in said


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' + "9" * 5000 + "}", "\ud83d", "[]", "1", ""])
def test_texts_that_are_no_json_are_refused(tmp_path: Path, text: str) -> None:
    header = json.dumps({"__metadata__": {"rankbound": text}}).encode()
    with pytest.raises(DataError, match=r"x\.safetensors: "):
        rb.load(rebuilt(tmp_path, header, b""))


class Payload:
    """A pickle of this makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.fspath(self.path),)


def test_no_reader_of_tensors_runs_a_pickle(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    torch.save({"weight": Payload(touched)}, tmp_path / "saved.pth")
    contents = {
        "pickle.pth": pickle.dumps(Payload(touched)),
        "by-hand.pth": b"cos\nmkdir\n(S'" + os.fsencode(touched) + b"'\ntR.",
        "saved.pth": (tmp_path / "saved.pth").read_bytes(),
        "nested.pth": pickle.dumps({"features.0.weight": [Payload(touched)]}),
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        for read in (read_pickled_tensors, rb.load, read_tensors, read_weights):
            with pytest.raises(DataError, match=name):
                read(path)
        assert not touched.exists()
    # Proof that these would do it.
    pickle.loads(contents["pickle.pth"])
    assert touched.exists()


@pytest.mark.parametrize("kind", ["ranker", "tensors", "vgg16", "pickle", "old pickle"])
def test_damaged_files_are_read_or_refused(ranker: Path, tmp_path: Path, kind: str) -> None:
    path, tensors = tmp_path / "whole", {"a": torch.arange(4.0), "b": torch.zeros(2, 2)}
    read: Callable[[Path], Any]
    match kind:
        case "ranker":
            read, path = rb.load, ranker
        case "tensors":
            read = read_tensors
            write_tensors(tensors, path)
        case "vgg16":
            read = read_weights
            generate_weights(path, 0)
        case _:
            read = read_pickled_tensors
            torch.save(tensors, path, _use_new_zipfile_serialization=kind == "pickle")
    whole = unsealed(path.read_bytes())
    chance, refused = random.Random(kind), 0
    head = min(len(whole), 2000)
    for _ in range(MUTATIONS // (6 if kind == "vgg16" else 1)):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            content[chance.randrange(head)] = chance.choice([0, 0x22, 0x30, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        damaged = tmp_path / "damaged"
        damaged.write_bytes(content)
        try:
            read(damaged)
        except DataError:
            refused += 1
    assert refused
