#!/usr/bin/env bash
# Proves the Dockerfile and the compose file on a machine that may have no engine and can pull no image.
#
#   scripts/docker-check.sh          (as root; `make docker-check`)
#
# Debian's packages bring what is missing. Base images that the engine does not have are made with
# debootstrap under the names that the Dockerfile asks for, the Rust one with this machine's toolchain.
# If no engine answers, one of the check's own is started, with its own data and socket, and ended again.
#
# Knobs, all environment variables:
#   DOCKER_CHECK_DIR    data of the check's own engine, kept for the next run (target/docker-check)
#   DOCKER_CHECK_OWN=1  start an engine of our own even where one answers
#   DOCKER_CHECK_PULL=1 try to pull a missing base image before making it
#   DEBOOTSTRAP_MIRROR  another Debian mirror than debootstrap's default
# shellcheck disable=SC2015,SC2016 # `a && b || die` is meant as it reads; awk programs are quoted
set -Eeuo pipefail
umask 022
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=${DOCKER_CHECK_DIR:-$root/target/docker-check}
project=counterfoil-check-$$
image=counterfoil-check:latest
bare_run_image=counterfoil-check-no-shell:latest
postgres_image=counterfoil-check-postgres:latest
table=docker_check_notes
grace=30 # stop_grace_period of the compose file

tmp='' engine_pid='' child='' compose_up='' docker=docker
compose=()
made_images=()
forward_policy='' ip_forward=''
passed=0 failed=0
started=$SECONDS

say() { printf '%4ds  %s\n' $((SECONDS - started)) "$*"; }
pass() { passed=$((passed + 1)); say "PASS  $*"; }
fail() { failed=$((failed + 1)); say "FAIL  $*"; }
die() { fail "$*"; exit 1; }
# check WHAT COMMAND…: one line, PASS if the command succeeds.
check() {
  local what=$1; shift
  if "$@"; then pass "$what"; else fail "$what"; fi
}
# until_true SECONDS COMMAND…: true as soon as the command is; false when the time is over.
until_true() {
  local end=$((SECONDS + $1)); shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}
# quiet LOG COMMAND…: output goes to a file, whose end is shown if the command fails.
# Waited for rather than run in the foreground, so that a signal to the check is acted on at once.
quiet() {
  local log=$tmp/$1.log; shift
  "$@" >"$log" 2>&1 <&0 &
  child=$!
  if ! wait "$child"; then
    child=''
    tail -n 40 "$log" | sed 's/^/      | /'
    return 1
  fi
  child=''
}

# ---------------------------------------------------------------- ending

# An engine leaves its firewall chains behind. Called only if there were none before it.
remove_firewall_rules() {
  local t rule chain
  for t in filter nat; do
    iptables -w -t "$t" -S 2>/dev/null | sed -n '/DOCKER/s/^-A /-D /p' | while read -r rule; do
      # shellcheck disable=SC2086 # a rule is several words
      iptables -w -t "$t" $rule || true
    done
    for chain in $(iptables -w -t "$t" -S 2>/dev/null | sed -n 's/^-N \(DOCKER.*\)/\1/p'); do
      iptables -w -t "$t" -F "$chain" && iptables -w -t "$t" -X "$chain" || true
    done
  done
  # shellcheck disable=SC2086 # "-P FORWARD ACCEPT"
  [[ -z $forward_policy ]] || iptables -w $forward_policy
  [[ -z $ip_forward ]] || echo "$ip_forward" >/proc/sys/net/ipv4/ip_forward
}

