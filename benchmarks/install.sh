#!/usr/bin/env bash
# Installs what the benchmarks are measured against into benchmarks/rivals/, where git ignores it: uvicorn and httptools
# from PyPI, mountebank from npm, all pinned and checked by their hashes. Once they are there, it does nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/rivals"

# stamped NAME PINS RUNTIME: whether NAME was installed here from these pins; a folder that was moved was not.
stamp_of() { printf '%s\n%s\n%s\n' "$PWD" "$3" "$(cksum "$2")"; }
stamped() { [[ -f ".installed-$1" && "$(cat ".installed-$1")" == "$(stamp_of "$@")" ]]; }

# The same interpreter as our own side: another would be compared as well.
python=../../.venv/bin/python
[[ -x "$python" ]] || python=python3
runtime=$("$python" -c 'import sys; print(sys.version)')
if ! stamped uvicorn requirements.txt "$runtime"; then
    rm -f .installed-uvicorn
    "$python" -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        --require-hashes -r requirements.txt
    stamp_of uvicorn requirements.txt "$runtime" > .installed-uvicorn
    echo "uvicorn: installed"
fi

if ! command -v npm >/dev/null; then
    echo "mountebank: not installed, because there is no npm (Debian, Ubuntu: apt-get install npm)" >&2
    exit
fi
runtime=$(node --version)
if ! stamped mountebank package-lock.json "$runtime"; then
    rm -f .installed-mountebank
    npm ci --silent --no-audit --no-fund --ignore-scripts
    stamp_of mountebank package-lock.json "$runtime" > .installed-mountebank
    echo "mountebank: installed"
fi
