# Everything is set up in .venv on the first call, and not again until pyproject.toml
# changes. Needs Python 3.11+, make and git.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Two workers with two threads each would wait for one another on two cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: demo test slow adapters lint docs bench peers clean

demo: $(READY)
	$(BIN)/deeppqr demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/zensical build --strict --clean
	$(ONE_THREAD) $(BIN)/pytest -n 2 --dist loadfile

slow: $(READY)
	$(ONE_THREAD) $(BIN)/pytest -m slow -n 2 --dist loadfile

# Torch is large and pins an old Gymnasium: it gets an environment of its own.
adapters: .venv-adapters/.ready
	.venv-adapters/bin/pytest -m adapters tests/rl

docs: $(READY)
	$(BIN)/zensical serve --dev-addr 127.0.0.1:8000

# A few minutes; `make bench BENCH=--full` takes hours. Peers whose environments are there
# are beside ours: `make .venv-adapters/.ready .venv-peers/.ready` makes them.
bench: $(READY)
	$(BIN)/python benchmarks/bench.py $(BENCH)

# econirl, for the comparison in docs/benchmarks.md; it takes about ten minutes.
peers: .venv-peers/.ready
	.venv-peers/bin/python benchmarks/bus_peers.py

clean:
	rm -rf .venv .venv-adapters .venv-peers site

$(READY): pyproject.toml studies/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "deeppqr needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable ./studies
	@touch $(READY)

.venv-adapters/.ready: pyproject.toml
	test -x .venv-adapters/bin/python || $(PYTHON) -m venv .venv-adapters
	.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[imitation]' pytest beartype hypothesis jaxtyping
	@touch .venv-adapters/.ready

.venv-peers/.ready: pyproject.toml
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[peers]' --editable ./studies
	@touch .venv-peers/.ready
