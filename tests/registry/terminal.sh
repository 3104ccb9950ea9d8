#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The progress bar on a terminal: bytes, rate, time left, in one row, which is erased at the end.
. "$(dirname "$0")/common.sh"
need docker-registry

check "make" "$MAKE" make a.tsb 3 1 0 1
WEIGHTS=/$(tar tvf a.tsb | sort -n -k 3 | tail -n 1 | awk '{ print $6 }' | sed 's,sha256/,sha256:,')
serve registry
behind docker "$PORT"
P=127.0.0.1:$PORT
export TERM=xterm

on_terminal() { # COLUMNS CODE WHAT ARGUMENTS…
    rm -f out.tsb out.tsb.part
    check "$*" "$PYTHON" "$HERE/terminal.py" "$1" "$2" "$3" "$AOT" "${@:4}"
    states=$(sed -n 's/^states \([0-9]*\) .*/\1/p' .out)
    bars=$(sed -n 's/.* bars \([0-9]*\) .*/\1/p' .out)
    rate=$(sed -n 's/.* rate \([0-9]*\)$/\1/p' .out)
}
only() { # REGEX…: only these rows are on the screen at the end
    local row number=0
    while IFS= read -r row; do
        number=$((number + 1))
        checks=$((checks + 1))
        [[ $row =~ ^\|${!number:-nothing} ]] || fail "row $number at the end: '$row'"
    done < <(grep '^|' .out)
    equal "rows at the end" "$number" $#
}

rules "PUT $WEIGHTS 99 throttle-request 3000000" "PATCH /blobs/uploads/ 99 throttle-request 3000000"
on_terminal 160 0 send push a.tsb "$P/a"
below "too few states" 2 "$states"
only 'pushed 127' '  sent'
on_terminal 120 0 send push a.tsb "$P/a"
only 'pushed 127' '  sent .* 12 of 12 blobs were there'

rules "GET $WEIGHTS 99 throttle 2000000"
on_terminal 160 0 receive pull "$P/a" -o out.tsb
below "too few states" 12 "$bars"
below "the rate that was shown" "$rate" 3000000
below "the rate, too small" 1000000 "$rate"
only 'pulled 127' '  sent'
on_terminal 80 0 receive pull "$P/a" -o out.tsb --json
below "a shorter bar in 80 columns" 12 "$bars"
equal "the summary alone is on the screen" \
    "$(grep '^|' .out | cut -c2- | tr -d '\n' | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["unchanged"])')" False
on_terminal 60 0 receive pull "$P/a" -o out.tsb --quiet
equal "no bar where it is not wanted" "$states" 0
only
on_terminal 50 0 receive pull "$P/a" -o out.tsb --json
equal "no bar in 50 columns" "$bars" 0
below "but numbers" 12 "$states"
on_terminal 20 0 receive pull "$P/a" -o out.tsb --json
below "cut in 20 columns" 12 "$states"

rules "GET $WEIGHTS 99 cut-response 2000000"
on_terminal 400 18 receive pull "$P/a" -o out.tsb --retries 0
below "drawn" 0 "$states"
only 'tessera-aot: error: '

# If the terminal cannot erase, lines are printed.
rules
TERM=dumb on_terminal 200 0 receive pull "$P/a" -o out.tsb
equal "a terminal that cannot erase" "$states" 0
only 'receive: ' 'pulled 127' '  sent'
rm -f out.tsb
expect "no terminal" 0 '^receive: [0-9.]+ MB of [0-9.]+ MB, [0-9.]+ [kMG]?B/s$' "$AOT" pull "$P/a" -o out.tsb
expect "nobody there" 18 '^send: 0 B of ' "$AOT" push out.tsb 127.0.0.1:1/models/a:v1
equal "lines that stop short" "$(grep -c ',[ ]*$' .err)" 0
finish
