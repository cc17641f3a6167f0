# make demo    the whole workflow on generated data: no download, minutes on a laptop
# make paper   the real thing: fetches three data sets, trains some 3,000 models, draws every table and figure
# make test    format, types, and all tests but the next two
# make test-faults    kills, full disks, damaged and hostile files against every step; DVC's round trips
# make test-cluster   a real SLURM with two nodes on this machine (Debian; installs its packages where it is root)
# make bench   time and memory side by side with public libraries, in a virtual environment of its own (.venv-bench);
#              BENCH="--quick" and the like are handed on: docs/benchmarks.md
# Each sets up what it needs first (.venv, if nothing else is said). Needs make and Python 3.11 or newer; `make paper`
# also libarchive or unar, for MQ2008's .rar.
#
# PYTHON=python3.12                     another interpreter
# CORES=4                               how many steps run at once (default: all cores)
# TORCH_INDEX=https://...               another package index for torch alone (envs/torch.txt says why)
# RANKBOUND_MIRROR=/folder/or/https://  where the raw archives lie, if not at their publishers

PYTHON ?= python3
CORES ?= all
TORCH_INDEX ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PEERS := .venv-bench
CODE := src tests benchmarks
RULES := Snakefile workflow

.DEFAULT_GOAL := help
.PHONY: help demo paper test test-faults test-cluster bench lint format check clean setup
.DELETE_ON_ERROR:

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

demo: $(READY)
	$(BIN)/snakemake --workflow-profile profiles/demo --cores $(CORES) --quiet rules host
	@echo "demo (generated data): results/demo/paper/index.html, results/demo/paper/rankbound.pdf"

paper: $(READY)
	$(BIN)/snakemake --cores $(CORES) --quiet rules host
	@echo "paper: results/paper/index.html, results/paper/rankbound.pdf"

test: lint check

# FAULTS="--fault-seed 7 --fault-table faults.csv" and the like are handed on: docs/faults.md.
test-faults: $(READY)
	$(BIN)/python -m pip install --quiet -c envs/cpu.txt -e ".[faults]"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults -n 2 --dist load $(FAULTS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/dvc

APT := apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600
SLURM := slurmctld slurmd slurm-client munge slurmdbd mariadb-server
test-cluster: $(READY)
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || { $(APT) update && $(APT) install -y --no-install-recommends $(SLURM); }
	RANKBOUND_CLUSTER=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cluster -p no:xdist

bench: $(PEERS)/ready
	$(PEERS)/bin/python -m benchmarks $(BENCH)

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/snakefmt --check --line-length 120 $(RULES)

# One thread a process: the two test processes share the cores, and so do the steps that they start.
check: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

format: $(READY)
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)
	$(BIN)/snakefmt --line-length 120 $(RULES)

setup: $(READY)

# Results and raw archives stay: what took long to make or to fetch is removed by hand.
clean:
	rm -rf $(VENV) $(PEERS) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Torch first and alone, so that nothing after it asks for another build.
$(READY): pyproject.toml envs/cpu.txt envs/torch.txt
	@command -v $(PYTHON) > /dev/null || { echo "make: $(PYTHON) is not there: install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is $$($(PYTHON) --version 2>&1): Python 3.11 or newer is needed; name one: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "make: $(PYTHON) cannot make virtual environments: install its venv module (Debian: apt install python3-venv)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -r envs/torch.txt
	$(BIN)/python -m pip install --quiet -c envs/cpu.txt -e ".[dev]"
	@touch $@

# pytorchltr's reader of files is C code that no longer compiles, but its losses are plain Python: unpacked, not built.
PYTORCHLTR := pytorchltr-0.2.1
$(PEERS)/ready: pyproject.toml envs/cpu.txt envs/peers.txt envs/torch.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -r envs/torch.txt
	$(PEERS)/bin/python -m pip install --quiet -c envs/peers.txt -e ".[peers]"
	$(PEERS)/bin/python -m pip download --quiet --no-deps --no-binary pytorchltr -d $(PEERS)/unbuilt $(subst -,==,$(PYTORCHLTR)) \
	  && tar -xzf $(PEERS)/unbuilt/$(PYTORCHLTR).tar.gz --strip-components=1 \
	    -C "$$($(PEERS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	    $(PYTORCHLTR)/pytorchltr $(PYTORCHLTR)/pytorchltr.egg-info \
	  || echo "make: pytorchltr could not be unpacked; the benchmarks leave it out" >&2
	@touch $@
