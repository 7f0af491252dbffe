#!/usr/bin/env bash
# Installs what is missing, then runs every check. Arguments go to pytest: ./tests/run.sh -k import
# Three tests run side by side on two processors, as many wait; for a debugger they must not: ./tests/run.sh -n 0 --pdb
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# else each of many processes compiles every module that it imports
unset PYTHONDONTWRITEBYTECODE
venv=$(./mount.sh --setup --dev)
"$venv/bin/ruff" check .
"$venv/bin/mypy"
code=0
"$venv/bin/python" -m pytest -n 3 --dist worksteal "$@" || code=$?
[ "$code" -eq 1 ] || exit "$code"
# tests side by side on a busy machine run out of time now and then: what fails alone, too, is wrong.
# In a worker: one that hangs is replaced, and the others are run
echo "These tests failed, and run again, one at a time:" >&2
exec "$venv/bin/python" -m pytest -n 1 -v --last-failed --last-failed-no-failures none "$@"
