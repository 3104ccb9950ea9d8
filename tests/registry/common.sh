# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts in this folder. Arguments: the program that pushes and pulls, registry_tool (makes bundles),
# bundle_sample_tool (opens, repacks, signs them). Processes that are started here end with the script.
set -u
AOT=$(realpath "$1") MAKE=$(realpath "$2") SAMPLE=$(realpath "$3")
# shellcheck disable=SC2034 # used by the scripts
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # used by the scripts
PYTHON=$("$HERE/../python" -c 'import sys; print(sys.executable)')
WORK=$(mktemp -d)
STARTED=()
failures=0
checks=0

end() {
    ((${#STARTED[@]} == 0)) || kill "${STARTED[@]}" 2>/dev/null
    wait 2>/dev/null
    rm -rf "$WORK"
}
trap end EXIT
cd "$WORK" || exit 99

# No login, proxy or setting of the machine is used.
unset DOCKER_CONFIG REGISTRY_AUTH_FILE XDG_RUNTIME_DIR http_proxy https_proxy all_proxy no_proxy \
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
export HOME=$WORK/home LC_ALL=C
mkdir -p "$HOME"

need() {
    local program
    for program; do
        command -v "$program" >/dev/null || {
            echo "$program is not installed"
            exit 77
        }
    done
}

fail() {
    failures=$((failures + 1))
    echo "FAILED: $1"
    sed 's/^/    /' "$WORK/.out" "$WORK/.err" 2>/dev/null | cut -c1-400
}

# within COMMAND…: runs a program for at most two minutes, or a function.
within() {
    if [ "$(type -t "$1")" = function ]; then "$@"; else timeout 120 "$@"; fi
}

# expect WHAT CODE REGEX COMMAND…: requires the exit code, and a match of the regex in the output.
expect() {
    local what=$1 code=$2 regex=$3 got
    shift 3
    checks=$((checks + 1))
    within "$@" >.out 2>.err </dev/null
    got=$?
    if [ "$got" -ne "$code" ]; then
        fail "$what: exit code $got; expected $code"
    elif ! cat .out .err | grep -Eq -- "$regex"; then
        fail "$what: no line matches '$regex'"
    elif [ "$code" -ne 0 ] && ! tail -n 1 .err | grep -q '^tessera-aot: error: '; then
        fail "$what: expected a last line that tells the error"
    fi
}

# check WHAT COMMAND…: the command must succeed.
check() {
    local what=$1
    shift
    checks=$((checks + 1))
    within "$@" >.out 2>.err </dev/null || fail "$what"
}

# number NAME: a number of the JSON summary that was printed last.
number() { sed -E "s/.*\"$1\": ([0-9.]+|true|false).*/\1/" .out; }

# below WHAT VALUE LIMIT
below() {
    checks=$((checks + 1))
    if ! [ "$2" -lt "$3" ] 2>/dev/null; then fail "$1: $2; expected less than $3"; fi
}

# equal WHAT VALUE EXPECTED
equal() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: '$2'; expected '$3'"
}

free_port() { "$PYTHON" "$HERE/../free_port.py"; }

# await PORT: waits until a server listens there.
await() {
    local try
    for try in $(seq 200); do
        if (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
        sleep 0.05
    done
    echo "nothing listens on port $1"
    cat "$WORK"/*.log 2>/dev/null
    exit 1
}

# start NAME COMMAND…: runs it in the background with its output in NAME.log; sets LAST to its process id.
start() {
    local name=$1
    shift
    : >"$WORK/$name.log" # opened for appending: a test may empty it
    "$@" >>"$WORK/$name.log" 2>&1 </dev/null &
    LAST=$!
    STARTED+=("$LAST")
}

# serve NAME [TEXT]: docker-registry on loopback, with TEXT in its configuration; sets PORT.
serve() {
    need docker-registry
    PORT=$(free_port)
    printf 'version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: %s}\nhttp:\n  addr: 127.0.0.1:%s\n%s\n' \
        "$WORK/$1.data" "$PORT" "${2:-}" >"$WORK/$1.yml"
    start "$1" docker-registry serve "$WORK/$1.yml"
    await "$PORT"
}

# python_server NAME SCRIPT ARGUMENTS…: starts a server of this folder with a free port as the first argument; sets PORT.
python_server() {
    local name=$1 script=$2
    shift 2
    PORT=$(free_port)
    start "$name" "$PYTHON" "$HERE/$script" "$PORT" "$@"
    await "$PORT"
}

# authority: makes ca.pem, and tls.pem with tls.key, signed by it, for a server on loopback and registry.test.
authority() {
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca 2>.err
    openssl req -newkey rsa:2048 -nodes -keyout tls.key -out tls.csr -subj /CN=localhost 2>.err
    printf 'subjectAltName=DNS:localhost,DNS:registry.test,IP:127.0.0.1\n' >san
    openssl x509 -req -in tls.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out tls.pem 2>.err
}

# behind NAME UPSTREAM_PORT: starts proxy.py in front of a registry; sets PORT. `rules LINE…` sets its rules; the requests that
# it received are in net/log.
behind() {
    mkdir -p net
    python_server "$1" proxy.py "$2" "$WORK/net"
}
rules() {
    : >net/log
    printf '%s\n' "$@" >net/rules.new
    mv net/rules.new net/rules
}

finish() {
    echo "$checks checks, $failures failed"
    [ "$checks" -gt 0 ] && [ "$failures" -eq 0 ]
    exit
}
