#!/usr/bin/env bash
# Installs what is missing, then runs every check. Arguments go to pytest: ./tests/run.sh -k import
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
venv=$(./mount.sh --setup --dev)
"$venv/bin/ruff" check .
"$venv/bin/mypy"
exec "$venv/bin/python" -m pytest "$@"
