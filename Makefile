# Every target sets up what it needs, in an environment of its own below the project; that is
# done again only when pyproject.toml or constraints.txt changed. Python with pip and make are
# all that has to be there. Choose the Python, and where the environment goes, like this:
#
#     make test PYTHON=python3.13 VENV=.venv-3.13

PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
PY := $(BIN)/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The tests start many a process; their bytecode is kept, even where the environment says not to.
CACHED := PYTHONDONTWRITEBYTECODE=

# make test COMPILED=1: with the compiled core; without it, the Python runs even if both are there.
COMPILED ?=
BUILT := $(if $(COMPILED),compiled)
export MUSTER_PURE := $(if $(COMPILED),,1)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# `make -j`: what one check says stays together, where make can see to it (from 4.0).
ifneq ($(filter output-sync,$(.FEATURES)),)
MAKEFLAGS += --output-sync=target
endif

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 16

.PHONY: demo
demo: $(VENV)/.runtime ## Replay a trace of a real GPU cluster, and compare with the published figures
	@$(PY) examples/philly/demo.py --reports build/demo

.PHONY: evidence
evidence: $(VENV)/.runtime ## Check all that docs/evidence.md claims: published figures, each start of FCFS and EASY, loads of others
	@$(PY) -m examples.evidence

.PHONY: demo-ray
demo-ray: $(VENV)/.ray ## Run three programs with plain Ray and with Muster, on a small cluster of Ray here
	@$(PY) examples/ray/demo.py

.PHONY: demo-slurm
demo-slurm: $(VENV)/.runtime ## Evict a job with plain Slurm and with Muster, on a small Slurm here (as root)
	@$(PY) -m tests.engines.slurm.cluster $(abspath $(PY)) examples/slurm/evict.py

.PHONY: serve
serve: $(VENV)/.serve ## Run Muster as a batch system on this machine with a few jobs, until Ctrl-C
	@$(PY) examples/serve/serve.py --state build/serve

# The tests of the service start real servers, and take minutes by themselves.
SERVICE := tests/actors/serving tests/clash tests/attack tests/pair tests/page
# Shorter: make test-engines ENGINES=tests/engines/scheduled/test_runs.py
ENGINES ?= tests/engines

# Shorter: make test-long LONG=tests/crash
LONG ?= $(addprefix --ignore=,$(SERVICE) tests/engines tests/kubernetes)

.PHONY: test
test: $(VENV)/.test $(BUILT) ## Run the tests but for long ones and those of the service and of engines, on all cores
	@$(CACHED) $(PY) -m pytest -n auto --dist worksteal -m "not takes_long" \
		$(addprefix --ignore=,$(SERVICE) tests/engines tests/kubernetes)

.PHONY: test-long
test-long: $(VENV)/.test $(BUILT) ## Run the long tests, of which `make test` has a part: more kills, every byte, all examples
	@$(CACHED) $(PY) -m pytest -n auto --dist worksteal -m takes_long $(LONG)

.PHONY: test-service
test-service: $(VENV)/.test $(BUILT) ## Run the tests of the service and its page, with real servers and a browser
	@bash tests/page/install.sh
	@$(CACHED) $(PY) -m pytest -n auto --dist worksteal $(SERVICE)

# Real daemons: Ray from its package, Slurm from the packages of Debian where they can be had.
.PHONY: test-engines
test-engines: $(VENV)/.engines $(BUILT) ## Run the tests of what runs work, on real clusters of Ray and Slurm
	@bash tests/engines/slurm/install.sh
	@$(CACHED) $(PY) -m pytest -m "not takes_minutes" $(ENGINES)

# Ray takes a minute until it notices that its head has gone.
.PHONY: test-engines-long
test-engines-long: $(VENV)/.engines $(BUILT) ## Run the tests of engines that wait for minutes, such as for a lost head of Ray
	@$(CACHED) $(PY) -m pytest -m takes_minutes $(ENGINES)

.PHONY: kubernetes
kubernetes: ## Build the API server of Kubernetes, and install etcd and kubectl (as root, on Debian bookworm; ten minutes once)
	@bash tests/kubernetes/install.sh

# A real API server and etcd, where `make kubernetes` has brought them.
# Shorter: make test-kubernetes KUBERNETES=tests/kubernetes/test_mapping.py
KUBERNETES ?= tests/kubernetes

.PHONY: test-kubernetes
test-kubernetes: $(VENV)/.test $(BUILT) ## Run the tests with a real control plane of Kubernetes
	@$(CACHED) $(PY) -m pytest -rs $(KUBERNETES)

# make storm, for ten minutes; make storm SECONDS=60 SEED=7. It ends when all jobs have.
SECONDS ?= 600

.PHONY: storm
storm: $(VENV)/.test $(BUILT) ## Let Jobs come to a cluster of Kubernetes while all of it is killed, and check the books
	@$(PY) -m tests.kubernetes.storm --seconds $(SECONDS) --seed $(SEED)

