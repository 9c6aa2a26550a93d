#!/usr/bin/env bash
# Installs the implementations beside this file, each into its own folder:  install.sh [NAME...]
# One that is already installed from the same pins is left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [ $# -eq 0 ]; then
    for target in */target.toml; do
        set -- "$@" "$(dirname "$target")"
    done
fi

for name in "$@"; do
    name=${name%/}
    if [ ! -f "$name/target.toml" ]; then
        echo "install.sh: there is no implementation named '$name' here" >&2
        exit 2
    fi
    (
        cd "$name"
        if [ -f requirements.txt ]; then
            pins=requirements.txt
            runtime=$(python3 -c 'import sys; print(sys.version)')
        else
            pins=package-lock.json
            runtime=$(node --version)
        fi
        # The path is part of the stamp: a virtual environment does not survive being moved.
        stamp=$(printf '%s\n%s\n%s\n' "$PWD" "$runtime" "$(cksum "$pins")")
        if [ -f .installed ] && [ "$(cat .installed)" = "$stamp" ]; then
            echo "$name: already installed"
            exit
        fi
        rm -f .installed
        if [ "$pins" = requirements.txt ]; then
            python3 -m venv --clear .venv
            .venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: \
                --require-hashes -r requirements.txt
        else
            npm ci --silent --no-audit --no-fund
        fi
        printf '%s\n' "$stamp" > .installed
        echo "$name: installed"
    )
done
