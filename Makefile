# Needs make and Python 3.11 or later; everything else is set up by the targets themselves.
# `make` alone lists them. ARGS reaches pytest (`make test ARGS="-k throttle"`) and uv.

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PIP := $(PY) -m pip --disable-pip-version-check -q install

# Processes that run tests, one more than the cores of a small machine, since much of a test on real
# brokers is waiting; 0 is this one alone, for a debugger.
WORKERS ?= 3

# The first of these that is new enough makes the environment; `make PYTHON=...` names another.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check bench lock clean kafka-jars

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## the dashboard on a cluster in memory with a move under way (ARGS="--scenario drain")
	@$(PY) -m backend demo $(ARGS)

test: $(STAMP) kafka-jars ## run the tests; those on real Kafka need Java, and Maven once
	@$(PY) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(ARGS)

check: $(STAMP) ## formatting, lint, types and import rules
	$(VENV)/bin/ruff format --check backend tui tests
	$(VENV)/bin/ruff check backend tui tests
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(STAMP) kafka-jars ## run the benchmarks and print what they measure
	@$(PY) -m pytest tests/bench -m bench -s -q $(ARGS)

lock: $(STAMP) ## resolve both lock files anew from pyproject.toml (ARGS=--upgrade for newer ones)
	$(VENV)/bin/uv pip compile pyproject.toml --extra dev --generate-hashes --universal \
		--python-version 3.11 --no-header --no-annotate -q -o requirements.lock $(ARGS)
	echo 'hatchling>=1.27' | $(VENV)/bin/uv pip compile pyproject.toml - --generate-hashes --universal \
		--python-version 3.11 --no-header --no-annotate -q -c requirements.lock \
		-o examples/requirements.lock

clean: ## remove the environment, Kafka's jars, caches and builds
	rm -rf $(VENV) tests/support/brokers/libs dist build .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find backend tui tests -name __pycache__ -prune -exec rm -rf {} +

# Asks Maven only where a jar that the pom names is absent; where that cannot be, it says why.
kafka-jars: $(STAMP)
	@$(PY) -m tests.support.brokers.java || true

$(STAMP): requirements.lock pyproject.toml
	@$(find_python); $(have_venv); $(make_venv)
	@echo "installing the locked packages into $(VENV)"
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

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