# make replicas KILLS=5
KILLS ?= 50

.PHONY: replicas
replicas: $(VENV)/.test $(BUILT) ## Kill who decides of two replicas of Muster on Kubernetes, again and again, and check the books
	@$(PY) -m tests.kubernetes.replicas --kills $(KILLS)

.PHONY: coverage
coverage: $(VENV)/.test ## Run the tests, and show the lines that no test reaches
	@$(PY) -m coverage erase
	@$(CACHED) $(PY) -m coverage run -m pytest -q
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report

# make install-check PYTHON=python3.13; that one is installed for, and $(VENV) builds.
.PHONY: install-check
install-check: $(VENV)/.test ## Install Muster for PYTHON in every way, with the lowest and newest dependencies, and run tests
	@$(PY) -m tests.install.check --python $(PYTHON)

.PHONY: container-check
container-check: ## Build the image of deploy/container with buildah, and run it (as root; four minutes)
	@bash tests/install/container.sh

CHECKS := check-style check-format check-mypy check-pyright check-layers check-purity

.PHONY: lint
lint: $(CHECKS) ## Check style, types and the architecture (-k goes on after a failure)
	@echo "All checks passed."

.PHONY: $(CHECKS)
$(CHECKS): $(VENV)/.lint

check-style:
	@echo "== style (ruff check)"
	@$(PY) -m ruff check --quiet .

check-format:
	@echo "== format (ruff format)"
	@$(PY) -m ruff format --quiet --diff .

check-mypy:
	@echo "== types (mypy)"
	@$(PY) -m mypy --no-error-summary

check-pyright:
	@echo "== types (pyright)"
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(PY) -m pyright --warnings --pythonpath $(PY)

check-layers:
	@echo "== layers, purity, cycles (import-linter)"
	@$(BIN)/lint-imports --no-logo

check-purity:
	@echo "== the core without trio"
	@$(PY) -m pytest -q tests/test_layering.py

.PHONY: format
format: $(VENV)/.lint ## Format the code
	@$(PY) -m ruff check --quiet --fix-only .
	@$(PY) -m ruff format .

# make bench ONLY="W1 growth" TRACE=all-jobs.csv.gz OPTIONS=--no-save
.PHONY: bench
bench: $(VENV)/.bench $(BUILT) ## Measure what decisions cost, and how the cost grows
	@$(PY) -m benchmarks $(if $(TRACE),--trace $(TRACE)) $(OPTIONS) $(ONLY)

.PHONY: mutants
mutants: $(VENV)/.test ## Plant bugs, one at a time, and check that the fuzzing finds each of them
	@MUSTER_PURE=1 $(PY) -m tests.fuzz.mutants --jobs $(JOBS)

# make soak MINUTES=60 JOBS=2 SEED=7
MINUTES ?= 10
JOBS ?= 2
SEED ?= 1

.PHONY: soak
soak: $(VENV)/.test $(BUILT) ## Fuzz for MINUTES with JOBS processes, and report how many programs ran
	@$(PY) -m tests.fuzz.soak --minutes $(MINUTES) --jobs $(JOBS) --seed $(SEED)

# make feeds THEME=gangs FEEDS=1000 JOBS=2 SEED=7 THOROUGH=1
THEME ?= backfill
FEEDS ?= 20000

.PHONY: feeds
feeds: $(VENV)/.test $(BUILT) ## Compare the decisions on random feeds of a THEME with those of the plain algorithm
	@$(PY) -m tests.fuzz.themes $(THEME) --feeds $(FEEDS) --jobs $(JOBS) --seed $(SEED) $(if $(THOROUGH),--thorough)

# make same BASE=HEAD~3; make same BASE=HEAD~3 ONLY="feeds help" FEEDS=500
BASE ?= HEAD

.PHONY: same
same: $(VENV)/.test $(BUILT) ## Compare all that somebody sees of Muster with the commit BASE, byte for byte
	@$(CACHED) $(PY) -m tests.same --base $(BASE) --only "$(if $(filter-out undefined,$(origin ONLY)),$(ONLY))" \
		$(if $(filter file,$(origin FEEDS)),,--feeds $(FEEDS)) --jobs $(JOBS)

# make promise FEEDS=tests/feeds/gangs/new.yaml; CONTRIBUTING.md says when BREAKS=--breaks may be.
.PHONY: promise
promise: $(VENV)/.test $(BUILT) ## Compare what there is with what docs/compatibility.md promises, and write down what is new
	@$(CACHED) $(PY) -m tests.compatibility --write $(BREAKS) $(if $(filter file,$(origin FEEDS)),,$(FEEDS))

# make crash, for 10,000 kills; make crash MINUTES=60 JOBS=2 SEED=7
.PHONY: crash
crash: $(VENV)/.test $(BUILT) ## Kill schedulers with a store at any moment, and check what is kept
	@$(PY) -m tests.crash --jobs $(JOBS) --seed $(SEED) \
		$(if $(filter file,$(origin MINUTES)),--kills 10000,--minutes $(MINUTES))

