"""Downloads from a server on the loopback that cuts off, lies or is away."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fault_kinds import Case, flipped, recover
from fault_study import MIRROR

Answer = Callable[[bytes, int], tuple[int, int, bytes]]
"""From a file's content and how often it was asked for: the status, the length that is said, the bytes sent."""

BUSY, PAGE = b"busy", b"<html>please log in</html>"


def _cut(case: Case, always: bool) -> Answer:
    share = case.random.random()
    return lambda data, count: (200, len(data), data if count and not always else data[: int(share * len(data))])


# Kind: how the server answers, whether the step succeeds in spite of it, and what it says if not.
ANSWERS: dict[str, tuple[Callable[[Case], Answer], bool, tuple[str, ...]]] = {
    "download cut once": (lambda case: _cut(case, always=False), True, ()),
    "download always cut": (
        lambda case: _cut(case, always=True), False, ("IncompleteRead", "cut off", "neither a .zip"),
    ),
    "download flipped": (
        lambda case: lambda data, count: (200, len(data), flipped(data, case.random)),
        False, ("expected", "damaged", "refused", "readable"),
    ),
    "error page instead": (
        lambda case: lambda data, count: (200, len(PAGE), PAGE), False, ("error page", "expected the SHA-256"),
    ),
    "server busy once": (
        lambda case: lambda data, count: (200, len(data), data) if count else (503, len(BUSY), BUSY), True, (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("name", ANSWERS)
def test_download(name: str, number: int, case_of: Callable[..., Case]) -> None:
    """The step gives the file or a message, and leaves nothing else behind."""
    case = case_of("download", name, number)
    make, succeeds, said = ANSWERS[name]
    sandbox, good = case.sandbox, case.sandbox.variables
    with _server(case, make(case)) as address:
        sandbox.variables = {"RANKBOUND_MIRROR": address, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        status = sandbox.run()
    rejected = [path for path in sandbox.left_behind() if path.endswith(".rejected")]
    if status == 0:
        # Archives may be packed in any way: a bit that changes no content changes no checksum.
        if not succeeds:
            assert name == "download flipped", sandbox.log()
            sandbox.path(sandbox.step.outputs[0]).unlink()
    else:
        assert not succeeds, sandbox.log()
        case.message(status, *said)
        assert "By hand: " in sandbox.log()
    for path in rejected:
        sandbox.path(path).unlink()
    sandbox.variables = good
    recover(sandbox)


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
