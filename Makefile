# make demo    the whole workflow on generated data: no download, minutes on a laptop
# make paper   the whole study: fetches three data sets, trains some 8,000 models, makes every table and figure
# make report  the paper, its figures and the verdicts once more from the scores of all trainings, in minutes
# make claim CLAIM=T45  one claim of the sources alone: what it rests on is trained, and it is decided again
# make doctor  what is installed, which data and programs are there, what is missing and how to get it; installs nothing
# make test    format, types, and all tests of library and study except the next three
# make test-workflow  the whole workflow on generated data, with every reason to run a step again; DVC's round trips
# make test-faults    kills, full disks, damaged and hostile files against every step; whatever `make test` only takes a
#              sample of
# make test-cluster   a real SLURM with two nodes on this machine (Debian; installs its packages if run as root)
# make lock    versions with checksums, envs/lock.txt, from pyproject.toml and the versions in envs/cpu.txt
# make docs    the documentation site, site/index.html: docs/ and the docstrings, in an environment of its own (.venv-docs)
# make sbom    a software bill of materials, sbom.json (CycloneDX), and the licences of all that is installed
# make release builds wheel and sdist into dist/, checks them, installs them into fresh environments (oldest and newest
#              versions) and tries them there; uploads nothing. PYTHONS="/path/python3.12 ..." names interpreters
# make bench   time and memory compared with public libraries, in a separate virtual environment (.venv-bench), and the
#              numbers of CatBoost and RecBole beside ours, in another (.venv-names);
#              BENCH="--quick" and the like are passed on: docs/benchmarks.md
# Each target sets up its virtual environment first (.venv by default). Needs make and Python 3.11 or newer; `make
# paper` also needs libarchive or unar, for MQ2008's .rar.
#
# PYTHON=python3.12                     another interpreter
# CORES=4                               number of steps at once (default: all cores)
# TORCH_INDEX=https://...               another package index for torch alone (see envs/torch.txt)
# VENV=/folder                          another place for the virtual environment
# RANKBOUND_MIRROR=/folder/or/https://  location of the raw archives, if not at their publishers

PYTHON ?= python3
CORES ?= all
TORCH_INDEX ?=
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PEERS := .venv-bench
NAMES := .venv-names
TOOLS := .venv-tools
DOCS := .venv-docs
CODE := src tests benchmarks website envs
RULES := Snakefile workflow

# Snakemake, DVC, matplotlib and pip keep caches and settings at home. Where that cannot be written, they get one here.
ifeq ($(shell mkdir -p "$$HOME/.cache" 2> /dev/null && test -w "$$HOME/.cache" && echo yes),)
export HOME := $(CURDIR)/.cache
endif

# Run snakemake with these options, which are shown; what is said if it ends early is not. A killed snakemake leaves its
# lock, and the next one cannot know whether it still lives.
define SNAKEMAKE
@echo '$(BIN)/snakemake $(1) --cores $(CORES) --quiet rules host'
@$(BIN)/snakemake $(1) --cores $(CORES) --quiet rules host || { status=$$?; \
	if [ -n "$$(ls -A .snakemake/locks 2> /dev/null)" ]; then echo "make: another snakemake works in this folder, or was \
	killed here. If none is running: $(strip $(BIN)/snakemake $(1) --unlock)" >&2; \
	else echo "make: not finished; 'make $@' goes on from here: finished steps, and finished folds of a training, are kept" >&2; \
	fi; exit $$status; }
endef

# For commands that are silent for minutes: say what they do, and on a terminal how long it has taken.
CLOCK = $(PYTHON) envs/with_clock.py

