"""The faults that befall one step: each is done to a sandbox, and undone again, so that the step can run once more."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_steps import RAW, SEALED, Sandbox

NOBODY = 65534
PAGE = 4096
ROOT = os.geteuid() == 0


@dataclass(frozen=True)
class Undisturbed:
    """The needs of a step without a fault: seconds, and the number of accesses to files."""

    seconds: float
    events: int

    @classmethod
    def of(cls, sandbox: Sandbox) -> "Undisturbed":
        """Run a step without a fault, which also shows that its outputs have the same bytes every time."""
        events = sandbox.folder.with_suffix(".events")
        start = time.monotonic()
        status = sandbox.run(events=events)
        seconds = time.monotonic() - start
        assert status == 0, sandbox.log()
        assert sandbox.made() == sandbox.expected()
        assert sandbox.left_behind() == []
        return cls(seconds, int(events.read_text("utf-8")))


@dataclass(frozen=True)
class Case:
    """A fault about to happen."""

    sandbox: Sandbox
    undisturbed: Undisturbed
    random: random.Random

    def message(self, status: int, *mentioned: str) -> None:
        """Check that a step which gave up did so by a message to a person."""
        log = self.sandbox.log()
        assert status == 2, (status, log)
        assert "Traceback" not in log, log
        assert f"rankbound_study {self.sandbox.step.arguments[0]}: " in log, log
        assert not mentioned or any(text in log for text in mentioned), (mentioned, log)


def killed(case: Case) -> None:
    """kill -9 of the whole group at any time."""
    _signalled(case, signal.SIGKILL)


def killed_at_a_file(case: Case) -> None:
    """kill -9 just before the step makes, renames or removes a file."""
    status = case.sandbox.run(kill_at=case.random.randint(1, case.undisturbed.events))
    # How often a step touches files may vary a little (folders that are already there).
    assert status in (-signal.SIGKILL, 0), case.sandbox.log()


def terminated(case: Case) -> None:
    """SIGTERM, as schedulers send it: the step tidies up before it ends."""
    _signalled(case, signal.SIGTERM)
    assert [name for name in case.sandbox.left_behind() if ".shards/" not in name] == []


def full_disk(case: Case) -> None:
    """A file system with too little room for the outputs, until somebody makes room."""
    sandbox = case.sandbox
    needed = sum(-(-sandbox.project.path(name).stat().st_size // PAGE) for name in sandbox.step.outputs)
    with _small_disk(sandbox, case.random.randrange(needed)) as enlarge:
        status = sandbox.run()
        assert status == 2, (status, sandbox.log())
        # The log lies on the same disk: without a single free page, nothing can be said.
        if os.statvfs(sandbox.folder).f_bfree or sandbox.log():
            case.message(status, "No space left on device")
        whole_or_absent(sandbox)
        enlarge()
        _runs_again(sandbox)


def file_too_large(case: Case) -> None:
    """A limit on the size of files, as quotas and batch systems set it."""
    sandbox = case.sandbox
    largest = max(sandbox.project.path(name).stat().st_size for name in sandbox.step.outputs)
    limit = case.random.randrange(largest)
    status = sandbox.run(largest_file=limit)
    assert status == 2, (status, sandbox.log())
    # The limit is that of the log, too.
    if len(sandbox.log().encode()) < limit:
        case.message(status, "File too large")


def folder_forbidden(case: Case) -> None:
    """An output folder that belongs to somebody else."""
    sandbox = case.sandbox
    folder = sandbox.path(case.random.choice(sandbox.step.outputs)).parent
    status = _run_by_another(sandbox, folder, 0o555)
    case.message(status, "Permission denied", "Operation not permitted")
    assert str(folder.relative_to(sandbox.folder)) in sandbox.log()


def input_forbidden(case: Case) -> None:
    """An input that may not be read."""
    sandbox = case.sandbox
    name = case.random.choice(sandbox.step.inputs)
    status = _run_by_another(sandbox, sandbox.path(name), 0)
    if status:
        case.message(status, name)
        assert "Permission denied" in sandbox.log(), sandbox.log()


def cut_input(case: Case) -> None:
    """An input whose end is missing."""
    _damaged_input(case, lambda data: data[: case.random.randrange(len(data))])


def flipped_input(case: Case) -> None:
    """An input one bit of which has changed."""
    _damaged_input(case, lambda data: flipped(data, case.random))


def flipped_shard(case: Case) -> None:
    """A finished piece of a killed job, one bit of which has changed."""
    sandbox = case.sandbox
    kept = sandbox.path(sandbox.step.outputs[0])
    for share in (0.7, 0.85, 0.95, 1.0):
        sandbox.run(kill_at=int(share * case.undisturbed.events))
        shards = [path for path in sandbox.folder.rglob("*.shards/*/*") if not path.name.startswith(".")]
        if shards or kept.exists():
            break
    if not shards:
        return
    shard = case.random.choice(sorted(shards))
    shard.write_bytes(flipped(shard.read_bytes(), case.random))
    if status := sandbox.run():
        case.message(status, shard.name)
        shard.unlink()


def two_at_once(case: Case) -> None:
    """The same step twice at the same time, in one folder."""
    first, second = case.sandbox.start(), case.sandbox.start()
    statuses = [case.sandbox.wait(first), case.sandbox.wait(second)]
    assert statuses == [0, 0], case.sandbox.log()
    assert case.sandbox.made() == case.sandbox.expected()
    assert case.sandbox.left_behind() == []


Kind = Callable[[Case], None]

# What happens to every rule, to every rule that reads what another one wrote, and to every rule that keeps finished
# pieces; and how often.
OF_EVERY_STEP: dict[str, tuple[Kind, int]] = {
    "killed": (killed, 1),
    "killed at a file": (killed_at_a_file, 2),
    "SIGTERM": (terminated, 1),
    "full disk": (full_disk, 1),
    "file limit": (file_too_large, 1),
    "output forbidden": (folder_forbidden, 1),
    "two at once": (two_at_once, 1),
}
OF_INPUTS: dict[str, tuple[Kind, int]] = {
    "input forbidden": (input_forbidden, 1),
    "input cut": (cut_input, 1),
    "input flipped": (flipped_input, 4),
}
OF_SHARDS: dict[str, tuple[Kind, int]] = {"shard flipped": (flipped_shard, 2)}


def whole_or_absent(sandbox: Sandbox) -> None:
    """Check that what is there of the outputs is whole, and what they should be."""
    expected = sandbox.expected()
    assert {name: expected[name] for name in sandbox.made()} == sandbox.made()


def _runs_again(sandbox: Sandbox) -> None:
    status = sandbox.run()
    assert status == 0, sandbox.log()
    assert sandbox.made() == sandbox.expected()
    assert sandbox.left_behind() == []


def recover(sandbox: Sandbox) -> None:
    """Check what a fault left, repair the inputs, and run again: the same bytes, and nothing else, must be there."""
    whole_or_absent(sandbox)
    sandbox.fill()
    _runs_again(sandbox)


def _signalled(case: Case, number: signal.Signals) -> None:
    process = case.sandbox.start()
    time.sleep(case.random.uniform(0, case.undisturbed.seconds))
    # Still ours: a process that has ended stays until it is waited for.
    os.kill(process, number)
    if number == signal.SIGKILL:
        # It may have been killed before it became a leader.
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
    status = case.sandbox.wait(process)
    assert status in (-number, 128 + number, 0), (status, case.sandbox.log())
    assert "Traceback" not in case.sandbox.log(), case.sandbox.log()


def _damaged_input(case: Case, change: Callable[[bytes], bytes]) -> None:
    sandbox = case.sandbox
    name = case.random.choice(sandbox.step.inputs)
    data = sandbox.path(name).read_bytes()
    sandbox.path(name).write_bytes(change(data))
    if status := sandbox.run():
        case.message(status, name, Path(name).name)
    elif sandbox.made() != sandbox.expected():
        # A damaged text may still be readable: only recorded checksums tell.
        always_noticed = name.endswith(SEALED) or name.startswith(RAW)
        assert not always_noticed, f"a damaged {name} changed the results, and nobody noticed"
        for output in sandbox.step.outputs:
            sandbox.path(output).unlink(missing_ok=True)


def flipped(data: bytes, numbers: random.Random) -> bytes:
    """Return the bytes with one bit changed."""
    changed = bytearray(data)
    changed[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
    return bytes(changed)


def _run_by_another(sandbox: Sandbox, path: Path, mode: int) -> int:
    """Run a step as a user who may read and write everything but one path; return its status."""
    for one in [sandbox.folder, *sandbox.folder.rglob("*")]:
        one.chmod(0o777 if one.is_dir() else 0o666)
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        return sandbox.run(user=NOBODY if ROOT else 0)
    finally:
        path.chmod(before)


@contextmanager
def _small_disk(sandbox: Sandbox, free_pages: int) -> Iterator[Callable[[], None]]:
    """The sandbox on a file system of its own with so many free pages; yields what makes it large."""
    if not ROOT:
        pytest.skip("a small file system can be mounted by root alone: run as root to see what a full disk does")
    place = str(sandbox.folder)

    def mount(options: str, *where: str) -> None:
        subprocess.run(["mount", "-o", options, *where, place], check=True)

    def enlarge() -> None:
        ballast.unlink()
        mount("remount,size=64m")

    try:
        mount("size=64m", "-t", "tmpfs", "faults")
    except subprocess.CalledProcessError:
        pytest.skip("this machine lets nobody mount a small file system (a container?): no full disk")
    try:
        sandbox.fill()
        # A size of no pages at all would mean: as large as the memory.
        ballast = sandbox.path("ballast")
        ballast.write_bytes(bytes(PAGE))
        state = os.statvfs(place)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize // PAGE
        mount(f"remount,size={(used + free_pages) * PAGE}")
        yield enlarge
    finally:
        subprocess.run(["umount", place], check=True)
