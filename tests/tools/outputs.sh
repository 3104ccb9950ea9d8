#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No tool overwrites its inputs, another output, or files in a directory that it reads: every option that writes is tested, with every spelling of the
# path. Argument 5: tessera-opt.
OPT=$(realpath "$5")
. "$(dirname "$0")/common.sh"

# ---- the inputs: one of each kind ----
cat >m.mlir <<'SOURCE'
func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
SOURCE
cp "$BUNDLE" d.tsb
cp "$DIGITS/train-images.npy" images.npy
cp "$DIGITS/train-labels.npy" labels.npy
cp "$DIGITS/test-images.npy" x.npy
train=(--data images=images.npy --data labels=labels.npy --steps 2 --quiet)
"$RUN" d.tsb "${train[@]}" --state-dir S --record r.log --export-params w.safetensors >/dev/null || fail "a state"
"$AOT" keygen -o k >/dev/null || fail "keys"
"$AOT" sign d.tsb --key k >/dev/null || fail "a signature"
mkdir layout && tar -xf d.tsb -C layout && touch ca.pem
printf '{}' >auth.json
MANIFEST=$(find S -name 'MANIFEST.*' | head -n 1)
find . -type f ! -name '.*' -print0 | sort -z | xargs -0 sha256sum >.sums
names() { find . -mindepth 1 -name '.*' -prune -o -print | sort; }
names >.names

# No existing file has changed, and no new file exists.
whole() {
    checks=$((checks + 1))
    sha256sum --check --quiet .sums >.out 2>.err || fail "$1: what was read has changed"
    names | diff .names - >.out || fail "$1: files came or went"
}

# ---- every output that is also an input; @ marks a path that is spelt differently ----
rows=(
    'aot build m.mlir -o @m.mlir'
    'aot build m.mlir --params w.safetensors -o @w.safetensors'
    'aot build m.mlir --params w.safetensors --reference -o @w.safetensors'
    'aot build m.mlir --ptxas ca.pem -o @ca.pem'
    'aot bake d.tsb --params w.safetensors -o @w.safetensors'
    'aot bake d.tsb --params w.safetensors --reference -o @w.safetensors'
    'aot bake d.tsb --params w.safetensors -o @d.tsb'
    'aot bake d.tsb --state-dir S -o @d.tsb'
    'aot bake d.tsb --state-dir S --export-params @d.tsb'
    'aot bake d.tsb --state-dir S -o new.tsb --export-params @d.tsb.sigstore.json'
    'aot provenance d.tsb --sign k -o @d.tsb'
    'aot provenance d.tsb --sign k -o @k'
    'aot provenance d.tsb --sign k -o @d.tsb.sigstore.json'
    'aot provenance d.tsb --sign k --key k.pub -o @k.pub'
    'aot pull localhost:1/a/b --ca ca.pem -o @ca.pem'
    'aot pull localhost:1/a/b --authfile auth.json -o @auth.json'
    'aot pull localhost:1/a/b --key k.pub -o @k.pub'
    'run d.tsb TRAIN --metrics @d.tsb'
    'run d.tsb TRAIN --record @d.tsb.sigstore.json'
    'run d.tsb TRAIN --export-params @labels.npy'
    'run d.tsb TRAIN --trace @images.npy'
    'run d.tsb TRAIN --key k.pub --roofline @k.pub'
    'run d.tsb TRAIN --params w.safetensors --export-params @w.safetensors'
    'run d.tsb TRAIN --state-dir S --store-log @images.npy'
    'run d.tsb --data images=images.npy --data labels=labels.npy --replay r.log --metrics @r.log'
    'run d.tsb --entry predict --input x=x.npy --output y=@x.npy'
    'run d.tsb --entry predict --params w.safetensors --input x=x.npy --output y=@w.safetensors'
    'run d.tsb --params w.safetensors --export-params @w.safetensors'
)
mkdir .d
one() { # SPELLING ROW: the row with the path after @ spelt that way
    local file=${2##*@} spelling=$1 words
    case $spelling in
    dot) file=./$file ;;
    folder) file=.d/../$file ;;
    absolute) file=$PWD/$file ;;
    link) ln -sf "../$file" .d/link && file=.d/link ;;
    links) ln -sf "../$file" .d/link && ln -sf .d/link .second && file=.second ;;
    hard) ln -f "$file" .d/hard && file=.d/hard ;;
    descriptor) exec 9<"$file" && file=/proc/self/fd/9 ;;
    esac
    read -ra words <<<"${2%%@*}"
    if [[ ${words[0]} == aot ]]; then words[0]=$AOT; else words[0]=$RUN; fi
    [[ ${words[2]-} != TRAIN ]] || words=("${words[@]:0:2}" "${train[@]}" "${words[@]:3}")
    if [[ ${2%%@*} == *' ' ]]; then words+=("$file"); else words[-1]+=$file; fi
    expect "$spelling: $2" 6 "error: .* are one file; expected two: the input would be lost$" "${words[@]}"
    exec 9<&-
}
for row in "${rows[@]}"; do
    one same "$row"
    one link "$row"
    one hard "$row"
