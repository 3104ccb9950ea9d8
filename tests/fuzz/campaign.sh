#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# campaign.sh FOLDER SECONDS [--mode=MODE] [TARGET...]: fuzzes the targets (all of them) in turn,
# one minute each; one slice in eight under ASan, one in eight under MSan, the others fast; or all
# of them in one mode of build.sh. Programs and the growing corpora stay in FOLDER. Each slice
# appends a row to tests/fuzz/EXECUTIONS. An input that causes a failure is stored in FOLDER/found,
# and ends the campaign.
#
# campaign.sh FOLDER --minimise: rewrites tests/fuzz/corpus from FOLDER's corpora: the fewest and
# smallest inputs with the same coverage.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1/found"
folder=$(realpath "$1") seconds=$2
shift 2
only=''
case ${1-} in --mode=*) only=${1#--mode=} && shift ;; esac
if [ $# = 0 ]; then
    cd "$root/tests/fuzz/targets"
    # shellcheck disable=SC2046 # a list
    set -- $(for source in *.c; do basename "$source" .c; done)
fi
for mode in ${only:-fast checked memory}; do "$root/tests/fuzz/build.sh" "$root" "$folder" "$mode"; done

if [ "$seconds" = --minimise ]; then
    for target in "$@"; do
        corpus=$root/tests/fuzz/corpus/$target
        mkdir -p "$folder/least" "$corpus"
        rm -rf "$folder/least/$target"
        mkdir "$folder/least/$target"
        "$folder/fast/$target" -set_cover_merge=1 -max_len=4096 "$folder/least/$target" "$corpus" \
            "$folder/corpus/$target" 2>"$folder/merge.log" || { tail "$folder/merge.log"; exit 1; }
        find "$corpus" -type f ! -name 'case-*' -delete
        cp "$folder/least/$target"/* "$corpus/"
        echo "$target: $(find "$corpus" -type f | wc -l) inputs, $(du -sb "$corpus" | cut -f1) bytes"
    done
    exit 0
fi

round=0 begin=$(date +%s)
while [ $(($(date +%s) - begin)) -lt "$seconds" ]; do
    slice=$round # each target runs in every mode in turn, in a different one than its neighbours
    for target in "$@"; do
        left=$((seconds - $(date +%s) + begin))
        [ "$left" -gt 0 ] || break
        [ "$left" -lt 60 ] || left=60
        case $((slice % 8)) in
        3) mode=checked ;;
        7) mode=memory ;;
        *) mode=fast ;;
        esac
        mode=${only:-$mode}
        if [ "$target" = signature ] && [ "$mode" = memory ]; then mode=checked; fi # mostly OpenSSL
        slice=$((slice + 1))
        corpus=$folder/corpus/$target
        mkdir -p "$corpus"
        "$folder/$mode/$target" "-seeds=$corpus"
        "$folder/$mode/$target" -max_total_time="$left" -max_len=2048 -timeout=20 -rss_limit_mb=2048 \
            -verbosity=0 -artifact_prefix="$folder/found/$target-" "$corpus" \
            "$root/tests/fuzz/corpus/$target" >"$folder/log" 2>&1 || {
            tail -n 60 "$folder/log"
            exit 1
        }
        # "fuzz: tar: N executions, P % passed the header checks"
        sed -n 's/^fuzz: \([a-z]*\): \([0-9]*\) executions, \([0-9.]*\) .*/\1 \2 \3/p' "$folder/log" |
            while read -r name executions share; do
                printf '%s %-11s %-8s %12d %5d s  %5s %%\n' "$(date -u +%Y-%m-%d)" "$name" "$mode" \
                    "$executions" "$left" "$share" >>"$root/tests/fuzz/EXECUTIONS"
            done
    done
    round=$((round + 1))
done
awk '!/^#/ { sum += $4 } END { printf "%.0f executions in all\n", sum }' "$root/tests/fuzz/EXECUTIONS"
