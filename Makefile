# Everything one does with Tidemark's sources. `make` alone lists it.

PYTHON := .venv/bin/python
READY := .venv/.ready
# Runners and readers are started by the thousand: none shall compile the sources anew, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak check bench format docs clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what demo, test and bench need (as root, or tell which command root must run)
	@.ci/setup

demo: setup ## Start a busy MySQL and the console that copies it; Ctrl-C ends everything
	@$(PYTHON) -m tests.tools.demo

test: setup check ## Everything: check, then all tests on real servers, Spark and a browser
	$(PYTHON) -m pytest tests/browser -m "not slow" --durations 10
	$(PYTHON) -m pytest tests/live tests/powercut tests/servers tests/browser/test_story.py -n 2 --dist worksteal --durations 40

soak: setup ## All tests at full depth, all of them on both servers: many hours
	TIDEMARK_SOAK=1 $(PYTHON) -m pytest tests --timeout 14400 -n 2 --dist worksteal

check: $(READY) ## Format, lint, types, unit tests: no server, no Spark, about a minute
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest tests/unit -n 2

bench: setup ## Measure against the server's own speed, PyMySQL and mysql-replication
	@$(PYTHON) -m tests.tools.bench

format: $(READY) ## Format and repair what can be repaired automatically
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

docs: $(READY) ## Generate the reference pages
	$(PYTHON) -m docs.reference

clean: ## Remove what was built here; the per-user cache of servers stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(READY): requirements.txt .ci/constraints.txt .ci/setup
	@.ci/setup python