done
for spelling in dot folder absolute links descriptor; do
    for row in "${rows[0]}" "${rows[8]}" "${rows[17]}" "${rows[25]}"; do one $spelling "$row"; done
done
whole "outputs over inputs"

# ---- two outputs in the same file ----
touch .d/z && ln -sf .d/z .z
for row in "aot bake d.tsb --state-dir S -o z --export-params ./z" "aot bake d.tsb --state-dir S -o .z --export-params .d/z" \
    "aot build m.mlir -o d2/graph.mlir --dump=all --dump-dir=d2" "aot build m.mlir -o d2/tile.x86-64-v3.mlir --dump=tile --dump-dir=./d2" \
    "run d.tsb TRAIN --metrics z --record z" "run d.tsb TRAIN --export-params z --trace z"; do
    mkdir d2
    read -ra words <<<"${row#* }"
    [[ ${words[1]} != TRAIN ]] || words=(d.tsb "${train[@]}" "${words[@]:2}")
    if [[ $row == aot* ]]; then expect "$row" 6 'are one file; expected two$' "$AOT" "${words[@]}"; else expect "$row" 6 'are one file; expected two$' "$RUN" "${words[@]}"; fi
    rmdir d2 || fail "$row: something was written"
done

# ---- paths that a tool derives ----
cp m.mlir .d/graph.mlir && cp m.mlir .d/model.mlir
one_file='are one file; expected two: the input would be lost'
expect "a dump over the source" 6 "SRC '.d/graph.mlir' and a file that --dump-dir writes in '.d' $one_file" "$AOT" build .d/graph.mlir -o .x.tsb --dump=all --dump-dir=.d
expect "a dump over a link to the source" 6 "$one_file" "$AOT" build ./.d/../.d/graph.mlir -o .x.tsb --dump=graph --dump-dir="$PWD/.d/"
check "the source is whole" cmp m.mlir .d/graph.mlir
check "other dumps beside the source" "$AOT" build .d/graph.mlir -o .x.tsb --target=cpu:x86-64-v3 --dump=tile,schedule --dump-dir=.d
check "the dumps are there" test -s .d/tile.x86-64-v3.mlir -a -s .d/schedule.mlir
cp .d/tile.x86-64-v3.mlir .tile
expect "the dumps that are gone on from" 6 "$one_file" "$AOT" build --from=tile .d/tile.x86-64-v3.mlir -o .x.tsb --dump=all --dump-dir=.d
check "they are whole" cmp .tile .d/tile.x86-64-v3.mlir
check "dumps where a source of another name lies" "$AOT" build .d/model.mlir -o .x.tsb --target=cpu:x86-64-v3 --dump=graph --dump-dir=.d
cp w.safetensors .x.tsb.rebuild
expect "the second build" 6 "$one_file" "$AOT" build m.mlir --params .x.tsb.rebuild -o .x.tsb --verify-rebuild
expect "a signature over its key" 6 "the signature './d.tsb.sigstore.json'.*are one file|$one_file" "$AOT" sign ./d.tsb --key d.tsb.sigstore.json
for name in .part .sigstore.json .part.sigstore.json; do
    cp ca.pem ".p.tsb$name"
    expect "beside a pull: $name" 6 "--ca '.p.tsb$name' and -o '.p.tsb$name' $one_file" "$AOT" pull localhost:1/a/b -o .p.tsb --ca ".p.tsb$name"
done
check "a bundle is repacked in place" "$AOT" repack d.tsb -o d.tsb
expect "a base may be replaced" 18 '' "$AOT" pull localhost:1/a/b -o d.tsb --base ./d.tsb --retries 0
whole "derived outputs"

