#!/usr/bin/env bash
# Runs the tests of the schema "counterfoil" that are written for psql (tests/sql), against a private
# PostgreSQL of their own. The last line counts, in cargo's words.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --bin counterfoil
work=$(mktemp -d)
chmod 755 "$work"
"$target/debug/counterfoil" dev --no-demo --data-dir "$work/data" --listen 127.0.0.1:0 >"$work/out" 2>"$work/err" &
server=$!
end() {
    kill "$server" 2>/dev/null && wait "$server" || true
    rm -rf "$work"
}
trap end EXIT

for _ in $(seq 300); do
    grep -q '^listening:' "$work/out" && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
url=$(sed -n 's/^database: //p' "$work/out")
if [ -z "$url" ]; then
    cat "$work/err" >&2
    echo "test result: FAILED. 0 passed; 1 failed"
    exit 1
fi

# postgres://USER@%2Fdir:PORT/DATABASE, taken apart for psql.
rest=${url#postgres://}
export PGUSER=${rest%%@*}
rest=${rest#*@}
host=${rest%%:*}
PGHOST=$(printf '%b' "${host//%/\\x}")
export PGHOST
rest=${rest#*:}
export PGPORT=${rest%%/*} PGDATABASE=${rest#*/}
command -v psql >/dev/null || PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
northwind=../shared/data/northwind.sql
if [ -z "${NORTHWIND_SQL:-}" ] && [ -f "$northwind" ]; then
    NORTHWIND_SQL=$(realpath "$northwind")
    export NORTHWIND_SQL
fi

status=0
tests/sql/adoption.sh | tee "$work/result" || status=$?
read -r passed failed < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2/p' "$work/result" | tail -1) || true
if [ "$status" = 0 ] && [ "${failed:-1}" = 0 ]; then
    echo "test result: ok. $passed passed; 0 failed"
else
    [ "${failed:-0}" = 0 ] && failed=1
    echo "test result: FAILED. ${passed:-0} passed; $failed failed"
    exit 1
fi
