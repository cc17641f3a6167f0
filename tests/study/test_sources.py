"""Fetching: the order of places, what is accepted, what is set aside, and what the messages say."""

import hashlib
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rar4_fixture import make_rar

from rankbound.errors import ConfigError, SourceError
from rankbound_study.data.archives import Limits
from rankbound_study.data.fetch import MIRROR_VARIABLE, PUBLISHERS, Patience, Publisher, fetch
from rankbound_study.data.sources import SOURCES, RawSource, check_content, find_source

TEXT = b"0 qid:1 1:0.5\n" * 200_000  # several read blocks, of a length that no block divides
HASTE = Patience(connect=60, silence=60, attempts=2, pause=0.01)
SOURCE = RawSource(
    name="toy",
    title="Toy set",
    algorithm="sha256",
    normalise=True,
    members={"S1.txt": hashlib.sha256(TEXT).hexdigest()},
    limits=Limits(),
)
PUBLISHER = Publisher(
    source=SOURCE,
    file_names=("Toy.zip", "Toy.rar"),
    addresses=(),
    homepage="https://example.org/toy",
    terms="none",
    citation="none",
)


def pack(path: Path, text: bytes = TEXT, name: str = "Toy/S1.txt") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), text)
    return path


@pytest.fixture(autouse=True)
def _no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)


Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """A server on the loopback that answers every request by the given function; gives its base URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def answer_with(data: bytes, length: int | None = None, status: int = 200) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(data) if length is None else length))
        request.end_headers()
        request.wfile.write(data)

    return answer


def test_the_table_of_sources_is_complete() -> None:
    for name, source in SOURCES.items():
        assert source.name == name
        publisher = PUBLISHERS[name]
        assert all(file_name.endswith((".zip", ".rar", ".pth")) for file_name in publisher.file_names)
        assert all(address.startswith("https://") for address in publisher.addresses)
        length = hashlib.new(source.algorithm).digest_size * 2
        assert all(len(checksum) == length for checksum in source.members.values())
        assert source.is_checked or "no checksums are known" in source.remark
        assert publisher.terms
        assert publisher.citation
    with pytest.raises(
        ConfigError, match=r"no source 'movielen'; known are aaf, citeulike-a, movielens, movielens-100k"
    ):
        find_source("movielen")


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_content_counts_whatever_the_line_ends_and_the_packing(tmp_path: Path, line_end: bytes) -> None:
    text = TEXT.replace(b"\n", line_end)
    check_content(SOURCE, pack(tmp_path / "x.zip", text))
    check_content(SOURCE, make_rar(tmp_path / "x.rar", {"S1.txt": text}))


def test_line_ends_count_where_the_source_says_so(tmp_path: Path) -> None:
    as_shipped = replace(SOURCE, normalise=False)
    check_content(as_shipped, pack(tmp_path / "x.zip"))
    with pytest.raises(SourceError, match=r"expected [0-9a-f]{64} \(sha256\), found"):
        check_content(as_shipped, pack(tmp_path / "y.zip", TEXT.replace(b"\n", b"\r\n")))


@pytest.mark.parametrize("pack_it", [pack, lambda path, text: make_rar(path, {"Toy/S1.txt": text})])
def test_one_wrong_byte_of_content_is_found(tmp_path: Path, pack_it: Callable[[Path, bytes], Path]) -> None:
    wrong = TEXT[:-2] + b"6\n"
    expected, found = (hashlib.sha256(text).hexdigest() for text in (TEXT, wrong))
    with pytest.raises(SourceError, match=rf"'Toy/S1\.txt' is not that of Toy set: expected {expected} .*{found}"):
        check_content(SOURCE, pack_it(tmp_path / "x", wrong))


def test_a_lone_carriage_return_is_content(tmp_path: Path) -> None:
    odd = b"a\rb\r"
    source = replace(SOURCE, members={"S1.txt": hashlib.sha256(odd).hexdigest()})
    check_content(source, pack(tmp_path / "x.zip", odd))


def test_a_file_that_is_there_and_passes_is_left_alone(tmp_path: Path) -> None:
    path = pack(tmp_path / "raw" / "Toy.zip")
    before = path.stat()
    assert fetch(PUBLISHER, path) == path
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_a_file_placed_by_hand_under_its_own_name_is_used(tmp_path: Path) -> None:
    make_rar(tmp_path / "Toy.rar", {"S1.txt": TEXT})
    assert fetch(PUBLISHER, tmp_path / "Toy.zip").read_bytes() == (tmp_path / "Toy.rar").read_bytes()


@pytest.mark.parametrize("by_environment", [True, False])
def test_a_mirror_folder_gives_any_of_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    make_rar(mirror / "Toy.rar", {"S1.txt": TEXT})
    if by_environment:
        monkeypatch.setenv(MIRROR_VARIABLE, str(mirror))
    out = fetch(PUBLISHER, tmp_path / "raw" / "Toy.zip", mirror=None if by_environment else str(mirror))
    assert out.read_bytes() == (mirror / "Toy.rar").read_bytes()
    assert [entry.name for entry in out.parent.iterdir()] == ["Toy.zip"]


def test_a_mirror_url_is_asked_by_file_name(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    data = pack(tmp_path / "x.zip").read_bytes()
    asked = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        answer_with(data)(request)

    out = fetch(PUBLISHER, tmp_path / "raw" / "Toy.zip", mirror=serve(answer) + "/archives/", patience=HASTE)
    assert out.read_bytes() == data
    assert asked == ["/archives/Toy.zip"]


def test_the_publisher_comes_after_the_mirror(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    data = pack(tmp_path / "x.zip").read_bytes()
    publisher = replace(PUBLISHER, addresses=(serve(answer_with(data)) + "/Toy.zip",))
    out = fetch(publisher, tmp_path / "raw" / "Toy.zip", mirror=str(tmp_path / "absent"), patience=HASTE)
    assert out.read_bytes() == data


def test_a_rejected_file_is_set_aside_and_the_next_place_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = pack(tmp_path / "raw" / "Toy.zip", b"something else")
    wrong = path.read_bytes()
    good = pack(tmp_path / "mirror" / "Toy.zip").read_bytes()
    assert fetch(PUBLISHER, path, mirror=str(tmp_path / "mirror")).read_bytes() == good
    assert (tmp_path / "raw" / "Toy.zip.rejected").read_bytes() == wrong
    assert "rejected" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["flipped", "truncated", "other member", "page"])
def test_what_fails_is_never_used_and_the_message_says_why(tmp_path: Path, damage: str) -> None:
    path = pack(tmp_path / "raw" / "Toy.zip", name="Toy/S2.txt" if damage == "other member" else "Toy/S1.txt")
    whole = bytearray(path.read_bytes())
    if damage == "flipped":
        whole[len(whole) // 3] ^= 1
    if damage == "page":
        whole = bytearray(b"<html>please log in</html>")
    path.write_bytes(whole[:-30] if damage == "truncated" else whole)
    reasons = {
        "flipped": "cannot be unpacked",
        "truncated": "cannot be unpacked",
        "other member": r"expected exactly one member 'S1\.txt', found 0",
        "page": "it begins with b'<html>pl'",
    }
    with pytest.raises(SourceError, match=rf"{reasons[damage]}(.|\n)*Toy\.zip\.rejected(.|\n)*By hand"):
        fetch(PUBLISHER, path)
    assert [entry.name for entry in path.parent.iterdir()] == ["Toy.zip.rejected"]


def test_unreachable_places_are_all_listed_with_their_reasons(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    gone = serve(answer_with(b"no", status=404))
    broken = serve(answer_with(b"no", status=503))
    refused = "http://127.0.0.1:9/Toy.zip"  # the discard port, where nothing listens
    publisher = replace(PUBLISHER, addresses=(f"{gone}/Toy.zip", f"{broken}/Toy.zip", refused))
    out = tmp_path / "raw" / "Toy.zip"
    with pytest.raises(SourceError) as caught:
        fetch(publisher, out, mirror=str(tmp_path / "absent"), patience=HASTE)
    message = str(caught.value)
    assert f"{tmp_path}/absent/Toy.zip: No such file" in message
    assert f"{tmp_path}/absent/Toy.rar: No such file" in message
    assert f"{gone}/Toy.zip: the server answered 404 Not Found\n" in message
    assert f"{broken}/Toy.zip: the server answered 503 Service Unavailable (2 attempts)" in message
    assert "127.0.0.1:9/Toy.zip: ConnectionRefusedError" in message
    assert f"save it as {out}" in message
    assert "https://example.org/toy" in message
    assert list(out.parent.iterdir()) == []


def test_a_download_cut_off_is_detected_and_tried_again(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    data = pack(tmp_path / "x.zip").read_bytes()
    answers = [answer_with(data[:500], length=len(data)), answer_with(data)]
    publisher = replace(PUBLISHER, addresses=(serve(lambda request: answers.pop(0)(request)) + "/Toy.zip",))
    assert fetch(publisher, tmp_path / "raw" / "Toy.zip", patience=HASTE).read_bytes() == data
    assert answers == []


def test_a_download_always_cut_off_leaves_nothing(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    data = pack(tmp_path / "x.zip").read_bytes()
    publisher = replace(PUBLISHER, addresses=(serve(answer_with(data[:500], length=len(data))) + "/Toy.zip",))
    with pytest.raises(SourceError, match=r"IncompleteRead.*500 bytes read.*\(2 attempts\)"):
        fetch(publisher, tmp_path / "raw" / "Toy.zip", patience=HASTE)
    assert list((tmp_path / "raw").iterdir()) == []


def test_a_server_that_falls_silent_is_given_up(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    woken = threading.Event()
    publisher = replace(PUBLISHER, addresses=(serve(lambda request: (woken.wait(20), None)[1]) + "/Toy.zip",))
    with pytest.raises(SourceError, match=r"(?i)time.*out"):
        fetch(publisher, tmp_path / "Toy.zip", patience=Patience(connect=1, silence=0.2, attempts=1))
    woken.set()


def test_a_full_disk_is_said_so(
    tmp_path: Path, serve: Callable[[Answer], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = replace(PUBLISHER, addresses=(serve(answer_with(b"data")) + "/Toy.zip",))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rankbound_study.data.fetch.os.fsync", full)
    with pytest.raises(SourceError, match=r"could not write .*Toy\.zip\..*\.part: No space left on device"):
        fetch(publisher, tmp_path / "raw" / "Toy.zip", patience=HASTE)
    assert list((tmp_path / "raw").iterdir()) == []