# ---- outputs in a directory that is read ----
ln -s ../S .d/state && ln -s ../S/new .d/dangling
for out in "$MANIFEST" S/new "./$MANIFEST" .d/state/new S/gen/new .d/dangling; do
    lies="' is in (DIR|--state-dir) 'S', which contains the input; expected a file outside of it"
    expect "export to $out" 6 "$lies|$one_file" "$RUN" export S -o "$out"
    expect "bake to $out" 6 "$lies" "$AOT" bake d.tsb --state-dir S -o "$out"
    expect "parameters to $out" 6 "$lies" "$AOT" bake d.tsb --state-dir S --export-params "$out"
    for flag in --metrics --record --trace --roofline --export-params --store-log; do
        expect "$flag $out" 6 "$lies" "$RUN" d.tsb "${train[@]}" --state-dir S "$flag" "$out"
    done
done
expect "a state directory that does not exist yet" 7 "cannot write 'S2/t.json': No such file" "$RUN" d.tsb "${train[@]}" --state-dir S2 --trace S2/t.json
expect "a state that is adopted" 6 "is in --adopt 'S'" "$RUN" d.tsb "${train[@]}" --state-dir S2 --adopt S --trace S/t.json
for out in layout/index.json layout/new.tsb layout/blobs/new; do
    expect "repack to $out" 6 "-o '$out' is in IN 'layout'|IN 'layout'.*-o '$out'" "$AOT" repack layout -o "$out"
done
whole "directories"

# ---- standard streams ----
for command in "$AOT inspect d.tsb" "$AOT verify d.tsb" "$AOT diff d.tsb layout" "$RUN --check d.tsb" "$OPT m.mlir"; do
    file=$(grep -o '[dm]\.[a-z]*' <<<"${command##*/}" | head -n 1)
    checks=$((checks + 1)) code=0
    # shellcheck disable=SC2086
    $command >>"$file" 2>.err || code=$?
    if [[ $code != 6 ]] || ! grep -Eq 'error: ([a-z]+: )?standard output and .* are one file' .err; then fail "$command >>$file: exit code $code; expected 6"; fi
done
checks=$((checks + 1))
# shellcheck disable=SC2094 # what is refused
"$RUN" d.tsb "${train[@]}" --metrics .m >.m 2>.err && fail "metrics and standard output in one file"
grep -q "standard output and --metrics '.m' are one file" .err || fail "metrics and standard output: another error"
check "both append" sh -c "\"$RUN\" d.tsb ${train[*]} --metrics .m >>.m"
check "both are there" grep -q '^state ' .m
whole "streams"

# ---- unwritable outputs are reported before any work is done ----
mkdir .folder && mkfifo .pipe && mkdir .locked && chmod 555 .locked && ln -s .loop .loop
locked=('.locked/x|Permission denied')
$can_deny || { locked=() && skip "an unwritable folder: permissions do not hold here"; }
head -c 100000 /dev/urandom >.noise # would be refused later, with another code
for row in "aot build .noise -o" "aot bake .noise --state-dir S -o" "aot bake .noise --state-dir S --export-params" "aot repack .noise -o" \
    "aot provenance .noise --sign k -o" "aot keygen -o" "aot pull localhost:1/a/b -o" "run .noise TRAIN --export-params" "run .noise TRAIN --record" \
    "run .noise TRAIN --trace" "run .noise TRAIN --roofline" "run .noise --entry predict --output y=" "run export S -o" "run .noise TRAIN --metrics" \
    "run .noise TRAIN --state-dir S2 --store-log"; do
    read -ra words <<<"${row#* }"
    [[ ${words[1]} != TRAIN ]] || words=("${words[0]}" "${train[@]}" "${words[@]:2}")
    if [[ $row == aot* ]]; then words=("$AOT" "${words[@]}"); else words=("$RUN" "${words[@]}"); fi
    for out in '.folder|is a directory; expected a file' '.missing/x|No such file or directory' '.noise/x|Not a directory' \
        '.loop|Too many levels of symbolic links' "${locked[@]}" \
        '.pipe|is not a regular file' '/dev/full|is not a regular file' '/dev/null|is not a regular file'; do
        [[ $row != *--metrics && $row != *--store-log ]] || [[ $out != *regular* ]] || continue # these are allowed
        path=${out%%|*}
        if [[ $row == *= ]]; then last=("y=$path"); else last=("${words[-1]}" "$path"); fi
        expect "$row $path" 7 "error: ([a-z]+: )?cannot write '$path': (it )?${out#*|}" unprivileged "${words[@]:0:${#words[@]}-1}" "${last[@]}"
    done
done
check "the folder is empty" rmdir .folder
whole "bad outputs"
finish
