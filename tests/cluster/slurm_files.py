"""The configuration of a SLURM of one machine: no cgroups, no systemd, all on the loopback address."""

import os
import socket
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ETC = "/etc/slurm"
"""Where programs look for their configuration; Snakemake's plugin keeps them from hearing of another place."""
_MEMORY = 6000
"""Megabytes that each node says it has; nothing measures what jobs use."""


@dataclass(frozen=True)
class Site:
    """The folders of one scheduler and the ports of its daemons."""

    folder: Path
    ports: Mapping[str, int]
    cpus: int

    @property
    def mounted(self) -> tuple[str, str]:
        """The folder of the configuration, and where programs look for it."""
        return str(self.folder / "etc"), ETC

    @property
    def munge_socket(self) -> Path:
        return self.folder / "munge/socket"

    @property
    def database(self) -> Path:
        return self.folder / "database"

    def make_folders(self, nodes: Sequence[str]) -> None:
        """Folders, the key of the authentication, and a device for each node that takes a GPU's place."""
        names = ["etc", "log", "state", "spool", "munge", "database", "devices"]
        for name in [*names, *(f"spool/{node}" for node in nodes)]:
            folder = self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        for node in nodes:
            os.mknod(self.folder / "devices" / node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))

    def write(self, nodes: Sequence[str]) -> None:
        """Write the files that SLURM reads."""
        etc = self.folder / "etc"
        (etc / "slurm.conf").write_text(self._slurm(nodes), encoding="utf-8")
        devices = [f"NodeName={node} Name=gpu File={self.folder}/devices/{node}\n" for node in nodes]
        (etc / "gres.conf").write_text("".join(devices), encoding="utf-8")
        (etc / "note").write_text(_NOTE, encoding="utf-8")
        (etc / "note").chmod(0o755)
        database = _SLURMDBD.format(folder=self.folder, port=self.ports["slurmdbd"], storage=self.ports["mariadbd"])
        (etc / "slurmdbd.conf").write_text(database, encoding="utf-8")
        (etc / "slurmdbd.conf").chmod(0o600)

    def munge_flags(self) -> list[str]:
        """Flags of munged: a socket, a key and a seed of its own."""
        names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        return [*(f"--{flag}={self.folder}/munge/{name}" for flag, name in names.items()), "--force"]

    def database_flags(self) -> list[str]:
        """Flags of mariadbd: small, on the loopback address."""
        return [
            *("--no-defaults", "--user=root", f"--datadir={self.database}", f"--socket={self.database}/socket"),
            *("--bind-address=127.0.0.1", f"--port={self.ports['mariadbd']}", f"--pid-file={self.database}/pid"),
            *("--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"),
        ]

    def database_client(self) -> list[str]:
        """Flags of mariadb that reach that database as its administrator."""
        return ["--no-defaults", "-u", "root", "-S", f"{self.database}/socket"]

    def database_users(self) -> str:
        """The statements that make the database of the accounts, and its user."""
        users = [f"'slurm'@'{host}'" for host in ("127.0.0.1", "localhost")]
        made = [f"create user {user} identified by 'slurm'; grant all on slurm_acct_db.* to {user};" for user in users]
        return f"create database slurm_acct_db; {' '.join(made)}"

    def _slurm(self, nodes: Sequence[str]) -> str:
        host = socket.gethostname().split(".")[0]
        each = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs={self.cpus} RealMemory={_MEMORY} Gres=gpu:1 State=UNKNOWN"
        lines = [f"NodeName={node} Port={self.ports[node]} {each}" for node in nodes]
        partition = f"Nodes={','.join(nodes)} MaxTime=INFINITE DefMemPerCPU=512 State=UP"
        return _SLURM.format(
            host=host,
            folder=self.folder,
            port=self.ports["slurmctld"],
            accounting=_ACCOUNTING.format(port=self.ports["slurmdbd"], socket=self.munge_socket),
            nodes="\n".join([*lines, f"PartitionName=cpu Default=YES {partition}", f"PartitionName=gpu {partition}"]),
        )


# A dead node is noticed after SlurmdTimeout, and its jobs wait for nothing else. Finished jobs stay visible to squeue
# for MinJobAge: longer than a whole test. The scheduler looks for work at once after every change.
_SLURM = """\
ClusterName=sim
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/spool/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
MpiDefault=none
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/etc/note
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,sched_min_interval=50000,bf_interval=5
GresTypes=gpu
ReturnToService=2
MinJobAge=3600
MaxJobCount=20000
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=5
InactiveLimit=0
Waittime=0
{accounting}
{nodes}
"""
# What a task prints before it begins: its log says where it ran, and which GPUs it was given.
_NOTE = """\
#!/bin/sh
echo "print task on $SLURMD_NODENAME, gpus: ${CUDA_VISIBLE_DEVICES:-none}"
"""
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={socket}
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5"""
_SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""
