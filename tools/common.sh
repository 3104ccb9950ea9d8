# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Shared by the scripts of this folder: the root of the tree, output and errors. Exit codes
# are those of every tool (docs/exit-codes.md).

# shellcheck disable=SC2034 # used by the scripts that source this file
readonly EXIT_INTERNAL=1 EXIT_USAGE=6 EXIT_IO=7 EXIT_MACHINE=17

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly ROOT

# The compilers' own settings apply; the language of messages and numbers does not.
export LC_ALL=C

say() { printf '%s\n' "$*"; }

# die CODE TEXT
die() {
    local code=$1
    shift
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "$code"
}

# The comment block at the top of a script is its --help.
print_help() { sed -n '3,/^[^#]/{s/^# \{0,1\}//;t print;b;:print;p}' "$1"; }

# log_run TITLE LOG COMMAND...: prints TITLE, writes the output to LOG and shows its end on failure.
log_run() {
    local title=$1 log=$2 status=0
    shift 2
    say "$title"
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if ((status)); then
        tail -n 60 "$log" >&2
        die "$EXIT_INTERNAL" "failed with exit code $status: $* (whole output: $log)"
    fi
}

# configure DIR OPTIONS...: runs meson setup, even in a folder configured before with other options.
configure() {
    local dir=$1
    shift
    if [[ -f $dir/build.ninja ]]; then
        meson configure "$dir" "$@"
    else
        rm -rf "$dir"
        meson setup "$dir" "$ROOT" "$@"
    fi
}

# The number of jobs that cores and memory allow: one C++ file of the dialects needs about 1 GB to compile.
job_count() {
    local cores memory_kb
    cores=$(nproc)
    memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
    local by_memory=$((memory_kb / 1200000))
    ((by_memory < 1)) && by_memory=1
    ((cores < by_memory)) && by_memory=$cores
    printf '%d\n' "$by_memory"
}
