"""Downloads from a server on the loopback that cuts off, lies or is away."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fault_kinds import REFUSED, UNHARMED, Case, recover
from fault_study import MIRROR

Answer = Callable[[bytes, int], tuple[int, int, bytes]]
"""From a file's content and how often it was asked for: the status, the length that is said, the bytes sent."""

# Kind: how the server answers, whether the step succeeds in spite of it, and what it says if not.
ANSWERS: dict[str, tuple[Callable[[Case], Answer], bool, tuple[str, ...]]] = {}


def _answers(name: str, succeeds: bool, *said: str) -> Callable[[Callable[[Case], Answer]], None]:
    def add(make: Callable[[Case], Answer]) -> None:
        ANSWERS[name] = make, succeeds, said

    return add


@_answers("download cut once", True)
def _(case: Case) -> Answer:
    share = case.random.random()
    return lambda data, count: (200, len(data), data if count else data[: int(share * len(data))])


@_answers("download always cut", False, "IncompleteRead", "cut off", "neither a .zip")
def _(case: Case) -> Answer:
    share = case.random.random()
    return lambda data, count: (200, len(data), data[: int(share * len(data))])


@_answers("download flipped", False, "expected", "damaged", "refused", "readable")
def _(case: Case) -> Answer:
    share = case.random.random()

    def answer(data: bytes, count: int) -> tuple[int, int, bytes]:
        changed = bytearray(data)
        changed[int(share * len(data))] ^= 1 << case.random.randrange(8)
        return 200, len(data), bytes(changed)

    return answer


@_answers("error page instead", False, "error page", "expected the SHA-256")
def _(case: Case) -> Answer:
    page = b"<html>please log in</html>"
    return lambda data, count: (200, len(page), page)


@_answers("server busy once", True)
def _(case: Case) -> Answer:
    return lambda data, count: (200, len(data), data) if count else (503, 4, b"busy")


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("name", ANSWERS)
def test_download(
    name: str, number: int, case_of: Callable[..., Case], record_property: Callable[[str, object], None]
) -> None:
    case = case_of("download", name, number)
    record = {"rule": "download", "kind": name, "outcome": "", "recovered": False}
    record_property("fault", record)
    make, succeeds, said = ANSWERS[name]
    sandbox = case.sandbox
    good = sandbox.variables
    with _server(case, make(case)) as address:
        sandbox.variables = {"RANKBOUND_MIRROR": address, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        status = sandbox.run()
    rejected = [path for path in sandbox.left_behind() if path.endswith(".rejected")]
    if status == 0:
        # Archives may be packed in any way: a bit that changes no content changes no checksum.
        record["outcome"] = UNHARMED
        if not succeeds:
            assert name == "download flipped", sandbox.log()
            sandbox.path(sandbox.step.outputs[0]).unlink()
    else:
        assert not succeeds, sandbox.log()
        case.message(status, *said)
        assert "By hand: " in sandbox.log()
        record["outcome"] = REFUSED
    for path in rejected:
        sandbox.path(path).unlink()
    sandbox.variables = good
    recover(sandbox)
    record["recovered"] = True


@contextmanager
def _server(case: Case, answer: Answer) -> Iterator[str]:
    """A mirror that answers so; gives its address."""
    asked: dict[str, int] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            file = case.sandbox.project.path(MIRROR) / name
            if not file.exists():
                self.send_error(404)
                return
            status, length, data = answer(file.read_bytes(), asked.get(name, 0))
            asked[name] = asked.get(name, 0) + 1
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
