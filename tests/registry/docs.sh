#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The blocks of commands in README.md and docs/*.md, run in order: pages share a folder, in which `examples` is a link.
# A block is one of `sh`, or one without a language that begins with one of our programs or a variable. Its requirements
# are named in a line `<!-- needs: WHAT ... -->` before it: registry (registry.example.org is a registry on loopback),
# ptxas, gpu, amd, torch, jax. A block after a line `<!-- file: NAME -->` is the text of that file, which the reader saves.
# Of the scripts of tools/ only --help is run, since each of them is a whole test run.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ROOT=$(cd "$HERE/../.." && pwd)
PATH=$(dirname "$AOT"):$PATH
serve registry
mkdir pages blocks bin
printf '#!/bin/sh\nexec "%s" "$@"\n' "$PYTHON" >bin/python3
chmod +x bin/python3
PATH=$PWD/bin:$PATH
cat >extract.py <<'END'
import pathlib, re, sys
root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
number = 0
for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
    text = page.read_text("utf-8")
    for found in re.finditer(r"^(?:<!-- needs: ([\w ]+) -->\n+)?(?:<!-- file: (\S+) -->\n+)?```(\S*)\n(.*?)^```$", text, re.M | re.S):
        needs, file, language, block = found.groups()
        if file:
            block = f"cat >{file} <<'END OF FILE'\n{block}END OF FILE\n"
        elif language not in ("", "sh") or not language and not re.match(r"tessera-\w+ |tools/\w+|meson |[A-Z]+=", block):
            continue
        number += 1
        line = text.count("\n", 0, found.start(4)) + 1
        (out / f"{number:02}").write_text(f"# {page.relative_to(root)}:{line} {needs or ''}\n{block}")
END
"$PYTHON" extract.py "$ROOT" blocks

# have NEED...: true if this machine has it.
have() {
    local need
    for need; do
        case $need in
        registry) ;;
        ptxas) command -v ptxas >/dev/null || [ -x /usr/local/cuda/bin/ptxas ] || return 1 ;;
        torch) "$PYTHON" -c 'import torch, safetensors.torch' 2>/dev/null || return 1 ;;
        jax) "$PYTHON" -c 'import jax' 2>/dev/null || return 1 ;;
        amd) [ -e /dev/kfd ] || return 1 ;;
        gpu) compgen -G '/dev/nvidia[0-9]*' >/dev/null || return 1 ;;
        *) fail "a block needs '$need'; there are registry, ptxas, torch, jax, amd and gpu" ;;
        esac
    done
}

cd pages || exit 99
ln -s "$ROOT/examples" "$ROOT/tools" .
skipped=0
for block in ../blocks/*; do
    read -r _ origin needs <"$block"
    # shellcheck disable=SC2086 # several words
    if ! have $needs; then
        skipped=$((skipped + 1))
        continue
    fi
    sed -Ei "s,registry\.example\.org,127.0.0.1:$PORT,g; s,^(tools/[a-z]+).*,\1 --help," "$block"
    checks=$((checks + 1))
    timeout 300 bash -euo pipefail -x "$block" >"$WORK/.out" 2>"$WORK/.err" </dev/null || fail "the commands of $origin"
done
((checks >= 10)) || fail "$checks blocks of commands were found; expected 10 at least"
[ "$skipped" -eq 0 ] || echo "$skipped blocks need what is not here"
echo "$checks blocks of commands, $failures failed"
[ "$failures" -eq 0 ]
