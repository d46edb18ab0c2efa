#!/bin/sh
# Sees to it that what Counterfoil needs is installed. Says nothing when all is there.
#
#   scripts/setup.sh                 what building and running needs: rust cc postgres
#   scripts/setup.sh --test          that and all that the tests use: venv node chromium
#   scripts/setup.sh NAME...         only these
#
# On Debian and Ubuntu it installs what is missing, as root or through sudo that asks for no
# password; elsewhere it says what to do. It never asks anything.

set -eu
cd "$(dirname "$0")/.."

# The oldest PostgreSQL that Counterfoil works with.
oldest_postgres=14

say() {
    printf 'setup: %s\n' "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

# --- installing ----------------------------------------------------------------------------------

# Runs a command as root; fails where that is not possible without a question.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

apt() {
    # The options keep configuration files that are there (ours among them) without a question,
    # and wait for another installation that is just running.
    as_root env DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 NEEDRESTART_MODE=l apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold "$@" </dev/null
}

# install WHAT PACKAGE...: installs the packages, or says how to.
install() {
    what=$1
    shift
    if ! may_install; then
        if command -v apt-get >/dev/null 2>&1; then
            fail "$what is missing; install it as root with:  apt-get install -y $*"
        fi
        fail "$what is missing; install it with the package manager of this system (on Debian: apt-get install -y $*)"
    fi
    say "installing $what ($*)"
    output=$(mktemp)
    # The lists of packages are mostly there and good enough; if not, they are fetched, and once
    # more if the network failed.
    if apt install --no-install-recommends "$@" >"$output" 2>&1 ||
        { { apt update || apt update; } >"$output" 2>&1 &&
            apt install --no-install-recommends "$@" >>"$output" 2>&1; }; then
        rm -f "$output"
        return
    fi
    tail -n 15 "$output" >&2
    rm -f "$output"
    fail "could not install $what; the command was:  apt-get install -y $*"
}

# --- what there is to set up, one function each --------------------------------------------------

setup_rust() {
    command -v cargo >/dev/null 2>&1 ||
        fail "Rust is missing; install it with:  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
}

setup_cc() {
    command -v cc >/dev/null 2>&1 || install "a C compiler and linker" gcc libc6-dev
}

# Whether there is a directory with a PostgreSQL server that is new enough, in the places where
# the program looks for it.
have_postgres() {
    if [ -n "${PG_BIN_DIR:-}" ]; then
        is_postgres "$PG_BIN_DIR"
        return
    fi
    for dir in "$(pg_config --bindir 2>/dev/null || true)" /usr/lib/postgresql/*/bin; do
        is_postgres "$dir" && return
    done
    program=$(command -v postgres) && is_postgres "$(dirname "$program")"
}

is_postgres() {
    [ -x "$1/postgres" ] && [ -x "$1/initdb" ] || return 1
    major=$("$1/postgres" --version 2>/dev/null | sed -n 's/^postgres (PostgreSQL) \([0-9]*\).*/\1/p')
    [ "${major:-0}" -ge "$oldest_postgres" ]
}

setup_postgres() {
    have_postgres && return
    [ -z "${PG_BIN_DIR:-}" ] ||
        fail "PG_BIN_DIR=$PG_BIN_DIR has no initdb and postgres of version $oldest_postgres or later"
    # The package would make a database cluster of its own and start it. Counterfoil needs only the
    # programs, so unless somebody has decided about this before, it is told not to.
    config=/etc/postgresql-common/createcluster.conf
    if may_install && [ ! -e "$config" ]; then
        as_root mkdir -p "${config%/*}"
        echo 'create_main_cluster = false' | as_root tee "$config" >/dev/null
    fi
    install "PostgreSQL" postgresql
    have_postgres ||
        fail "the PostgreSQL of this system is older than $oldest_postgres; see https://www.postgresql.org/download/ for a newer one"
}

# Python for the tests that are written in it, with what tests/requirements.txt names.
setup_venv() {
    if ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
        install "Python with venv" python3 python3-venv
    fi
    wanted=$(cat tests/requirements.txt 2>/dev/null | cksum)
    if [ -x .venv/bin/python ] && [ "$(cat .venv/installed 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    say "making .venv"
    rm -rf .venv
    python3 -m venv .venv
    if [ -e tests/requirements.txt ]; then
        .venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
    fi
    echo "$wanted" >.venv/installed
}

setup_node() {
    command -v node >/dev/null 2>&1 || install "Node.js" nodejs
    command -v npm >/dev/null 2>&1 || install "npm" npm
}

setup_chromium() {
    for browser in chromium chromium-browser google-chrome; do
        command -v "$browser" >/dev/null 2>&1 && return
    done
    install "Chromium" chromium
}

# -------------------------------------------------------------------------------------------------

case "${1:-}" in
'') set -- rust cc postgres ;;
--test) set -- rust cc postgres venv node chromium ;;
esac
for name in "$@"; do
    case "$name" in
    rust | cc | postgres | venv | node | chromium) "setup_$name" ;;
    *) fail "nothing named $name; there are: rust cc postgres venv node chromium" ;;
    esac
done
