#!/usr/bin/env bash
# Runs the tests that are written in JavaScript: the client's, those of the real RxDB, and the
# browser's, against the real server.
#
#   scripts/test-js.sh [client|rxdb|browser]...     all where none is named
#
# COUNTERFOIL_BIN names a server that is built already. The last line counts, in cargo's words.

set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
passed=0
failed=0

if [ -z "${COUNTERFOIL_BIN:-}" ]; then
    cargo build --quiet --bin counterfoil
    COUNTERFOIL_BIN=$target/debug/counterfoil
fi
# The tests run in folders of their own.
COUNTERFOIL_BIN=$(realpath "$COUNTERFOIL_BIN")
export COUNTERFOIL_BIN
export COUNTERFOIL_PICTURES=${COUNTERFOIL_PICTURES:-$(realpath -m "$target")/pictures}
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# install FOLDER: what its lock file names, unless that is there already.
install() {
    local stamp=$1/node_modules/.package-lock.json
    if [ ! -e "$stamp" ] || [ "$1/package-lock.json" -nt "$stamp" ]; then
        (cd "$1" && npm ci --no-audit --no-fund --loglevel=error)
    fi
}

# count PASSED FAILED
count() {
    passed=$((passed + $1))
    failed=$((failed + $2))
}

# suite FOLDER PATTERN: the pattern is of the folder, where the shell resolves it.
suite() {
    local folder=$1 files=$2 status=0 ok bad
    # shellcheck disable=SC2086
    (cd "$folder" && node --test --test-reporter=spec --test-reporter-destination=stdout \
        --test-reporter=tap --test-reporter-destination="$log" $files) || status=$?
    ok=$(sed -n 's/^# pass \([0-9]*\)$/\1/p' "$log")
    bad=$(awk '/^# (fail|cancelled) / { sum += $3 } END { print sum + 0 }' "$log")
    # A run that ended without counting is a failure, too.
    if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    count "${ok:-0}" "$bad"
}

types() {
    if clients/js/node_modules/.bin/tsc --project clients/js/test/types; then
        echo "✔ the client's types"
        count 1 0
    else
        echo "✖ the client's types"
        count 0 1
    fi
}

[ $# -gt 0 ] || set -- client rxdb browser
for name in "$@"; do
    case "$name" in
    client)
        install clients/js
        types
        suite clients/js 'test/*.test.js'
        ;;
    rxdb)
        if [ "$(node --print 'process.versions.node.split(".")[0]')" -lt 20 ]; then
            echo "skipped: RxDB needs Node 20, and this is $(node --version)"
        else
            install tests/rxdb
            suite tests/rxdb '*.test.js'
        fi
        ;;
    browser)
        install tests/browser
        suite tests/browser '*.test.js'
        ;;
    *)
        echo "test-js: nothing named $name; there are: client rxdb browser" >&2
        exit 2
        ;;
    esac
done

if [ "$failed" = 0 ]; then
    echo "test result: ok. $passed passed; 0 failed"
else
    echo "test result: FAILED. $passed passed; $failed failed"
    exit 1
fi