# make clash MINUTES=60 SEED=7
.PHONY: clash
clash: $(VENV)/.test $(BUILT) ## Let clients clash with a server that is killed, for MINUTES, and compare with the store
	@$(PY) -m tests.clash --minutes $(MINUTES) --seed $(SEED)

# make pair, for ten minutes; make pair SECONDS=60 SEED=7
.PHONY: pair
pair: $(VENV)/.test $(BUILT) ## Kill, cut off and promote two servers of which one follows the other, and check their books
	@$(PY) -m tests.pair --seconds $(SECONDS) --seed $(SEED)

# make attack, for 100,000 requests; make attack MINUTES=60 SEED=7
REQUESTS ?= 100000

.PHONY: attack
attack: $(VENV)/.test $(BUILT) ## Send requests that make no sense to a service, and check that it stands them
	@$(PY) -m tests.attack --seed $(SEED) \
		$(if $(filter file,$(origin MINUTES)),--requests $(REQUESTS),--minutes $(MINUTES))

# make crash-ray, with 1,000 asks in five minutes; make crash-ray MINUTES=60 TASKS=10000 KILL=agent
# KILL: raylet, agent, service or head, or several of them
TASKS ?= 1000
KILL ?= raylet

.PHONY: crash-ray
crash-ray: $(VENV)/.engines $(BUILT) ## Kill what runs work on a cluster of Ray, again and again, and check what becomes of it
	@$(PY) -m tests.engines.crash --seed $(SEED) --tasks $(TASKS) $(addprefix --kill=,$(KILL)) \
		--minutes $(if $(filter file,$(origin MINUTES)),5,$(MINUTES))

# What is compiled, is compiled again after any change of the core.
.PHONY: compiled
compiled: $(VENV)/.compiled ## Compile the core, for COMPILED=1; make pure removes what it made

$(VENV)/.compiled: $(VENV)/.test hatch_build.py $(shell find core -name '*.py' -o -name '*.pxd')
	@echo "Compiling the core, which takes some two minutes" >&2
	@$(PY) hatch_build.py >$(VENV)/compiled.log 2>&1 || { cat $(VENV)/compiled.log; exit 1; }
	@touch $@

.PHONY: pure
pure: ## Remove the compiled modules
	find core '(' -name '*.so' -o -name '*.pyd' ')' -delete
	rm -f $(VENV)/.compiled

.PHONY: docs
docs: $(VENV)/.docs ## Build the documentation of this version into docs/_build/html/VERSION
	@$(PY) docs/versions.py

.PHONY: clean
clean: pure ## Remove everything that make installed or built
	rm -rf $(VENV) build dist docs/_build htmlcov .coverage .coverage.*
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find core actors tests examples benchmarks docs -name __pycache__ -prune -exec rm -rf {} +

# The environment. Each stamp stands for one purpose, so that the first command types little
# traffic: a demo needs neither a type checker nor Sphinx.

$(VENV)/.made:
	@echo "Setting up $(VENV) with $(PYTHON)" >&2
	@$(PYTHON) -c 'import sys; sys.exit("Muster needs Python 3.11 or later: make PYTHON=..." if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Installing Muster and what it stands on" >&2
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/.serve: $(VENV)/.runtime
	@echo "Installing what the service stands on" >&2
	@$(INSTALL) --editable '.[serve]'
	@touch $@

$(VENV)/.ray: $(VENV)/.runtime
	@echo "Installing Ray" >&2
	@$(INSTALL) --editable '.[ray]'
	@touch $@

# `pip install --group` is newer than the pip that a fresh environment may bring.
$(VENV)/.pip: $(VENV)/.runtime
	@$(INSTALL) --upgrade pip
	@touch $@

$(VENV)/.test: $(VENV)/.pip
	@echo "Installing the tools for tests" >&2
	@$(INSTALL) --group test
	@touch $@

$(VENV)/.engines: $(VENV)/.test
	@echo "Installing Ray" >&2
	@$(INSTALL) --group engines
	@touch $@

$(VENV)/.bench: $(VENV)/.pip
	@echo "Installing what Muster is compared with" >&2
	@$(INSTALL) --group bench
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	@echo "Installing the tools for checks" >&2
	@$(INSTALL) --group lint
	@touch $@

# Two pips in one environment would trip over each other under -j: this one comes last.
$(VENV)/.docs: $(VENV)/.pip $(if $(filter bench,$(MAKECMDGOALS)),$(VENV)/.bench) \
		$(if $(filter test coverage,$(MAKECMDGOALS)),$(VENV)/.test) \
		$(if $(filter lint check-% format,$(MAKECMDGOALS)),$(VENV)/.lint)
	@echo "Installing the tools for the documentation" >&2
	@$(INSTALL) --group docs
	@touch $@