finish() {
  local status=$?
  trap - EXIT
  trap '' INT TERM
  set +eE
  if ((status != 0 && failed == 0)); then fail "ended early, with status $status"; fi
  [[ -z $child ]] || kill -TERM "$child" 2>/dev/null
  if [[ -n $compose_up ]]; then
    if ((failed > 0)); then
      timeout 20 "${compose[@]}" ps 2>&1 | sed 's/^/      | /'
      timeout 20 "${compose[@]}" logs --no-color --tail 30 2>&1 | sed 's/^/      | /'
    fi
    timeout 120 "${compose[@]}" down --volumes --remove-orphans --timeout 10 >"$tmp/down.log" 2>&1 ||
      { fail "compose down"; tail -n 5 "$tmp/down.log"; }
    [[ -z $(timeout 20 "$docker" ps -aq --filter "label=com.docker.compose.project=$project") ]] ||
      fail "containers are left over"
  fi
  if [[ -n $tmp ]]; then
    # The boxes that images are made in, and those of single commands.
    timeout 30 "$docker" ps -aq --filter "name=^/?$project-" 2>/dev/null | xargs -r timeout 60 "$docker" rm --force >/dev/null 2>&1
  fi
  if [[ -n $engine_pid ]]; then
    kill -TERM "$engine_pid" 2>/dev/null
    until_true 30 not_alive "$engine_pid" || kill -KILL "$engine_pid" 2>/dev/null
    umount "$tmp/exec/netns/default" 2>/dev/null
    [[ -z $forward_policy ]] || remove_firewall_rules 2>/dev/null
  elif ((${#made_images[@]})); then
    # Someone else's engine must not keep stand-ins under the names of real images.
    timeout 60 "$docker" image rm --force "${made_images[@]}" >/dev/null 2>&1
  fi
  [[ -z $tmp ]] || rm -rf --one-file-system "$tmp"
  say "done"
  printf '%d passed, %d failed\n' "$passed" "$failed"
  ((failed == 0)) || exit 1
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

alive() { [[ -d /proc/$1 && $(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) != Z ]]; }
not_alive() { ! alive "$1"; }

# ---------------------------------------------------------------- tools and engine

install_tools() {
  local missing=()
  command -v curl >/dev/null || missing+=(curl)
  command -v debootstrap >/dev/null || missing+=(debootstrap)
  command -v dockerd >/dev/null || engine_answers || missing+=(docker.io)
  { command -v docker >/dev/null && docker compose version >/dev/null 2>&1; } ||
    command -v docker-compose >/dev/null || missing+=(docker-compose)
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "missing, and there is no apt-get: ${missing[*]}"
  say "installing ${missing[*]}"
  quiet apt timeout 300 apt-get update || true
  quiet apt timeout 600 apt-get install -y --no-install-recommends "${missing[@]}" ||
    die "apt-get install ${missing[*]}"
}

engine_answers() {
  command -v docker >/dev/null && [[ -z ${DOCKER_CHECK_OWN:-} ]] && timeout 10 docker info >/dev/null 2>&1
}

own_engine_answers() { not_alive "$engine_pid" || timeout 5 "$docker" info >/dev/null 2>&1; }

start_engine() {
  if engine_answers; then
    say "using the engine that runs here"
    return
  fi
  local dockerd driver
  dockerd=$(command -v dockerd) || die "no engine answers and there is no dockerd"
  # The client of the engine's own package, if both are there: a much newer one may refuse the engine.
  docker=docker
  [[ ! -x /usr/bin/docker ]] || docker=/usr/bin/docker
  unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH
  export DOCKER_HOST=unix://$tmp/docker.sock
  if ! iptables -w -S 2>/dev/null | grep -q DOCKER; then
    forward_policy=$(iptables -w -S FORWARD 2>/dev/null | sed -n '/^-P/p')
    ip_forward=$(cat /proc/sys/net/ipv4/ip_forward 2>/dev/null || true)
  fi
  for driver in '' vfs; do
    # Nice, since builds run as its children. No default bridge: builds use the host's network, and compose makes a network of its own.
    # setsid, so that Ctrl-C does not end the engine before the containers.
    setsid nice "$dockerd" --data-root "$work/engine" --exec-root "$tmp/exec" --pidfile "$tmp/docker.pid" \
      --host "$DOCKER_HOST" --bridge none ${driver:+--storage-driver "$driver"} \
      >"$tmp/dockerd.log" 2>&1 </dev/null &
    engine_pid=$!
    if until_true 60 own_engine_answers && alive "$engine_pid"; then
      pass "an engine starts: $("$docker" info --format '{{.ServerVersion}}, {{.Driver}}, cgroup v{{.CgroupVersion}}')"
      return
    fi
    kill -KILL "$engine_pid" 2>/dev/null || true
  done
  tail -n 20 "$tmp/dockerd.log" | sed 's/^/      | /'
  die "dockerd does not start here"
}

# ---------------------------------------------------------------- base images

# The default of a build argument, as the Dockerfile has it.
default_of() { sed -n "s/^ARG $1=//p" "$root/Dockerfile" | head -n 1; }

have_image() { "$docker" image inspect "$1" >/dev/null 2>&1; }

# Is IMAGE there, not ours, or ours and made from what MARK names? Stand-ins carry their mark as a label.
usable() {
  local mark
  mark=$("$docker" image inspect --format '{{index .Config.Labels "counterfoil.check"}}' "$1" 2>/dev/null) || {
    [[ -n ${DOCKER_CHECK_PULL:-} ]] && timeout 300 "$docker" pull -q "$1" >/dev/null 2>&1
    return
  }
  [[ -z $mark || $mark == '<no value>' || $mark == "$2" ]]
}

made() { made_images+=("$1"); say "made $1, $(size_of "$1")"; }
size_of() { "$docker" image inspect --format '{{.Size}}' "$1" | awk '{ printf "%.1f MB", $1 / 1e6 }'; }

make_debian() {
  local name=$1 suite=$2 dir=$tmp/debian
  usable "$name" "$suite" && return
  say "making $name with debootstrap"
  quiet debootstrap timeout 600 debootstrap --variant=minbase "$suite" "$dir" ${DEBOOTSTRAP_MIRROR:+"$DEBOOTSTRAP_MIRROR"} ||
    die "debootstrap $suite"
  tar -C "$dir" --one-file-system --exclude=./proc/* --exclude=./sys/* --exclude=./dev/* \
    --exclude=./var/cache/apt/* --exclude=./var/lib/apt/lists/* --exclude=./usr/share/doc/* \
    --exclude=./usr/share/man/* --exclude=./usr/share/locale/* -c . |
    quiet import timeout 120 "$docker" import --change "LABEL counterfoil.check=$suite" --change 'CMD ["bash"]' - "$name" ||
    die "import $name"
  rm -rf --one-file-system "$dir"
  made "$name"
}

# A container of the Debian image that sleeps while it is filled; committed by `commit`.
# Arguments: name, packages…
fill() {
  local box=$1; shift
  quiet fill timeout 60 "$docker" run -d --name "$box" --network host \
    "${proxy_env[@]}" --env DEBIAN_FRONTEND=noninteractive "$run_image" sleep 900 &&
    quiet fill timeout 120 "$docker" exec "$box" apt-get update &&
    quiet fill timeout 600 "$docker" exec "$box" sh -c '
      mkdir -p /etc/postgresql-common && echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
      apt-get install -y --no-install-recommends "$@" && apt-get clean && rm -rf /var/lib/apt/lists/*' sh "$@"
}

# Arguments: box, image, mark, changes…
commit() {
  local box=$1 name=$2 mark=$3 change changes=(); shift 3
  for change in "LABEL counterfoil.check=\"$mark\"" "$@"; do changes+=(--change "$change"); done
  quiet commit timeout 300 "$docker" commit "${changes[@]}" "$box" "$name" &&
    "$docker" rm --force "$box" >/dev/null && made "$name"
}

make_rust() {
  local name=$1 sysroot version cargo_home
  # The machine's own toolchain, as the repository's folder selects it.
  sysroot=$(cd "$root" && rustc --print sysroot) || die "no rustc on this machine"
  version=$("$sysroot/bin/rustc" --version) || die "no rustc in $sysroot"
  usable "$name" "$version" && return
  say "making $name with $version"
  [[ $sysroot != /usr && -x $sysroot/bin/cargo ]] || die "needs a toolchain in a folder of its own, as rustup lays it"
  local tag=${name##*:}
  [[ $version == "rustc ${tag%%-*}."* ]] || say "note: this toolchain is not the one that $name names"
  fill "$project-rust" gcc libc6-dev ca-certificates || die "packages of $name"
  # Of the toolchain, what a build needs: no documentation, no other tools.
  tar -C "$sysroot" -c bin/cargo bin/rustc lib | quiet cp timeout 300 "$docker" cp - "$project-rust:/usr/local" ||
    die "copying the toolchain"
  # How cargo reaches its registry here, so that it does inside a build too; never credentials.
  cargo_home=${CARGO_HOME:-$HOME/.cargo}
  mkdir -p "$tmp/cargo/cargo"
  [[ ! -f $cargo_home/config.toml ]] || cp "$cargo_home/config.toml" "$tmp/cargo/cargo/"
  quiet cp timeout 60 "$docker" cp "$tmp/cargo/cargo" "$project-rust:/usr/local/" &&
    { [[ ! -f /etc/ssl/certs/ca-certificates.crt ]] ||
      quiet cp timeout 60 "$docker" cp -L /etc/ssl/certs/ca-certificates.crt "$project-rust:/etc/ssl/certs/"; } &&
    commit "$project-rust" "$name" "$version" 'ENV CARGO_HOME=/usr/local/cargo' || die "making $name"
}

# The same variables as the usual PostgreSQL image, as far as the compose file uses them.
make_postgres() {
  local name=$1
  usable "$name" 1 && return
  say "making $name"
  fill "$project-postgres" postgresql || die "packages of $name"
  cat >"$tmp/entrypoint" <<'SH'
#!/bin/sh
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
install -d -o postgres -g postgres -m 0700 "$PGDATA"
install -d -o postgres -g postgres /var/run/postgresql
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf '%s\n' "$POSTGRES_PASSWORD" >/tmp/password
  chown postgres /tmp/password
  as_postgres "$bin/initdb" -D "$PGDATA" -U "$POSTGRES_USER" -E UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host=scram-sha-256 --pwfile=/tmp/password
  rm /tmp/password
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE \"$POSTGRES_DB\"" | as_postgres "$bin/postgres" --single -D "$PGDATA" postgres
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups "$bin/postgres" -D "$PGDATA" -c 'listen_addresses=*'
SH
  chmod 0755 "$tmp/entrypoint"
  quiet cp timeout 60 "$docker" cp "$tmp/entrypoint" "$project-postgres:/usr/local/bin/entrypoint" &&
    commit "$project-postgres" "$name" 1 'ENV PGDATA=/var/lib/postgresql/data' \
      'ENTRYPOINT ["/usr/local/bin/entrypoint"]' 'CMD []' || die "making $name"
}

# A base without a shell: the C library, and nothing that could be run.
make_no_shell() {
  have_image "$1" && return
  local box=$project-libs
  quiet libs timeout 60 "$docker" create --name "$box" --network none "$run_image" true || return
  mkdir -p "$tmp/all"
  "$docker" export "$box" | tar -C "$tmp/all" -x --wildcards 'lib*' 'usr/lib/*/libc.so*' \
    'usr/lib/*/libm.so*' 'usr/lib/*/libgcc_s.so*' 'usr/lib/*/ld-linux*' 'usr/lib64*' || true
  "$docker" rm "$box" >/dev/null
  tar -C "$tmp/all" -c . | quiet import timeout 60 "$docker" import --change 'ENV PATH=/usr/local/bin' - "$1" && made "$1"
}

# ---------------------------------------------------------------- build

build() {
  local what=$1 begin=$SECONDS; shift
  if quiet build nice timeout 2400 "$docker" build --network host "${proxy_args[@]}" "$@" "$root"; then
    pass "$what ($((SECONDS - begin)) s)"
  else
    fail "$what"
    return 1
  fi
}

configured() { # template, pattern
  local value
  value=$("$docker" image inspect --format "$1" "$image") && [[ $value =~ $2 ]]
}

# ---------------------------------------------------------------- running

dc() { timeout "${limit:-60}" "${compose[@]}" "$@"; }
id_of() { dc ps -q "$1"; }
state() { "$docker" inspect --format "$1" "$2"; }
healthy() { [[ $(state '{{.State.Health.Status}}' "$1") == healthy ]]; }
unhealthy() { [[ $(state '{{.State.Health.Status}}' "$1") == unhealthy ]]; }
ended() { [[ $(state '{{.State.Running}}' "$1") == false ]]; }
sql() { dc exec -T db psql -U counterfoil -d counterfoil -v ON_ERROR_STOP=1 -qAtc "$1"; }

is() { [[ $2 == "$1" ]]; }
exits() { # status, command…
  local want=$1 got=0; shift
  "$@" >/dev/null 2>&1 || got=$?
  [[ $got == "$want" ]]
}
loopback_only() { # containers
  local box ports
  for box in "$@"; do
    ports=$("$docker" port "$box") && [[ -n $ports ]] || return 1
    ! grep -qv -- '-> 127\.0\.0\.1:' <<<"$ports" || return 1
  done
}

# http METHOD URL [curl options…]: sets $status, $etag and $body.
status='' etag='' body=''
http() {
  local method=$1 url=$2; shift 2
  status=$(curl -sS --max-time 10 --noproxy '*' -X "$method" -D "$tmp/head" -o "$tmp/body" -w '%{http_code}' "$@" "$url" 2>"$tmp/curl.err") || status=000
  etag=$(sed -n 's/^etag: *\([^\r]*\)\r\{0,1\}$/\1/Ip' "$tmp/head" 2>/dev/null || true)
  body=$(cat "$tmp/body" 2>/dev/null || true)
}
answers() { http GET "$2"; [[ $status == "$1" ]]; }
refuses() { http GET "$1"; [[ $status != 200 ]]; }
put() { # url, tag, text
  http PUT "$1" -H "If-Match: $2" -H 'Content-Type: application/json' --data "{\"body\":\"$3\"}"
}
expect() { # what, status, pattern of the body
  if [[ $status == "$2" && $body =~ $3 ]]; then
    pass "$1"
  else
    fail "$1: status $status, body ${body:0:300} $(cat "$tmp/curl.err" 2>/dev/null || true)"
  fi
}

unused_port() { # above the given one
  local port=$1
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
  echo "$port"
}

# What the kernel says of a container's first process; no tool inside the container is needed.
confined() {
  local name=$1 pid status_file
  pid=$(state '{{.State.Pid}}' "$2")
  status_file=/proc/$pid/status
  if [[ ! -r $status_file ]]; then
    say "note: the engine's processes cannot be seen from here; $name is not looked at"
    return
  fi
  check "$name runs as another user than root" awk '/^[UG]id:/ { for (i = 2; i <= 5; i++) if ($i == 0) bad = 1 } END { exit bad }' "$status_file"
  check "$name has no capabilities" awk '/^Cap(Prm|Eff|Bnd|Amb):/ && $2 !~ /^0+$/ { bad = 1 } END { exit bad }' "$status_file"
  check "$name can gain no privileges" grep -q '^NoNewPrivs:[[:space:]]*1$' "$status_file"
  check "$name has a read-only root file system" awk '$5 == "/" { found = 1; ro = $6 ~ /(^|,)ro(,|$)/ } END { exit !(found && ro) }' "/proc/$pid/mountinfo"
}

# ---------------------------------------------------------------- the check

[[ $(id -u) == 0 ]] || die "needs root, to install packages, to debootstrap and to start an engine: sudo make docker-check"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/counterfoil-docker.XXXXXX")
install_tools
[[ -d $root/target || -n ${DOCKER_CHECK_DIR:-} ]] || install -d -o "$(stat -c %u "$root")" -g "$(stat -c %g "$root")" "$root/target"
mkdir -p "$work"
(($(df --output=avail -k "$work" | tail -n 1) > 6 * 1024 * 1024)) || die "less than 6 GiB free in $work"

proxy_env=() proxy_args=()
for name in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
  [[ -z ${!name:-} ]] || { proxy_env+=(--env "$name"); proxy_args+=(--build-arg "$name"); }
done

start_engine
if "$docker" compose version >/dev/null 2>&1; then compose=("$docker" compose); else compose=(docker-compose); fi
compose+=(--file "$root/docker-compose.yml" --project-directory "$root" --project-name "$project")

run_image=$(default_of RUN_IMAGE)
build_image=$(default_of BUILD_IMAGE)
suite=${run_image##*:} suite=${suite%-slim}
[[ -n $run_image && -n $build_image ]] || die "the Dockerfile names no base images"
make_debian "$run_image" "$suite"
make_rust "$build_image"
make_postgres "$postgres_image"

build "the Dockerfile builds" --tag "$image" || exit 1
say "the image has $(size_of "$image"), the binary's layer $("$docker" history --human=true --format '{{.CreatedBy}} {{.Size}}' "$image" | awk '/COPY|file:|counterfoil in/ { print $NF; exit }')"
check "the image's user is a number above 0" configured '{{.Config.User}}' '^[1-9][0-9]*(:[1-9][0-9]*)?$'
check "the image checks its health through the binary" configured '{{json .Config.Healthcheck.Test}}' '^\["CMD","counterfoil","health"'
check "the image starts the binary itself" configured '{{json .Config.Entrypoint}} {{json .Config.Cmd}}' '^\["counterfoil"\] \["serve"\]$'
build "a second build uses the cache" --tag "$image" || exit 1
if [[ -n $engine_pid ]]; then
  # The build stage keeps a name, and with it its layers for the next run; those of older sources go.
  quiet stage timeout 300 "$docker" build --network host "${proxy_args[@]}" --target build --tag counterfoil-check:build "$root" &&
    quiet prune timeout 120 "$docker" image prune --force || fail "keeping the build stage"
fi

if make_no_shell "$bare_run_image" && build "it builds on a base without a shell" --build-arg "RUN_IMAGE=$bare_run_image" --tag counterfoil-check:no-shell; then
  check "the binary runs where there is no shell" quiet version timeout 30 "$docker" run --rm --network none --read-only \
    --cap-drop ALL --name "$project-version" counterfoil-check:no-shell --version
fi
check "health says no, with status 1, where nothing listens" exits 1 timeout 30 "$docker" run --rm --network none --read-only --name "$project-health" "$image" health

COUNTERFOIL_PORT_1=$(unused_port 18081)
COUNTERFOIL_PORT_2=$(unused_port $((COUNTERFOIL_PORT_1 + 1)))
COUNTERFOIL_IMAGE=$image POSTGRES_IMAGE=$postgres_image
export COUNTERFOIL_PORT_1 COUNTERFOIL_PORT_2 COUNTERFOIL_IMAGE POSTGRES_IMAGE
compose_up=yes
limit=240 quiet up dc up -d --no-build || die "compose up"
pass "compose up: the migration ran, and both replicas started"
one=$(id_of counterfoil-1) two=$(id_of counterfoil-2)
check "replica 1 turns healthy" until_true 60 healthy "$one"
check "replica 2 turns healthy" until_true 60 healthy "$two"
a=http://127.0.0.1:$COUNTERFOIL_PORT_1 b=http://127.0.0.1:$COUNTERFOIL_PORT_2
check "replica 1 is ready" until_true 20 answers 200 "$a/readyz"
check "replica 2 is ready" until_true 20 answers 200 "$b/readyz"
check "ports are published on loopback only" loopback_only "$one" "$two"
check "the database is not published" is "" "$("$docker" port "$(id_of db)")"
confined "replica 1" "$one"
confined "replica 2" "$two"
check "a second migration changes nothing and succeeds" quiet migrate dc run --rm -T migrate

sql "create table public.$table (id integer primary key, body text not null);
     insert into public.$table values (1, 'as it was')" >/dev/null || die "the demo table"
check "compose run adopts a table" quiet adopt dc run --rm -T migrate adopt "public.$table"
row=api/v1/$table/1
check "replica 1 notices the adopted table" until_true 15 answers 200 "$a/$row"
check "replica 2 notices the adopted table" until_true 15 answers 200 "$b/$row"
http GET "$a/$row"
first=$etag
put "$a/$row" "$first" 'by replica 1'
expect "replica 1 takes a PUT with the right tag $first" 200 'by replica 1'
second=$etag
put "$b/$row" "$second" 'by replica 2'
expect "replica 2 takes a PUT with the tag that replica 1 gave, $second" 200 'by replica 2'
put "$a/$row" "$first" 'too late'
expect "replica 1 refuses the first tag, with the row that replica 2 wrote" 409 'WRITE_CONFLICT.*by replica 2'
check "the database has one row, written twice" is "3by replica 2" "$(sql "select version || body from public.$table")"

limit=90 quiet stop dc stop db || fail "compose stop db"
check "without its database a replica is not ready" until_true 20 refuses "$a/readyz"
check "without its database a replica still lives" answers 200 "$a/healthz"
limit=90 quiet start dc start db || fail "compose start db"
check "with its database again, replica 1 is ready" until_true 60 answers 200 "$a/readyz"
check "with its database again, replica 2 is ready" until_true 60 answers 200 "$b/readyz"
http GET "$b/$row"
expect "the row outlived the database's restart" 200 'by replica 2'

# `stop` sends SIGTERM and, when the grace is over, SIGKILL (exit status 137).
begin=$SECONDS
limit=$((grace + 30)) quiet stop dc stop counterfoil-1 || fail "compose stop"
took=$((SECONDS - begin))
check "compose stop ends replica 1" ended "$one"
check "SIGTERM was enough: its exit status is 0" is 0 "$(state '{{.State.ExitCode}}' "$one")"
check "it took $took s of $grace s" test "$took" -lt "$grace"
check "replica 2 goes on alone" answers 200 "$b/$row"
