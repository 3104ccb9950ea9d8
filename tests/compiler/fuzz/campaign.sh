#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# campaign.sh FOLDER SECONDS [SEED]: builds fuzz_mlir with ASan and UBSan in FOLDER/build and runs it; the next run of a seed continues
# where the last one stopped. Inputs that broke something are left in FOLDER/found. Each run appends a row to EXECUTIONS.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
here=tests/compiler/fuzz
mkdir -p "$1/found"
folder=$(realpath "$1") seconds=$2 seed=${3:-1}
cd "$root"
[ -d "$folder/build" ] || meson setup "$folder/build" -Db_sanitize=address,undefined -Db_lundef=false \
    -Dc_args=-fno-sanitize-recover=all -Dcpp_args=-fno-sanitize-recover=all >"$folder/build.log"
ninja -C "$folder/build" "$here/fuzz_mlir" >>"$folder/build.log"
program=$folder/build/$here/fuzz_mlir
for plant in leak overflow; do # what the sanitizers must find
    if "$program" --plant $plant --runs 1 --seeds examples >"$folder/plant.log" 2>&1; then
        echo "campaign.sh: a planted $plant was not found" && exit 1
    fi
done
first=$(awk -v seed="$seed" '!/^#/ && $2 == seed { n = $3 + $4 } END { printf "%d", n }' "$here/EXECUTIONS")
status=0
"$program" --seed "$seed" --first "$first" --runs 1000000000 --seconds "$seconds" --reach 30 \
    --known "$here/LEDGER.md" --found "$folder/found" --seeds tests/compiler examples >"$folder/log" || status=$?
cat "$folder/log"
# "fuzz: N inputs in T s, P % reached the last pass, D died in MLIR"
sed -n 's/^fuzz: \([0-9]*\) inputs in \([0-9]*\) s, \([0-9.]*\) % reached the last pass, \([0-9]*\) died.*/\1 \2 \3 \4/p' "$folder/log" |
    while read -r inputs time share deaths; do
        printf '%s %4d %10d %10d %6d s %6s %% %5d\n' "$(date -u +%Y-%m-%d)" "$seed" "$first" "$inputs" "$time" "$share" \
            "$deaths" >>"$here/EXECUTIONS"
    done
exit "$status"
