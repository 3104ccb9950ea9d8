#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: install.sh BUILD_DIR BUNDLE ROOT: what is installed suffices to build programs in C and C++ and to run them. Its headers
# stand alone, declare what the library exports and nothing else, and define no name but ours.
set -eu
build=$1 bundle=$(realpath "$2") root=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/root meson install -C "$build" --no-rebuild --quiet
cd "$work"
pkg_config=$(find root -name tessera.pc -printf '%h\n' -quit)
export PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_PATH=$work/$pkg_config
include=$(dirname "$(find "$work/root" -type d -path '*/include/tessera' -print -quit)")
library=$(dirname "$(find "$work/root" -name libtessera.so -print -quit)")
export LD_LIBRARY_PATH=$library
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
failed() { echo "FAILED: $1" >&2 && exit 1; }

# ---- manual pages and completions (tools/completion says what stands in them)
for tool in tessera-run tessera-aot; do
    for path in "man1/$tool.1" "bash-completion/completions/$tool.bash" "zsh/site-functions/_$tool" "fish/vendor_completions.d/$tool.fish"; do
        find "$work/root" -path "*/$path" -size +0 | grep -q . || failed "$path is not installed"
    done
done

# ---- the headers: nothing else is installed for including, and each compiles alone, in every version of both languages
find "$include" -type f ! -path "$include/tessera/*" | grep . && failed 'installed outside of include/tessera'
for path in "$include"/tessera/*.h; do
    header=tessera/${path##*/}
    for standard in c11 c17 c++11 c++17 c++20; do
        compiler=cc
        case $standard in c++*) compiler=c++ ;; esac
        printf '#include <%s>\n#include <%s>\n' "$header" "$header" >alone.c
        # shellcheck disable=SC2086 # a list of flags
        "$compiler" -x "${standard%%[0-9]*}" "-std=$standard" $warnings -I"$include" -fsyntax-only alone.c ||
            failed "$header as $standard"
    done
done

# The macros of the program stay, and it gets no others than ours (and those of the C library's headers, and the guards).
printf '#define X(a) 1\n#include <signal.h>\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n' >macros.c
cc -std=c17 -dM -E macros.c | sort >before
echo '#include <tessera/tessera.h>' >>macros.c
cc -std=c17 -I"$include" -dM -E macros.c | sort >after
comm -23 before after | grep . && failed 'a macro of the program is lost'
comm -13 before after | grep -v '^#define TSR_' && failed 'a macro without the prefix TSR_'
grep -q '#define TSR_SUCCESS' <(comm -13 before after) || failed 'no macro of ours was found'

# ---- what the headers declare is what the library exports
echo '#include <tessera/tessera.h>' >declared.c
cc -std=c17 -I"$include" -aux-info declared.X -fsyntax-only declared.c
sed -nE 's,^/\* [^ ]*/tessera/[a-z]+\.h:[0-9]+:NC \*/ extern ([^(]*[ *])?(tsr_[a-z0-9_]+) \(.*,\2,p' declared.X | sort -u >declared
nm -D --defined-only "$library/libtessera.so" | awk '$2 == "T" { print $3 }' | sort -u >exported
test "$(wc -l <declared)" -gt 50 || failed "only $(wc -l <declared) functions are declared"
comm -23 declared exported | grep . && failed 'declared, not exported'
comm -13 declared exported | grep . && failed 'exported, not declared'
nm -D --defined-only "$library/libtessera.so" | grep -v ' tsr_' | grep -v ' [AV] ' && failed 'exported without the prefix tsr_'

# ---- programs
# compile LANGUAGE COMPILER SOURCE PROGRAM
compile() {
    # shellcheck disable=SC2046,SC2086 # lists of flags
    "$2" "-std=$1" $warnings "$3" $(pkg-config --cflags --libs tessera) -o "$4"
}
compile c17 cc "$root/examples/embed/train_predict.c" train_predict
./train_predict "$bundle" "$root/examples/digits" | tee out
grep -q '^step 500: loss 0\.' out
grep -q '^image 0 looks like a 1$' out
grep -q '^image 1 looks like a 0$' out

compile c++17 c++ "$root/examples/embed/steps.cpp" steps
./steps "$bundle" | tee out
awk '/after step 1,/ { first = $2; last = $6 } /half the weights/ { halved = $2 }
    END { exit !(first > 2 && last < first / 4 && halved > last) }' out || failed 'the losses of steps'

# The program of docs/c-api.md: killed half-way or not, it ends with the state of tessera-run on the same data.
awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/docs/c-api.md" >train.c
compile c17 cc train.c train
digits=$root/examples/digits
"$(find root -name tessera-run -print -quit)" "$bundle" --data "images=$digits/train-images.npy" \
    --data "labels=$digits/train-labels.npy" --steps 500 --state-dir files --quiet >out 2>&1
expected=$(grep '^state [0-9a-f]\{64\} step 500' out | cut -d' ' -f2)
test -n "$expected" || failed 'tessera-run printed no state'
./train "$bundle" "$digits" whole | tee out
grep -q "^state $expected step 500$" out || failed "another state than tessera-run's $expected"
sed 's/STEPS = 500/STEPS = 237/' train.c >part.c
compile c17 cc part.c part
./part "$bundle" "$digits" parts
./train "$bundle" "$digits" parts | grep -q "^state $expected step 500$" || failed 'another state after a resume'

for tool in tessera-run tessera-aot tessera-opt; do test -x "$(find root -name $tool -print -quit)"; done
