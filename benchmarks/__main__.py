"""Compare time and memory with public libraries: run the questions, and write the tables and the figure.

Examples:
  python -m benchmarks --quick                  a check that everything works: small sizes, a minute or two
  python -m benchmarks                          all questions, about half an hour on two cores
  python -m benchmarks --only loss evaluation   two of the questions; the tables of the others are kept
  python -m benchmarks --guard                  is anything slower than before? two minutes, by guard.csv
  python -m benchmarks --guard --keep           keep the ratios as they are now
  python -m benchmarks --report --write-docs    no measurements: docs/ from earlier results

Libraries that are not installed are reported and left out; `make bench` installs them all. Use an idle machine.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

from benchmarks import asked, page, runner
from benchmarks.questions import ALLOCATORS, GUARD, QUESTIONS
from benchmarks.runner import ROOT, read_rows

KEPT_RATIOS = Path(__file__).with_name("guard.csv")
CORES = os.sched_getaffinity(0)


def main(arguments: list[str] | None = None) -> int:
    """Run the questions and print the page; return 1 if a question failed, or a guarded ratio got worse."""
    chosen = asked("benchmarks", __doc__, arguments, only=QUESTIONS)
    chosen.threads = chosen.threads or len(CORES)
    folder = chosen.out / "quick" if chosen.quick else chosen.out
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.guard:
        # Other threads and a return of memory to the system depend on the machine more than one thread does.
        chosen.threads, found = 1, folder / f"{GUARD}.csv"
        if not _run_one(chosen, GUARD, "kept", found):
            return 1
        if chosen.keep:
            shutil.copyfile(found, KEPT_RATIOS)
        text, worse = page.guarded(read_rows(found), read_rows(KEPT_RATIOS))
        print(text, *(f"benchmarks: {size} got slower" for size in worse), sep="\n")
        return 1 if worse else 0
    machines_path, failed = folder / page.MACHINES, []
    machines = json.loads(machines_path.read_text("utf-8")) if machines_path.exists() else {}
    names = [] if chosen.report else chosen.only or [name for name in QUESTIONS if name != GUARD]
    for name, setting in [(one, setting) for one in names for setting in QUESTIONS[one].settings]:
        key, busy = f"{name}-{setting}", runner.cores_in_use()
        if busy > runner.BUSY_CORES:
            print(f"benchmarks: {key}: others are using {busy:.1f} cores of this machine", file=sys.stderr)
        if _run_one(chosen, name, setting, folder / f"{key}.csv"):
            machines[key] = {"machine": runner.describe(chosen.threads), "cores used by others": round(busy, 2)}
            machines_path.write_text(json.dumps(machines, indent=2) + "\n", encoding="utf-8")
        else:
            failed.append(key)
    if not page.read_results(folder):
        print(f"benchmarks: there are no results in {folder}; run without --report first", file=sys.stderr)
        return 1
    text = page.summary(folder, chosen.quick)
    for out in (folder, ROOT / "docs")[: 2 if chosen.write_docs else 1]:
        page.draw(page.read_results(folder), out / page.FIGURE)
        (out / "benchmarks_results.md").write_text(text, encoding="utf-8")
    print(text)
    for name in failed:
        print(f"benchmarks: {name} failed; its table is missing or outdated", file=sys.stderr)
    return 1 if failed else 0


def _run_one(chosen: argparse.Namespace, name: str, setting: str, out: Path) -> bool:
    """Write the rows of a question, which runs in a new process with this allocator and number of threads."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), str(chosen.threads))
    # Peers warn of what is deprecated.
    environment |= {**ALLOCATORS[setting], "JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    # On as many cores as threads, by which XLA and Arrow choose theirs.
    os.sched_setaffinity(0, sorted(CORES)[: chosen.threads])
    try:
        with patch.dict(os.environ, environment, clear=True):
            arguments = QUESTIONS[name], chosen.quick, not chosen.no_peers, out.stem
            runner.write_rows(out, runner.in_new_process(runner.measure, *arguments))
    except EOFError:
        return False
    finally:
        os.sched_setaffinity(0, CORES)
    return True


if __name__ == "__main__":
    sys.exit(main())
