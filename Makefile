# Everything one does with Tidemark's sources. `make` alone lists it.

PYTHON := .venv/bin/python
READY := .venv/.ready
# Runners and readers are started by the thousand: none shall compile the sources anew, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

# Pages have little time to answer, so all browser tests but the story, which has more, run before the tests that use Spark.
ALONE := tests/browser --ignore tests/browser/test_story.py -n 2 --dist worksteal
TOGETHER := tests/live tests/powercut tests/servers tests/browser/test_story.py -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup classes demo test soak check bench format docs clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what demo, test and bench need (as root, or tell which command root must run)
	@.ci/setup

classes: setup
	@$(PYTHON) -m tests.servers.classes || echo "Spark's classes are not archived: its JVMs start more slowly"

demo: setup ## Start a busy MySQL and the console that copies it; Ctrl-C ends everything
	@$(PYTHON) -m tests.tools.demo

test: setup ## Check, then the tests on real servers, Spark and a browser
	@$(MAKE) --no-print-directory -j 2 --output-sync=line check classes
	$(PYTHON) -m pytest $(ALONE) --short --durations 10
	$(PYTHON) -m pytest $(TOGETHER) --short --durations 40

soak: setup classes ## All tests at full depth: many hours
	TIDEMARK_SOAK=1 $(PYTHON) -m pytest $(ALONE) --timeout 14400
	TIDEMARK_SOAK=1 $(PYTHON) -m pytest tests/unit $(TOGETHER) --timeout 14400
	TIDEMARK_SOAK=1 TIDEMARK_MARIADB=11.8 $(PYTHON) -m pytest $(TOGETHER) -k mariadb --timeout 14400

check: $(READY) ## Format, lint, types, unit tests: no server, no Spark, some minutes
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest tests/unit -n 3 --dist worksteal --short

bench: setup ## Measure against the server's own speed, PyMySQL and mysql-replication; then the steady state
	@$(PYTHON) -m tests.tools.bench
	@$(PYTHON) -m tests.tools.bench.steady --charts steady.html

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
