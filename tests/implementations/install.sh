#!/usr/bin/env bash
# Installs the implementations beside this file, each into its own folder:  install.sh [NAME...]
# One that is already installed from the same pins is left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [ $# -eq 0 ]; then
    for target in */target.toml */client.toml; do
        set -- "$@" "$(dirname "$target")"
    done
    set -- "$@" callers # one environment of each language for all of them
fi

# environment FOLDER: a new one in it, without a pip of its own where another's can be used, which is quicker.
environment() {
    if python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv --clear --without-pip "$1"
        pip=(python3 -m pip --python "$1/bin/python")
    else
        python3 -m venv --clear "$1"
        pip=("$1/bin/python" -m pip)
    fi
}

# install NAME: into its own folder.
install() {
    cd "$1"
    pins=()
    runtime=
    if [ -f requirements.txt ]; then
        pins+=(requirements.txt)
        runtime=$(python3 -c 'import sys; print(sys.version)')
    fi
    if [ -f package-lock.json ]; then
        pins+=(package-lock.json)
        runtime=$runtime$(node --version)
    fi
    # The path is part of the stamp: a virtual environment does not survive being moved.
    stamp=$(printf '%s\n%s\n%s\n' "$PWD" "$runtime" "$(cksum "${pins[@]}")")
    if [ -f .installed ] && [ "$(cat .installed)" = "$stamp" ]; then
        echo "$1: already installed"
        return
    fi
    rm -f .installed
    if [ -f requirements.txt ]; then
        environment .venv
        "${pip[@]}" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r requirements.txt
    fi
    if [ -f package-lock.json ]; then
        npm ci --silent --no-audit --no-fund
    fi
    printf '%s\n' "$stamp" > .installed
    echo "$1: installed"
}

# Several at a time: each spends most of its time waiting.
jobs=0
failed=0
for name in "$@"; do
    name=${name%/}
    if [ ! -f "$name/target.toml" ] && [ ! -f "$name/client.toml" ] && [ "$name" != callers ]; then
        echo "install.sh: there is no implementation named '$name' here" >&2
        exit 2
    fi
    if [ "$jobs" -ge 4 ]; then
        wait -n || failed=$?
        jobs=$((jobs - 1))
    fi
    install "$name" &
    jobs=$((jobs + 1))
done
while [ "$jobs" -gt 0 ]; do
    wait -n || failed=$?
    jobs=$((jobs - 1))
done
exit "$failed"
