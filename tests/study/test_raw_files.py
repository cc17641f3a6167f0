"""Raw files whose content is not their source's: no step uses them, however they came to their place."""

import ast
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from test_archives import make_zip

from rankbound.errors import DataError
from rankbound_study import cli
from rankbound_study.data import archives, inspection, sources
from rankbound_study.doctor import machine
from tests.raw_files import encode_image, raw_file, source_of

SRC = Path(__file__).parents[2] / "src"
READERS = (archives, inspection, sources)
"""The modules that may open archives, `inspection` those that nothing describes yet; others are given a `RawFile`."""


def ratings(stars: str) -> dict[str, bytes]:
    """The four tables of MovieLens, with one rating in them."""
    others = {f"ml-latest-small/{name}.csv": f"{name}\r\n".encode() for name in ("movies", "tags", "links")}
    table = f"userId,movieId,rating,timestamp\r\n1,2,{stars},10\r\n"
    return {"ml-latest-small/ratings.csv": table.encode(), **others}


def judgments(label: int) -> dict[str, bytes]:
    """The five parts of MQ2008, one query each, the last of which has this label."""
    pairs = " ".join(f"{index}:0.5" for index in range(1, 47))
    labels = [2, 0, 1, 0, label]
    return {
        f"MQ2008/S{part}.txt": f"{relevance} qid:{part} {pairs}\r\n".encode()
        for part, relevance in enumerate(labels, 1)
    }


def faces(first: str, second: str) -> dict[str, bytes]:
    """Two pictures of All-Age-Faces under these names."""
    pictures = [np.random.default_rng(seed).integers(0, 256, (3, 120, 120), dtype=np.uint8) for seed in (1, 2)]
    return {
        f"Faces/original images/{name}": encode_image(pixels)
        for name, pixels in zip((first, second), pictures, strict=True)
    }


@dataclass(frozen=True)
class Swap:
    """A source's content and another one that only its checksums tell from it, with what the message names."""

    file_name: str
    right: dict[str, bytes]
    wrong: dict[str, bytes]
    named: str


SWAPS = {
    "movielens": Swap("ml-latest-small.zip", ratings("4.0"), ratings("4.5"), r"'ml-latest-small/ratings\.csv'"),
    "mq2008": Swap("MQ2008.zip", judgments(1), judgments(2), r"'MQ2008/S5\.txt'"),
    "aaf": Swap(
        "All-Age-Faces.zip",
        faces("00001A20.jpg", "00002A60.jpg"),
        dict(sorted(faces("00002A60.jpg", "00001A20.jpg").items())),
        "folder 'original images'",
    ),
}


@pytest.mark.parametrize("name", SWAPS)
def test_another_content_placed_by_hand_is_refused_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    swap = SWAPS[name]
    raw, out = Path("data/raw", swap.file_name), Path("data/converted.parquet")
    raw.parent.mkdir(parents=True)
    arguments = ("convert", name, "--raw", str(raw), "--out", str(out))
    source = source_of(name, make_zip(raw, swap.right))
    monkeypatch.setattr(sources, "SOURCES", {**sources.SOURCES, name: source})
    assert cli.main(arguments) == 0
    out.unlink()
    capsys.readouterr()
    content = make_zip(raw, swap.wrong).read_bytes()
    assert cli.main(arguments) == 2
    said = capsys.readouterr().err
    assert re.match(
        rf"python -m rankbound_study convert: {raw}: .*{swap.named}.*[0-9a-f]{{32,}}.*found [0-9a-f]{{32,}}", said
    ), said
    assert f"run `python -m rankbound_study download {name} --out {raw}`, which sets a wrong file aside" in said
    assert "and, where it cannot download, says what to save by hand" in said
    assert raw.read_bytes() == content
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / raw]


def test_what_was_not_compared_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checksum of the full-size faces' content is unknown: an archive placed by hand is converted, with a note."""
    monkeypatch.chdir(tmp_path)
    source = source_of("aaf", make_zip(Path("x.zip"), SWAPS["aaf"].right))
    assert source.folder is not None
    folder = replace(source.folder, editions={}, unknown_from=1)
    monkeypatch.setattr(sources, "SOURCES", {**sources.SOURCES, "aaf": replace(source, folder=folder)})
    make_zip(Path("x.zip"), SWAPS["aaf"].wrong)
    assert cli.main(("convert", "aaf", "--raw", "x.zip", "--out", "x.parquet")) == 0
    assert capsys.readouterr().out == f"note: {source.remark}\n"


def test_ratings_of_another_edition_are_not_movielens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The publisher's own sums, which no test has changed."""
    monkeypatch.chdir(tmp_path)
    make_zip(Path("ml-latest-small.zip"), ratings("4.0"))
    assert cli.main(("convert", "movielens", "--raw", "ml-latest-small.zip", "--out", "x.parquet")) == 2
    said = capsys.readouterr().err
    assert "'ml-latest-small/ratings.csv' is not that of MovieLens latest-small (September 2018): " in said
    assert re.search(r"expected 325a6f09399d1c45671f187505e1a100 \(md5\), found [0-9a-f]{32}\. To get the right", said)
    assert [path.name for path in tmp_path.iterdir()] == ["ml-latest-small.zip"]


def test_other_weights_placed_by_hand_are_refused_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("vgg16-397923af.pth").write_bytes(b"weights")
    assert cli.main(("weights", "vgg16", "--raw", "vgg16-397923af.pth", "--out", "x.safetensors")) == 2
    said = capsys.readouterr().err
    assert re.search(r"expected the SHA-256 397923af[0-9a-f]{56}, found [0-9a-f]{64} of 7 bytes", said)
    assert (
        "run `python -m rankbound_study download vgg16 --out vgg16-397923af.pth`, which sets a wrong file aside" in said
    )
    assert [path.name for path in tmp_path.iterdir()] == ["vgg16-397923af.pth"]


def test_a_file_that_is_not_there_says_how_to_get_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, out = tmp_path / "MQ2008.zip", tmp_path / "x.parquet"
    assert cli.main(("convert", "mq2008", "--raw", str(raw), "--out", str(out))) == 2
    assert f"{raw}: cannot be read: No such file or directory. To get the right file" in capsys.readouterr().err


def test_a_raw_file_gives_the_members_of_its_archive(tmp_path: Path) -> None:
    raw = raw_file("movielens", make_zip(tmp_path / "x.zip", ratings("4.0")))
    assert [member.name for member in raw.members] == list(ratings("4.0"))
    with raw.open(raw.find("tags.csv")) as stream:
        assert stream.read() == b"tags\r\n"
    assert dict(raw.read(["ml-latest-small/links.csv"])) == {"ml-latest-small/links.csv": b"links\r\n"}
    with pytest.raises(DataError, match=r"x\.zip: expected exactly one member 'users\.csv', found 0"):
        raw.find("users.csv")


def test_nothing_else_opens_archives() -> None:
    """A reader that needs no `RawFile` would take any content: it has to be written another way."""
    allowed = {Path(str(module.__file__)) for module in (*READERS, machine)}  # `machine` asks which readers there are
    closed = {archives.__name__, "zipfile", "tarfile", "libarchive"}
    opening = {path for path in SRC.rglob("*.py") if closed & set(_imported(path))}
    assert opening == allowed


def _imported(path: Path) -> list[str]:
    """The modules that a file imports, and the names that it imports from them, in full."""
    names: list[str] = []
    for statement in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(statement, ast.Import):
            names += [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names += [str(statement.module), *(f"{statement.module}.{alias.name}" for alias in statement.names)]
    return names
