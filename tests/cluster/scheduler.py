"""A real SLURM on this machine, for as long as a `with` block lasts: two nodes, whose GPUs are devices in name alone.

No cgroups, no systemd, all on the loopback address. The folder `slurm` has its configuration: a dead node is noticed
after SlurmdTimeout, and its jobs wait for nothing else; finished jobs stay visible to squeue for MinJobAge, longer than
a whole test; the scheduler looks for work at once after every change; a task prints where it runs and on which GPUs.

Every daemon, and every command that talks to them, sees a folder of ours at /etc/slurm, in a mount namespace of its
own: nothing outside them changes, a SLURM that the machine belongs to is left alone, and nothing stays behind, however
this process ends. Each node has a process namespace of its own, too, so that it can die as nodes do: all at once.
"""

import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAMS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
}
"""The Debian package of each program."""

ETC = "/etc/slurm"
"""Where programs look for their configuration; Snakemake's plugin keeps them from hearing of another place."""
_MEMORY = 6000
"""Megabytes that each node says it has; nothing measures what jobs use."""
_PRIVATE = ("unshare", "--mount", "--propagation", "private")
_NODE = ("--pid", "--fork", "--kill-child", "--mount-proc")
_PATIENCE = 600.0


def missing() -> str:
    """Return the reason why this machine can't run a scheduler, with a remedy; empty if it can."""
    if os.geteuid() != 0:
        return "SLURM's daemons, and namespaces for them, need root: run this as root, or in a container of yours"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    packages = [package for name, package in PROGRAMS.items() if shutil.which(name, path=path) is None]
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
        self._cpus, self._daemons = cpus, dict[str, subprocess.Popen[bytes]]()

    def __enter__(self) -> "Scheduler":
        try:
            self._write_files()
            munge = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
            flags = [f"--{flag}={self.folder}/munge/{name}" for flag, name in munge.items()]
            self._start("munged", ["munged", "--foreground", *flags, "--force"])
            self._wait("munged", (self.folder / "munge/socket").exists)
            self._start_accounting()
            self._start("slurmctld", ["slurmctld", "-D", "-c"])
            for node in self.nodes:
                self.start_node(node)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def command(self, arguments: Sequence[str], flags: Sequence[str] = ()) -> list[str]:
        """A command as one that finds this scheduler; `flags` are more of unshare's.

        It becomes one process, which ends with the one that started it, however that ends.
        """
        mounted = ["sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', str(self.folder / "etc"), ETC]
        return ["setpriv", "--pdeathsig", "KILL", *_PRIVATE, *flags, *mounted, *arguments]

    def ask(self, *arguments: str) -> str:
        """Return the output of a SLURM command."""
        printed: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "timeout": _PATIENCE}
        result = subprocess.run(self.command(arguments), env=clean(os.environ), **printed)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout.strip()

    def start_node(self, node: str) -> None:
        """Start a node, for the first time or again, and wait until it takes jobs."""
        self._start(node, ["slurmd", "-D", "-N", node], flags=_NODE)
        asked = self.command(["sinfo", "-h", "-N", "-p", "cpu", "-t", "idle", "-o", "%N"])
        self._wait(node, lambda: node in subprocess.run(asked, capture_output=True, text=True, check=False).stdout)

    def kill_node(self, node: str) -> None:
        """Let a node die: its daemon and all jobs on it end at once, and tell nobody."""
        daemon = self._daemons.pop(node)
        # unshare's one child is the first process of the node's namespace: the kernel ends the others with it.
        daemon.kill()
        daemon.wait()

    def _write_files(self) -> None:
        """Write folders, the key of the authentication, a device for each node's GPU, and what SLURM reads."""
        for name in (
            *("etc", "log", "state", "munge", "database", "devices"),
            *(f"spool/{node}" for node in self.nodes),
        ):
            folder = self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)
        (self.folder / "munge/key").write_bytes(os.urandom(128))
        for node in self.nodes:
            os.mknod(self.folder / "devices" / node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        host, names = socket.gethostname().split(".")[0], ["slurmctld", "slurmdbd", "mariadbd", *self.nodes]
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))
        each = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs={self._cpus} RealMemory={_MEMORY} Gres=gpu:1 State=UNKNOWN"
        lines = [f"NodeName={node} Port={self._ports[node]} {each}" for node in self.nodes]
        partition = f"Nodes={','.join(self.nodes)} MaxTime=INFINITE DefMemPerCPU=512 State=UP"
        lines += [f"PartitionName=cpu Default=YES {partition}", f"PartitionName=gpu {partition}"]
        values = {"host": host, "folder": self.folder, "nodes": "\n".join(lines), **self._ports}
        etc, given = self.folder / "etc", Path(__file__).with_name("slurm")
        for name in ("slurm.conf", "slurmdbd.conf"):
            (etc / name).write_text((given / name).read_text("utf-8").format_map(values), "utf-8")
        devices = (f"NodeName={node} Name=gpu File={self.folder}/devices/{node}\n" for node in self.nodes)
        (etc / "gres.conf").write_text("".join(devices), "utf-8")
        shutil.copy(given / "note", etc / "note")
        for path, mode in ((self.folder / "munge/key", 0o400), (etc / "slurmdbd.conf", 0o600), (etc / "note", 0o755)):
            path.chmod(mode)

    def _start_accounting(self) -> None:
        data = self.folder / "database"
        administrator = ["mariadb", "--no-defaults", "-u", "root", "-S", f"{data}/socket"]
        with (self.folder / "log/install").open("wb") as log:
            install = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"]
            flags = ["--auth-root-authentication-method=normal", "--skip-test-db"]
            subprocess.run([*install, *flags], check=True, stdout=log, stderr=log)
        flags = ["--no-defaults", "--user=root", f"--datadir={data}", f"--socket={data}/socket"]
        flags += [f"--pid-file={data}/pid", "--bind-address=127.0.0.1", f"--port={self._ports['mariadbd']}"]
        flags += ["--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"]
        self._start("mariadbd", ["mariadbd", *flags])
        self._wait("mariadbd", lambda: _succeeds([*administrator, "-e", "select 1"]))
        users = [f"'slurm'@'{host}'" for host in ("127.0.0.1", "localhost")]
        made = [f"create user {user} identified by 'slurm'; grant all on slurm_acct_db.* to {user};" for user in users]
        subprocess.run([*administrator, "-e", f"create database slurm_acct_db; {' '.join(made)}"], check=True)
        self._start("slurmdbd", ["slurmdbd", "-D"])
        self._wait("slurmdbd", lambda: _succeeds(self.command(["sacctmgr", "-n", "list", "cluster"])))
        for words in ("cluster sim", "account default cluster=sim", "user root account=default"):
            self.ask("sacctmgr", "-i", "-Q", "add", *words.split())

    def _start(self, name: str, arguments: Sequence[str], flags: Sequence[str] = ()) -> None:
        with (self.folder / "log" / name).open("ab") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            alone: dict[str, Any] = {"env": clean(os.environ), "start_new_session": True}
            self._daemons[name] = subprocess.Popen(self.command(arguments, flags), **streams, **alone)

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


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
