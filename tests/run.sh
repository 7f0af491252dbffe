#!/usr/bin/env bash
# Installs what is missing, then runs every check. Arguments go to pytest: ./tests/run.sh -k import
# Two tests run side by side; for a debugger they must not: ./tests/run.sh -n 0 --pdb
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
venv=$(./mount.sh --setup --dev)
"$venv/bin/ruff" check .
"$venv/bin/mypy"
exec "$venv/bin/python" -m pytest -n 2 --dist worksteal "$@"
