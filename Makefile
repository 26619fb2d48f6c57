# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A worker for each core; a file's tests stay together and share what they have made.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
# The files with tests that are left out of the fast part; importing all others takes ten seconds.
LONG = $(shell grep -rlE "mark\.(slow|study)" tests --include="test_*.py" | sort)

.PHONY: demo test verify clients check format lint types contracts fast clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/hammingmark demo

test: check
	$(BIN)/python -m pytest $(PARALLEL) -m "slow and not study" $(LONG)

# Before a release: what `make test` does, and the studies, which take long.
verify: test
	$(BIN)/python -m pytest -m study $(LONG)

# Clients of others against the service: installs them (1.1 GB); needs Node.
CLIENTS := .clients
clients: $(STAMP) $(CLIENTS)/.installed
	CLIENTS=$(CLIENTS) LITELLM=$(CURDIR)/$(CLIENTS)/proxy/bin/litellm $(BIN)/python -m pytest \
		tests/integration/test_clients.py tests/integration/test_litellm.py

$(CLIENTS)/.installed: tests/clients/requirements.txt tests/clients/proxy-requirements.txt tests/clients/package.json
	mkdir -p $(CLIENTS)/node
	test -x $(CLIENTS)/python/bin/python || $(PYTHON) -m venv $(CLIENTS)/python
	$(CLIENTS)/python/bin/python -m pip install --quiet -r tests/clients/requirements.txt
	test -x $(CLIENTS)/proxy/bin/python || $(PYTHON) -m venv $(CLIENTS)/proxy
	$(CLIENTS)/proxy/bin/python -m pip install --quiet -r tests/clients/proxy-requirements.txt
	cp tests/clients/package.json $(CLIENTS)/node/
	npm --prefix $(CLIENTS)/node install --silent --no-audit --no-fund
	touch $@

check: format lint types contracts fast

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy research
	$(BIN)/mypy benchmarks

contracts: $(STAMP)
	$(BIN)/lint-imports

fast: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

clean:
	rm -rf $(VENV) $(CLIENTS) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
