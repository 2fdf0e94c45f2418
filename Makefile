# Everything a newcomer types. Each target makes its own environment in .venv; nothing is done twice.

PYTHON ?= python3
VENV := .venv/bin/python
READY := .venv/ready

.PHONY: demo test slow-test check format pins clean

demo: $(READY)  ## the whole program on a small corpus of its own
	@$(VENV) -m septuagint.cli demo --workers 2

test: $(READY)  ## everything that runs in a few minutes
	$(VENV) -m pytest -n 2 -m "not slow" tests

slow-test: $(READY)  ## the tests that take longer, one at a time: a training takes all cores for itself
	$(VENV) -m pytest -m slow tests

check: $(READY)  ## formatting, lint and types
	$(VENV) -m ruff format --check .
	$(VENV) -m ruff check .
	$(VENV) -m mypy

format: $(READY)
	$(VENV) -m ruff format .
	$(VENV) -m ruff check --fix .

# The stamp is written last: an interrupted installation is taken up again.
$(READY): pyproject.toml constraints.txt Makefile
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Septuagint needs Python 3.11 or newer")'
	test -x $(VENV) || $(PYTHON) -m venv .venv
	$(VENV) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt hatchling editables
	$(VENV) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-build-isolation \
		--editable '.[train,corpora,dev]'
	touch $(READY)

pins:  ## constraints.txt anew, from the newest versions that fit together
	rm -rf .venv-pins && $(PYTHON) -m venv .venv-pins
	.venv-pins/bin/python -m pip install --quiet torch==2.13.0 hatchling editables '.[train,serve,corpora,dev]'
	( echo '# Every version that the commands of the README install; made by: make pins'; \
	  .venv-pins/bin/python -m pip freeze --all --exclude pip --exclude septuagint | sed 's/+cpu$$//' ) > constraints.txt
	rm -rf .venv-pins

clean:  ## back to a fresh clone, text and runs included
	rm -rf .venv .venv-pins build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis data runs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
