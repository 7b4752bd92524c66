# Every command that a person types. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --quiet --disable-pip-version-check
EXPERIMENT ?= experiments/demo.yaml
EXACT := common/privacy/*,common/wire.py,common/mailbox.py,cloud/algorithms/*,edge/algorithms/*
.PHONY: help demo test check lint coverage test-broker test-docker up down bench clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## /  make \1|/p' Makefile | column -t -s '|'

demo: .venv/installed  ## install what is missing, train privately on real digits, draw the report
	@run=runs/demo-$$(date +%Y%m%d-%H%M%S) && \
	$(BIN)/mapa launch experiments/demo.yaml --out $$run && $(BIN)/mapa report $$run

test: .venv/developing  ## the tests that need neither a broker nor Docker
	$(BIN)/pytest -q -n auto

check: lint test  ## all that has to hold before a commit

lint: .venv/developing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

coverage: .venv/developing  ## all tests but those of Docker, with the bars for branch coverage
	$(BIN)/pytest -q -n auto --cov --cov-report=
	$(BIN)/pytest -q -m "broker and not docker" --cov --cov-append --cov-report=  # by themselves: they look at clocks
	@rm -f .coverage.* && $(BIN)/coverage report --fail-under=90 --skip-covered  # without those of processes that tests kill
	$(BIN)/coverage report --fail-under=100 --skip-covered --include='$(EXACT)'

test-broker: .venv/developing  ## the tests on a real Mosquitto
	$(BIN)/pytest -q -m broker

test-docker: .venv/developing  ## the tests on real containers
	$(BIN)/pytest -q -m docker

up:  ## one run in containers; gives the cloud's exit code (EXPERIMENT=, EDGES=)
	EXPERIMENT=$(EXPERIMENT) deploy/up.sh

down:  ## remove the containers; results stay
	docker compose down --remove-orphans

bench: .venv/developing  ## the measurements
	for script in bench/*.py; do $(BIN)/python "$$script" || exit; done

clean:  ## remove what was built and installed; results stay
	rm -rf .venv build *.egg-info .coverage* .*_cache .hypothesis

.venv/installed: pyproject.toml
	@echo "installing into .venv (once; most of the time goes into PyTorch)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(if $(TORCH_INDEX),$(PIP) --index-url $(TORCH_INDEX) torch torchvision)
	@$(PIP) --editable '.[embedded]'
	@touch $@

.venv/developing: .venv/installed
	@$(PIP) --editable '.[embedded,dev]'
	@touch $@
