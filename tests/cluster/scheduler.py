"""A real SLURM on this machine, for as long as a `with` block lasts: two nodes, whose GPUs are devices in name alone.

Every daemon, and every command that talks to them, sees a folder of ours at /etc/slurm, in a mount namespace of its
own: nothing outside them changes, a SLURM that the machine belongs to is left alone, and nothing stays behind, however
this process ends. Each node has a process namespace of its own, too, so that it can die as nodes do: all at once.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from slurm_files import ETC, Site

PROGRAMS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
}
"""The Debian package of each program."""

_PRIVATE = ("unshare", "--mount", "--propagation", "private")
_NODE = ("--pid", "--fork", "--kill-child", "--mount-proc")
_PATIENCE = 600.0


def missing() -> str:
    """Return the reason why this machine can't run a scheduler, with a remedy; empty if it can."""
    if os.geteuid() != 0:
        return "SLURM's daemons, and namespaces for them, need root: run this as root, or in a container of yours"
    packages = [package for name, package in PROGRAMS.items() if not _found(name)]
    if packages:
        return f"not installed: apt-get install -y --no-install-recommends {' '.join(packages)}"
    if not Path(ETC).is_dir():
        return f"{ETC} is no folder: reinstall slurm-client"
    tried = subprocess.run([*_PRIVATE, *_NODE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"this machine gives out no namespaces: {tried.stderr.strip()}; a container needs CAP_SYS_ADMIN"
    return ""


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Without settings that would lead to another SLURM; with the folder of Debian's daemons in the path."""
    kept = {name: value for name, value in environment.items() if not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))}
    return kept | {"PATH": f"{environment.get('PATH', '')}:/usr/sbin:/sbin"}


class Scheduler:
    """A scheduler in `folder`, whose partitions `cpu` (the default) and `gpu` both have the nodes sim0, sim1, ...

    Args:
        folder: what is written lies here: configuration, logs, state. Its path should be short: it holds sockets.
        nodes: how many there are, each with one GPU.
        cpus: how many processors each node says it has, whatever the machine has.
    """

    def __init__(self, folder: Path, nodes: int = 2, cpus: int = 1) -> None:
        self.folder = folder.resolve()
        self.nodes = [f"sim{number}" for number in range(nodes)]
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        names = ["slurmctld", "slurmdbd", "mariadbd", *self.nodes]
        self._site = Site(self.folder, dict(zip(names, _free_ports(len(names)), strict=True)), cpus)

    def __enter__(self) -> "Scheduler":
        try:
            self._site.make_folders(self.nodes)
            self._site.write(self.nodes)
            self._start("munged", ["munged", "--foreground", *self._site.munge_flags()])
            self._wait("munged", self._site.munge_socket.exists)
            self._start_accounting()
            self._start("slurmctld", ["slurmctld", "-D", "-c"])
            for node in self.nodes:
                self.start_node(node)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def command(self, arguments: Sequence[str], flags: Sequence[str] = ()) -> list[str]:
        """A command as one that finds this scheduler; `flags` are more of unshare's.

        It becomes one process, which ends with the one that started it, however that ends.
        """
        mounted = ["sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', *self._site.mounted]
        return ["setpriv", "--pdeathsig", "KILL", *_PRIVATE, *flags, *mounted, *arguments]

    def ask(self, *arguments: str) -> str:
        """Return the output of a SLURM command."""
        result = subprocess.run(
            self.command(arguments),
            capture_output=True,
            text=True,
            check=False,
            env=clean(os.environ),
            timeout=_PATIENCE,
        )
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout.strip()

    def start_node(self, node: str) -> None:
        """Start a node, for the first time or again, and wait until it takes jobs."""
        self._start(node, ["slurmd", "-D", "-N", node], flags=_NODE)
        self._wait(node, lambda: node in self._idle())

    def kill_node(self, node: str) -> None:
        """Let a node die: its daemon and all jobs on it end at once, and tell nobody."""
        daemon = self._daemons.pop(node)
        # unshare's one child is the first process of the node's namespace: the kernel ends the others with it.
        daemon.kill()
        daemon.wait()

    def _start_accounting(self) -> None:
        data, administrator = self._site.database, ["mariadb", *self._site.database_client()]
        with (self.folder / "log/install").open("wb") as log:
            install = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"]
            flags = ["--auth-root-authentication-method=normal", "--skip-test-db"]
            subprocess.run([*install, *flags], check=True, stdout=log, stderr=log)
        self._start("mariadbd", ["mariadbd", *self._site.database_flags()])
        self._wait("mariadbd", lambda: _succeeds([*administrator, "-e", "select 1"]))
        subprocess.run([*administrator, "-e", self._site.database_users()], check=True)
        self._start("slurmdbd", ["slurmdbd", "-D"])
        self._wait("slurmdbd", lambda: _succeeds(self.command(["sacctmgr", "-n", "list", "cluster"])))
        for words in ("cluster sim", "account default cluster=sim", "user root account=default"):
            self.ask("sacctmgr", "-i", "-Q", "add", *words.split())

    def _idle(self) -> str:
        result = subprocess.run(
            self.command(["sinfo", "-h", "-N", "-p", "cpu", "-t", "idle", "-o", "%N"]),
            capture_output=True,
            text=True,
            check=False,
        )
        return result.stdout

    def _start(self, name: str, arguments: Sequence[str], flags: Sequence[str] = ()) -> None:
        with (self.folder / "log" / name).open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                self.command(arguments, flags),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean(os.environ),
                start_new_session=True,
            )

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE
        while not ready():
            if self._daemons[name].poll() is not None or time.monotonic() > end:
                log = (self.folder / "log" / name).read_text("utf-8", "replace")
                raise RuntimeError(f"{name} does not answer; the end of its log:\n{log[-2000:]}")
            time.sleep(0.1)

    def _end(self) -> None:
        # Nodes first, the database last: each can still tell what it has to.
        for name, daemon in reversed(self._daemons.items()):
            daemon.send_signal(signal.SIGKILL if name in self.nodes else signal.SIGTERM)
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()


def _found(name: str) -> bool:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


def _succeeds(command: Sequence[str]) -> bool:
    done: subprocess.CompletedProcess[Any] = subprocess.run(command, capture_output=True, check=False)
    return done.returncode == 0


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
