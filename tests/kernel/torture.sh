#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tools/torture does with a finding: a build whose programs only pretend. Argument: source root.
set -u
ROOT=$(realpath "$1")
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
failures=0

check() { # WHAT COMMAND...
    local what=$1
    shift
    "$@" || {
        failures=$((failures + 1))
        echo "FAILED: $what"
    }
}

mkdir -p "$WORK/build/tools" "$WORK/build/tests/store/proof"
printf '#!/bin/sh\nexit 0\n' >"$WORK/build/tools/tessera-run"
cat >"$WORK/build/tests/store/proof/proof" <<'END'
#!/bin/sh
echo "generation 3 was acknowledged | and is gone"
echo "  reproduce: proof $1 --seed $5 --at 7"
[ "$1" = pairs ]
END
chmod +x "$WORK/build/tools/tessera-run" "$WORK/build/tests/store/proof/proof"
printf '| bug | reproduction | fixed by |\n|---|---|---|\n' >"$WORK/ledger"

torture() {
    "$ROOT/tools/torture" --build "$WORK/build" --ledger "$WORK/ledger" --seconds 1 "$@" >"$WORK/out" 2>&1
    code=$?
}
rows() { tail -n +3 "$WORK/ledger" | wc -l; }

torture --layer pairs
check "nothing found: exit code 0, got $code" [ "$code" -eq 0 ]
check "nothing found: no row" [ "$(rows)" -eq 0 ]
torture --layer states
check "a finding: exit code 1, got $code" [ "$code" -eq 1 ]
check "it says what, and how to repeat it" grep -q 'FINDING: generation 3 was acknowledged' "$WORK/out"
check "the first seed is 1" grep -qF '| states: generation 3 was acknowledged and is gone | `proof weak --seed 1 --at 7` | open |' "$WORK/ledger"
before=$(rows)
next=$(cat "$WORK/build/torture/states")
torture --layer states
check "it continues with the next seed, $next" grep -qF "weak --seed $next --at" "$WORK/ledger"
check "which is another finding" [ "$(rows)" -gt "$before" ]
before=$(rows)
torture --layer states --again
check "--again begins with seed 1" grep -q 'from seed 1:' "$WORK/out"
sort "$WORK/ledger" | uniq -d | grep -q . && check "no row twice" false
check "what was found before is not written down again" [ "$(rows)" -ge "$before" ]
echo "$failures failed"
[ "$failures" -eq 0 ]
