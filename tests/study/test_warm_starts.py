"""Steps forked from a process that has loaded their libraries: the same results and the same ends."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from recorded_study import RUN, STEPS, job, read, recording

from rankbound_study.cli import main
from rankbound_study.warm import OFF, VARIABLE, server
from tests import forks as processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm starts need Linux")

RECORD = f"results/provenance/{RUN}.parquet.json"
ENDLESS = job(epochs=10**6)
REFUSED = ("job", "--instances")
"""A step that ends at once."""
SOON = 60


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warm")
    with recording(folder):
        assert [main(step) for step in STEPS] == [0] * len(STEPS)
    return folder


@pytest.fixture(scope="module")
def warm() -> Iterator[subprocess.Popen[bytes]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "")
        patch.delenv("PYTEST_CURRENT_TEST")
        patch.setenv("RANKBOUND_PROVENANCE", "results/provenance")
        for name in server.ONE_THREAD:
            patch.setenv(name, "1")
        process = server.start()
        assert process is not None
        assert process.stdin is not None
        yield process
        process.stdin.close()
        assert process.wait(SOON) == 0


def begin(folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start a step in `folder`; it prints the modules that its own process imports.

    It heeds Ctrl-C even if the tests do not, as in the background of a script.
    """
    command = [sys.executable, "-X", "importtime", "-m", "rankbound_study", *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(variables),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in (os.environ | variables).items() if name != "PYTEST_CURRENT_TEST"}


def run_cold(folder: Path, *words: str) -> tuple[int, str]:
    """Return a step's exit status and the last line that it printed, without a server."""
    command = [sys.executable, "-m", "rankbound_study", *words]
    step = processes.run({"args": command, "cwd": folder, "env": environment({VARIABLE: OFF})}, processes.TORCH)
    return step.returncode, "".join(step.stderr.splitlines()[-1:])


def run(folder: Path, *words: str, **variables: str) -> tuple[int, bool, str]:
    """Return a step's exit status, whether another process ran it, and the last line that it printed."""
    step = begin(folder, *words, **variables)
    lines = step.communicate(timeout=SOON)[1].splitlines()
    printed = [line for line in lines if not line.startswith("import time:")]
    return step.returncode, not any(line.endswith(" rankbound_study.cli") for line in lines), "".join(printed[-1:])


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_waiting(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(") ")[2].startswith("S")


def forks(process: subprocess.Popen[bytes]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(number) for number in children.read_text("utf-8").split()]


def started(process: subprocess.Popen[bytes], folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a training without end; return its client and its fork, once the training has begun."""
    client = begin(folder, *ENDLESS)
    until((folder / RECORD).with_suffix(".unfinished").exists)
    (fork,) = forks(process)
    return client, fork


@pytest.fixture(autouse=True)
def nothing_made(study: Path) -> Iterator[None]:
    yield
    for path in (study / "results").rglob(f"{Path(RUN).name}*"):
        if path.is_file():
            path.unlink()


def test_results_and_records_are_those_of_a_cold_start(study: Path, warm: subprocess.Popen[bytes]) -> None:
    made = {}
    for name, variables in (("warm", {}), ("cold", {VARIABLE: OFF})):
        assert run(study, *job(), **variables)[:2] == (0, name == "warm")
        record = read(study / RECORD)
        made[name] = {key: record[key] for key in ("arguments", "inputs", "outputs", "code", "switches")}
        assert 0 < record["cpu_seconds"] < 10 * record["seconds"] + 10
    assert made["warm"] == made["cold"]


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (job(model={"name": "matrix-factorization", "unheard": 1}), 2, "unknown key model.unheard"),
        (job(loss="unheard"), 2, "unknown name 'unheard'"),
        (REFUSED, 2, "expected one argument"),
        pytest.param(job(out="/dev/null/run.parquet"), 2, "/dev/null", marks=pytest.mark.long),
    ],
)
def test_an_error_has_its_status_and_its_message(
    study: Path, warm: subprocess.Popen[bytes], words: tuple[str, ...], status: int, expected: str
) -> None:
    found = run(study, *words)
    assert expected in found[2]
    assert found == (status, True, run_cold(study, *words)[1])


def test_another_environment_makes_a_cold_start(study: Path, warm: subprocess.Popen[bytes]) -> None:
    assert run(study, *REFUSED, MALLOC_ARENA_MAX="1")[:2] == (2, False)
    assert run(study, *REFUSED)[:2] == (2, True)


def test_without_a_server_a_step_runs_by_itself(study: Path) -> None:
    assert run(study, *REFUSED, **{VARIABLE: "rankbound-nobody"})[:2] == (2, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_step(study: Path, warm: subprocess.Popen[bytes], number: signal.Signals) -> None:
    client, _ = started(warm, study)
    client.send_signal(number)
    output = client.communicate(timeout=SOON)[1]
    assert client.returncode == 128 + signal.SIGTERM
    assert "ended by SIGTERM; no partial output is left" in output
    until(lambda: not forks(warm))
    assert not list((study / "results").rglob(".*"))


def test_the_step_ends_with_its_client(study: Path, warm: subprocess.Popen[bytes]) -> None:
    client, _ = started(warm, study)
    client.kill()
    client.communicate(timeout=SOON)
    until(lambda: not forks(warm))


def test_a_client_that_ends_halfway_leaves_no_fork(warm: subprocess.Popen[bytes]) -> None:
    for said in (b"", b"{"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"\0{os.environ[VARIABLE]}")
            client.sendall(said)
            until(lambda: forks(warm))
        until(lambda: not forks(warm))


def test_a_killed_step_has_the_status_of_one(study: Path, warm: subprocess.Popen[bytes]) -> None:
    client, fork = started(warm, study)
    os.kill(fork, signal.SIGKILL)
    output = client.communicate(timeout=SOON)[1]
    assert client.returncode == 128 + signal.SIGKILL
    assert "the step was killed" in output


def test_a_server_ends_with_the_process_that_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    program = "from rankbound_study.warm import server; print(server.start().pid, flush=True)"
    parent = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=SOON)
    until(lambda: not Path(f"/proc/{parent.stdout.strip()}").exists())


def test_no_server_is_started_where_warm_starts_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, OFF)
    assert server.start() is None


def test_other_users_are_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    with here, there:
        assert server._is_own_user(here)
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
        assert not server._is_own_user(here)


def test_ctrl_c_before_the_fork_answers_ends_without_a_traceback(tmp_path: Path) -> None:
    name = f"rankbound-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        step = begin(tmp_path, "table", "--help", **{VARIABLE: name})
        connection, _ = listening.accept()
        with connection:
            assert connection.recv(1)
            # A signal between two instructions, just before the step waits, would be seen after its wait alone.
            until(lambda: is_waiting(step.pid))
            step.send_signal(signal.SIGINT)
            lines = step.communicate(timeout=SOON)[1].splitlines()
    assert (step.returncode, lines[-1]) == (130, "ended by SIGINT before the step began: run it again")
