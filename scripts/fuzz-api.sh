#!/usr/bin/env bash
# Puts generated requests to every operation of /openapi.json, right and wrong ones, and holds the
# answers against the description: no 5xx, nothing undescribed, no body that its schema does not take.
#
#   scripts/fuzz-api.sh [--cases N] [--seed N] [ARGUMENTS OF st run...]
#
# N is the number of random requests to each operation (default 300); those that try each parameter
# in turn come on top. Ends with one line as a test program ends.
set -euo pipefail
cd "$(dirname "$0")/.."

cases=300
rest=()
while (($#)); do
    case "$1" in
    --cases) cases=$2 && shift 2 ;;
    *) rest+=("$1") && shift ;;
    esac
done

cargo build --quiet --bin counterfoil
program=${CARGO_TARGET_DIR:-target}/debug/counterfoil

# Under a directory that the account which PostgreSQL runs as can reach.
work=$(mktemp -d "${TMPDIR:-/tmp}/counterfoil-fuzz.XXXXXX")
chmod 755 "$work"
server=
end() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server"; } || true
    rm -rf "$work"
}
trap end EXIT

"$program" dev --config examples/demo.toml --listen 127.0.0.1:0 --data-dir "$work/data" \
    --log error >"$work/out" 2>"$work/log" &
server=$!
url=
for ((i = 0; i < 600 && ${#url} == 0; i++)); do
    url=$(sed -n 's/^listening: //p' "$work/out")
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
[ -n "$url" ] || { cat "$work/log" >&2 && exit 1; }

# A stream has no end to wait for.
status=0
root=$PWD
cd "$work" # it leaves files where it runs
SCHEMATHESIS_HOOKS=$root/tests/fuzz/hooks.py \
    "$root/.venv/bin/st" --config-file "$root/tests/fuzz/schemathesis.toml" --no-color \
    run "$url/openapi.json" \
    --checks all --max-examples "$cases" --suppress-health-check all --warnings off \
    --generation-allow-x00 true --continue-on-failure \
    --exclude-path /api/v1/sync/stream --exclude-path-regex '^/api/v1/sync/rxdb/.*/stream$' \
    ${rest[@]+"${rest[@]}"} >"$work/report" 2>&1 || status=$?

# What the service itself logged as its own failure counts, too.
if grep -q ERROR "$work/log"; then
    echo "logged by the service:" && grep ERROR "$work/log" | head -20
    status=1
fi
# A request that could not be made at all is no pass.
errors=$(sed -n 's/.* \([0-9]*\) errored.*/\1/p' "$work/report")
[ -z "$errors" ] || status=1
tested=$(sed -n 's/^ *Tested: //p' "$work/report")
failures=$(sed -n 's/.*found \([0-9]*\) unique failures.*/\1/p' "$work/report")
generated=$(sed -n 's/^ *\([0-9]*\) generated.*/\1/p' "$work/report")
if ((status == 0)); then
    sed -n '/= SUMMARY =/,$p' "$work/report"
    echo "test result: ok. ${tested:-0} passed; 0 failed; operations, ${generated:-0} requests"
else
    cat "$work/report"
    echo "test result: FAILED. 0 passed; ${failures:-1} failed; ${generated:-0} requests"
fi
exit "$status"
