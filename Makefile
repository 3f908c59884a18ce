# Needs make and Python 3.11 or later; everything else is set up by the targets themselves.
# `make` alone lists them. ARGS reaches kshunt, pytest (`make test ARGS="-k throttle"`) or uv.

VENV := .venv
PY := $(VENV)/bin/python
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
# What is imported is compiled then; of what is installed that is the smaller part.
PIP := $(PY) -m pip --disable-pip-version-check install --no-compile

# Processes that run tests: more than the cores of a small machine, since a test of a screen or of
# brokers waits much. Each imports all tests of its tier. 0 is this one alone, for a debugger.
WORKERS ?= 6

PYTEST := -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

# Tests start hundreds of processes: each module is compiled once for all, also where a container
# image says otherwise.
export PYTHONDONTWRITEBYTECODE :=

COMPILE := $(VENV)/bin/uv pip compile --generate-hashes --universal --python-version 3.11 \
	--no-header --no-annotate -q

# The first of these that is new enough makes the environment; `make PYTHON=...` names another.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all check coverage bench docs lock clean kafka-jars spark-classes

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUN) ## the dashboard on a cluster in memory with a move under way (ARGS="--scenario drain")
	@$(PY) -m kshunt demo $(ARGS)

test: $(DEV) kafka-jars ## the quick tier: what needs Python alone, and one story on real Kafka
	@$(PY) $(PYTEST) $(ARGS)

test-all: $(DEV) kafka-jars spark-classes ## every tier; real Kafka, ZooKeeper and Spark need Java, and Maven once
	@$(PY) $(PYTEST) --tier all $(ARGS)

check: $(DEV) ## formatting, lint, types, import rules, dead code, and the rules of the house
	$(VENV)/bin/ruff format --check src backend tui tests
	$(VENV)/bin/ruff check src backend tui tests
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/vulture
	@$(PY) -m pytest -n 2 --dist loadgroup --tier house

coverage: $(DEV) kafka-jars ## lines and branches that the quick tier reaches (ARGS="--tier all")
	@$(PY) -m coverage erase
	@$(PY) -m coverage run $(PYTEST) $(ARGS); failed=$$?; \
	$(PY) -m coverage combine -q && $(PY) -m tests.support.runs.coverage_table && exit $$failed

bench: $(DEV) kafka-jars ## run the benchmarks and print what they measure
	@$(PY) -m pytest tests/bench -m bench -s -q $(ARGS)

docs: $(DEV) ## build the manual as a site, below build/site
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet $(ARGS)
	@echo "build/site/index.html"

lock: $(DEV) ## resolve both lock files anew from pyproject.toml (ARGS=--upgrade for newer ones)
	$(COMPILE) pyproject.toml --extra dev -o requirements-dev.lock $(ARGS)
	echo 'hatchling>=1.27' | $(COMPILE) pyproject.toml - -c requirements-dev.lock -o requirements.lock

clean: ## remove the environment, Kafka's jars, caches and builds
	rm -rf $(VENV) tests/support/brokers/libs dist build .coverage .coverage.* htmlcov .pytest_cache \
		.mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src backend tui tests -name __pycache__ -prune -exec rm -rf {} +

# Asks Maven only where a jar that the pom names is absent; where that cannot be, it says why.
kafka-jars: $(DEV)
	@$(PY) -m tests.support.brokers.class_archive || true

# Starts Spark once, where there is no archive of the classes that it loads.
spark-classes: $(DEV)
	@$(PY) -m tests.support.pipeline.class_archive || true

# What it takes to run kshunt; the project itself is an editable install.
$(RUN): requirements.lock pyproject.toml
	@$(find_python); $(have_venv); $(make_venv)
	@$(call install,requirements.lock)
	@$(PIP) -q --no-deps --no-build-isolation -e .
	@touch $@

# What tests, checks and Spark need, over that.
$(DEV): requirements-dev.lock $(RUN)
	@$(call install,requirements-dev.lock)
	@touch $@

# Installs a lock file. Of pip's words it passes on the names, as their turn comes, and what is wrong.
define install
echo "installing what $(1) names into $(VENV)"; \
{ $(PIP) --require-hashes -r $(1); echo "ended $$?"; } | while read -r word name rest; do \
	case "$$word $$name" in \
		"Collecting "*) printf '%s ' "$${name%%[=[]*}" ;; \
		"Installing collected") printf '\nunpacking them\n' ;; \
		"ended "*) exit "$$name" ;; \
	esac; \
done || { printf '\n%s\n' "$$cannot_install" >&2; exit 1; }
endef

define cannot_install
pip could not install what the lock file names; what it said is above. It asks a package index,
so it needs a network. Without one, let it take the packages from a folder: fill that elsewhere,
  pip download -d FOLDER -r LOCK-FILE
and run make with PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER in its environment.
endef
export cannot_install

# Sets $python. A version manager's shim may exist and still not run, so each is tried.
define find_python
python=; \
for candidate in $(PYTHON); do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
	echo "kshunt needs Python 3.11 or later; none of these is: $(PYTHON)" >&2; exit 1; \
fi
endef

# Debian packs the part of Python that puts pip into an environment by itself.
define have_venv
version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
ensurepip="import ensurepip; ensurepip.version()"; \
if ! $$python -c "$$ensurepip" 2>/dev/null \
	&& [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "installing python$$version-venv with apt-get"; \
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq python$$version-venv; } </dev/null >/dev/null || true; \
fi; \
if ! $$python -c "$$ensurepip" 2>/dev/null; then \
	echo "this Python has no ensurepip: install the package python$$version-venv" >&2; exit 1; \
fi
endef

define make_venv
if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	echo "making $(VENV) with $$python"; rm -rf $(VENV); $$python -m venv $(VENV); \
fi
endef
