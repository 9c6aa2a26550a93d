#!/usr/bin/env bash
# Installs the mail vendors' own SDKs, at the versions that are pinned here, into python/.venv and node/node_modules.
# What is already installed from the same pins is left alone.
#
# To take newer ones: edit python/requirements.in and run
#   uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url requirements.in -o requirements.txt
# and for Node edit node/package.json and run
#   npm install --omit-lockfile-registry-resolved=true
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# fresh FOLDER PINS RUNTIME: whether FOLDER has to be installed; the path counts, as an environment cannot be moved.
fresh() {
    stamp=$(printf '%s\n%s\n%s\n' "$PWD/$1" "$3" "$(cksum <"$1/$2")")
    if [ -f "$1/.installed" ] && [ "$(cat "$1/.installed")" = "$stamp" ]; then
        echo "sdks/$1: already installed"
        return 1
    fi
    rm -f "$1/.installed"
}

done_with() {
    printf '%s\n' "$stamp" >"$1/.installed"
    echo "sdks/$1: installed"
}

if fresh python requirements.txt "$(python3 -c 'import sys; print(sys.version)')"; then
    python3 -m venv --clear python/.venv
    python/.venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        --require-hashes -r python/requirements.txt
    done_with python
fi

if fresh node package-lock.json "$(node --version)"; then
    (cd node && npm ci --silent --no-audit --no-fund)
    done_with node
fi