define REQUIRE_PYTHON
@command -v $(PYTHON) > /dev/null || { echo "make: $(PYTHON) was not found: install Python 3.11 or newer, or give its path: make PYTHON=/path/to/python3" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is $$($(PYTHON) --version 2>&1): Python 3.11 or newer is needed; choose one: make PYTHON=python3.11" >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help demo paper report claim doctor test test-workflow test-faults setup-faults test-cluster bench docs lint \
  format kernels check clean setup lock sbom release
.DELETE_ON_ERROR:

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

demo: $(READY)
	$(BIN)/python -m rankbound_study check-config profiles/demo/study.yaml
	$(call SNAKEMAKE,--workflow-profile profiles/demo)
	@echo "demo (generated data): results/demo/paper/paper.html and paper.pdf; supplement: index.html and rankbound.pdf"

paper: $(READY)
	$(BIN)/python -m rankbound_study check-config
	$(call SNAKEMAKE,)
	@echo "paper: results/paper/paper.html, results/paper/paper.pdf; its supplement: results/paper/index.html, rankbound.pdf"

# From the scores of all trainings, which `make paper` collects, or from released ones: EVIDENCE names the file.
# REPORT="--smallest-effect nDCG=0.005" and the like are passed on.
EVIDENCE ?= $(firstword $(wildcard published_results/evidence.parquet) results/evidence.parquet)
report: $(READY)
	$(BIN)/python -m rankbound_study report $(EVIDENCE) --out-dir results/report --elsewhere published_results $(REPORT)
	@echo "report: results/report/paper.html, results/report/paper.pdf"

# CLAIM=T45: trains what its verdict rests on, nothing else, and decides it again.
CLAIM_FILE = results/claims/$(CLAIM)
claim: $(READY)
	@[ -n "$(CLAIM)" ] || { echo "make: which claim? make claim CLAIM=T45 (docs/verdicts.md has all)" >&2; exit 1; }
	$(BIN)/python -m rankbound_study claim $(CLAIM) --evidence $(EVIDENCE) --out $(CLAIM_FILE).yaml
	$(call SNAKEMAKE,$(CLAIM_FILE)/tables/table_claims.csv --configfile $(CLAIM_FILE).yaml)
	@grep "^| $(CLAIM) " $(CLAIM_FILE)/tables/table_claims.md

# FILES="config.yaml mine.yaml" for another configuration.
doctor:
	$(if $(wildcard $(BIN)/python),,$(REQUIRE_PYTHON))
	@PYTHONPATH=src $(or $(wildcard $(BIN)/python),$(PYTHON)) -m rankbound_study doctor $(FILES)

# Side by side: most of lint is one process, and the tests wait for others now and then.
test: $(VENV)/ready-triton
	@$(MAKE) --no-print-directory -j2 lint check

$(VENV)/ready-triton: $(READY)
	$(BIN)/python -m pip install --quiet --no-build-isolation -c envs/cpu.txt -e ".[triton]"
	@touch $@

# FAULTS="--fault-seed 7" and the like are passed on: docs/faults.md.
test-faults: $(VENV)/ready-faults
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/faults --rest -n 2 --dist load $(FAULTS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/library tests/study --rest -n 2 --dist loadfile --no-loadscope-reorder

test-workflow: $(VENV)/ready-faults $(VENV)/ready-triton
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2 --dist load
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/dvc tests/workflow --rest -n 2 --dist loadfile --no-loadscope-reorder

setup-faults: $(VENV)/ready-faults

$(VENV)/ready-faults: $(READY) $(DOCS)/ready
	$(BIN)/python -m pip install --quiet --no-build-isolation -c envs/cpu.txt -e ".[faults]"
	@touch $@

APT := apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600
SLURM := slurmctld slurmd slurm-client munge slurmdbd mariadb-server
test-cluster: $(READY)
	@[ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || { $(APT) update && $(APT) install -y --no-install-recommends $(SLURM); }
	RANKBOUND_CLUSTER=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cluster -p no:xdist

bench: $(PEERS)/ready $(NAMES)/ready
	$(PEERS)/bin/python -m benchmarks $(BENCH)
	$(NAMES)/bin/python -m benchmarks.coming_from

# Pages from code need the study, the rest only what the site is built with. Not --quiet: it hides what --strict refuses.
docs: $(READY) $(DOCS)/ready
	$(BIN)/python -m website
	PYTHONPATH=src NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict
	@echo "docs: site/index.html"

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/snakefmt --check --line-length 120 $(RULES)
	$(BIN)/snakemake --lint

# Before the tests, whose processes would compile the same kernels at the same time.
kernels: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.compile_kernels

# One thread per process: the two test processes and the steps that they start share the cores. Byte code is kept
# whatever the environment says, since the tests start some two hundred interpreters.
check: kernels
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

format: $(READY)
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)
	$(BIN)/snakefmt --line-length 120 $(RULES)

setup: $(READY)

# Results and raw archives stay: remove by hand what took long to make or fetch.
clean:
	rm -rf $(VENV) $(PEERS) $(NAMES) $(TOOLS) $(DOCS) site build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Torch first and alone, so that no later package requests another build. Every other package has to have a checksum of
# envs/lock.txt; setuptools comes before the rest, which has packages without a wheel. It takes a dollar sign in its own
# path for a variable.
$(READY): pyproject.toml envs/lock.txt envs/torch.txt
	$(REQUIRE_PYTHON)
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "make: $(PYTHON) cannot make virtual environments: install its venv module (Debian: apt install python3-venv)" >&2; exit 1; }
	$(if $(findstring $$,$(if $(filter /%,$(VENV)),$(VENV),$(CURDIR))),$(error a virtual environment cannot be installed in a folder whose path has a dollar sign: choose another place, as in make VENV=/tmp/rankbound-venv $(MAKECMDGOALS)))
	@test -x $(BIN)/python || $(CLOCK) "make a virtual environment, $(VENV)" $(PYTHON) -m venv $(VENV)
	@$(CLOCK) "install torch (the CPU's build downloads 200 MB, CUDA's several GB)" \
	  $(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -r envs/torch.txt
	@sed -n '/^setuptools==/,/[^\\]$$/p' envs/lock.txt > $(VENV)/setuptools.txt
	@$(CLOCK) "install setuptools" $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r $(VENV)/setuptools.txt
	@$(CLOCK) "install $$(grep -c '^[a-zA-Z]' envs/lock.txt) packages of envs/lock.txt (minutes; 3 GB of disk)" \
	  $(BIN)/python -m pip install --quiet --no-deps --require-hashes --no-build-isolation --use-pep517 -r envs/lock.txt
	@$(CLOCK) "install this clone" $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(TOOLS)/ready: pyproject.toml envs/tools.txt
	@test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	@$(CLOCK) "install the tools of a release ($(TOOLS))" $(TOOLS)/bin/python -m pip install --quiet -r envs/tools.txt
	@touch $@

$(DOCS)/ready: envs/docs.txt
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(CLOCK) "install what the site is built with ($(DOCS))" $(DOCS)/bin/python -m pip install --quiet -r envs/docs.txt \
	  || { echo "make: what envs/docs.txt lists, for the site alone, could not be installed: it comes from a package index, \
	once; no other step of make docs needs a network" >&2; exit 1; }
	@touch $@

lock: $(TOOLS)/ready
	$(TOOLS)/bin/uv pip compile --quiet pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  -c envs/cpu.txt -c envs/torch.txt --no-emit-package torch --no-annotate --no-header --upgrade -o envs/lock.txt

sbom: $(READY) $(TOOLS)/ready
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --of JSON -o sbom.json $(BIN)/python
	$(TOOLS)/bin/pip-licenses --python $(BIN)/python --order license --from mixed

release: $(TOOLS)/ready
	$(TOOLS)/bin/python -m tests.release $(if $(TORCH_INDEX),--torch-index $(TORCH_INDEX)) $(if $(PYTHONS),--pythons $(PYTHONS))

# pytorchltr's file reader is C code that no longer compiles, but its losses are plain Python: unpack it, do not build.
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
	$(PEERS)/bin/python -m pip install --quiet --no-deps allRank==1.4.3 \
	  || echo "make: allRank could not be installed; the benchmarks leave it out" >&2
	@touch $@

# RecBole requires versions of long ago, and ray, which its metrics do without.
$(NAMES)/ready: pyproject.toml envs/cpu.txt envs/names.txt envs/torch.txt
	test -x $(NAMES)/bin/python || $(PYTHON) -m venv $(NAMES)
	$(NAMES)/bin/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -r envs/torch.txt
	$(NAMES)/bin/python -m pip install --quiet -r envs/names.txt -e .
	$(NAMES)/bin/python -m pip install --quiet --no-deps recbole==1.2.1
	@touch $@
