#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bad arguments: one line with both values, the documented exit code.
. "$(dirname "$0")/common.sh"

expect "help" 0 'usage: tessera-run' "$RUN" --help
expect "version" 0 '^tessera-run [0-9]+\.[0-9]+\.[0-9]+$' "$RUN" --version
expect "no bundle" 6 'expected one bundle' "$RUN"
expect "two bundles" 6 '2 files are given' "$RUN" "$BUNDLE" other.tsb
expect "unknown flag" 6 "unknown flag '--stepz'; known are .*--steps" "$RUN" "$BUNDLE" --stepz 3
expect "value missing" 6 '--steps needs a value' "$RUN" "$BUNDLE" --steps
expect "switch with value" 6 "--quiet takes no value; got 'yes'" "$RUN" "$BUNDLE" --quiet=yes
expect "flag twice" 6 '--steps is given twice' "$RUN" "$BUNDLE" --steps 3 --steps 4
for steps in 0 -5 18446744073709551616 99999999999999999999999 3.5 ten ''; do
    expect "steps '$steps'" 6 "--steps is '$steps'; expected a number from 1 to 18446744073709551615" \
        "$RUN" "$BUNDLE" --steps="$steps"
done
expect "seed too large" 6 "--seed is '4294967296'; expected a number from 0 to 4294967295" "$RUN" "$BUNDLE" --seed 4294967296
expect "threads 0" 6 "--threads is '0'" "$RUN" "$BUNDLE" --threads 0
expect "keep 1" 6 "--keep is '1'; expected a number from 2" "$RUN" "$BUNDLE" --keep 1
expect "steps missing" 6 '--steps is missing' "$RUN" "$BUNDLE" "${DATA[@]}"
expect "save-every without state" 6 '--save-every needs --state-dir' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --save-every 1
expect "resume nonsense" 6 "--resume is 'maybe'" "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --state-dir S --resume maybe
expect "entry unknown" 6 "no entry 'predickt'; the bundle has evaluate, predict, train" "$RUN" "$BUNDLE" --entry predickt
expect "record and replay" 6 'not both' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --record a --replay b
expect "pair without =" 6 "--data is 'images'; expected NAME=PATH" "$RUN" "$BUNDLE" --data images --steps 3
expect "data twice" 6 "--data names 'images' twice" "$RUN" "$BUNDLE" "${DATA[@]}" --data images=x --steps 3
expect "input to training" 6 'belong to a call' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --input x=y.npy
expect "steps to a call" 6 "entry 'predict' does not train" "$RUN" "$BUNDLE" --entry predict --steps 3
expect "cpu nonsense" 6 "'pentium' is no CPU level" "$RUN" "$BUNDLE" --cpu pentium "${DATA[@]}" --steps 3
expect "eval without data" 6 'evaluation every 2 steps needs' "$RUN" "$BUNDLE" "${DATA[@]}" --steps 3 --eval-every 2
check "nothing was left behind" test -z "$(ls)"

# A closed or full standard output.
"$RUN" --help >&- 2>.err
if [ $? -ne 7 ] || ! grep -q 'cannot write to standard output' .err; then fail "closed stdout"; fi
"$RUN" "$BUNDLE" "${DATA[@]}" "${TEST_DATA[@]}" --steps 3 --quiet >/dev/full 2>.err
if [ $? -ne 7 ] || ! grep -q 'cannot write to standard output' .err; then fail "full stdout"; fi
checks=$((checks + 2))
finish
