#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Shows that a check can fail: selftest.sh CHECK [ARGUMENT] makes small trees, good and bad, and
# compares what the check says about each.
set -u
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
check=$1
argument=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
spdx='/* SPDX-License-Identifier: Apache-2.0 */'

# file PATH LINE...: a file of the tree being made.
file() {
    mkdir -p "$folder/tree/$(dirname "$1")"
    path=$folder/tree/$1
    shift
    printf '%s\n' "$@" >"$path"
}

fresh() { rm -rf "$folder/tree" && mkdir "$folder/tree"; }

run() { "$here/$check.sh" "$folder/tree" ${argument:+"$argument"} >"$folder/output" 2>&1; }

good() {
    run
    status=$?
    if [ "$status" = 77 ]; then
        cat "$folder/output"
        exit 77
    fi
    if [ "$status" != 0 ]; then
        echo "$check: '$1' should pass, exits $status:"
        cat "$folder/output"
        failures=$((failures + 1))
    fi
}

# bad WHAT TEXT: the check fails, and one line contains TEXT.
bad() {
    run
    status=$?
    if [ "$status" != 1 ] || ! grep -qF -- "$2" "$folder/output"; then
        echo "$check: '$1' should exit 1 and say '$2'; exits $status:"
        cat "$folder/output"
        failures=$((failures + 1))
    fi
}

# lines COUNT: so many lines of a function's body.
lines() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "    x++;" }'; }

# row KIND NAME FILE: of the table of costs.
row() { printf '| %s | `it: %s` | `%s` | `%s` |\n' "$1" "$2" "$2" "$3"; }

test_costs() {
    head='| one more | commit | name | files |'
    file compiler/a.c 'int more_a;'
    file compiler/p.c 'int pass_b;'
    file compiler/t.def 'X(sm_1)'
    file tests/a.txt 'more_a'
    file compiler/README.md "$head" "$(row op more_a compiler/a.c)" "$(row pass pass_b compiler/p.c)" "$(row target sm_1 compiler/t.def)"
    good 'each where it is said to be'
    file compiler/b.c '/* MORE_A */'
    bad 'a file that is not in the row' "op: 'compiler/b.c' names 'more_a', and is not in the row"
    file compiler/b.c '' # as before
    file compiler/p.c ''
    bad 'a file without the name' "pass: compiler/p.c does not name 'pass_b'"
    rm "$folder/tree/compiler/p.c"
    bad 'a file that is not there' 'pass: compiler/p.c is not there'
    file compiler/p.c 'int pass_b;'
    git -C "$folder/tree" init -q
    git -C "$folder/tree" add compiler/a.c compiler/b.c
    git -C "$folder/tree" -c user.name=a -c user.email=a@b commit -q -m 'it: more_a'
    bad 'a commit that changed more' "op: 'b.c' is in the row or in commit 'it: more_a', not in both"
    file compiler/README.md "$head" "$(row op more_a compiler/a.c)"
    bad 'a row that is gone' '1 rows of what one more costs; expected 3'
}

test_passes() {
    file compiler/passes.def 'X(tsr_pass_one, "tessera-one", "does \"one\"")'
    file compiler/pipelines.def 'X("all", "what is there", "tessera-one")'
    file tests/compiler/a.mlir '// RUN: tessera-opt -tessera-one -all %s'
    good 'both are run'
    file tests/compiler/a.mlir '// RUN: tessera-opt -tessera-one-more -all %s'
    bad 'another of a longer name is' 'compiler/passes.def: no test in tests/compiler runs -tessera-one'
    file tests/compiler/a.mlir '// RUN: tessera-opt -tessera-one %s' '-all'
    bad 'a sequence is not' 'compiler/pipelines.def: no test in tests/compiler runs -all'
    file tests/compiler/a.mlir ''
    bad 'nothing is run' 'tests/compiler: no test runs anything'
}

test_ops() {
    file compiler/graph/ops.def 'X(ONE, "one", OneOp, VALUE)' 'X(TWO, "opt.two", TwoOp, PLAIN)'
    file tests/compiler/graph/ops-invalid.mlir '// CHECK: a.mlir:1:1: error: [TSR-0101] tessera.one: lhs has 1 dims'
    file tests/compiler/rejected/0101-two.txt 'a.mlir:1:1: error: [TSR-0101] tessera.opt.two: result has 1 dims'
    good 'both are refused'
    file tests/compiler/rejected/0101-two.txt 'a.mlir:1:1: error: [TSR-0101] tessera.opt.two_more: result has 1 dims'
    bad 'another of a longer name is' 'ops.def: no test of tests/compiler/graph/ops-invalid*.mlir or rejected/ and no row of tests/ops.py refuses tessera.opt.two'
    file tests/ops.py "    other('opt.two', 'sort'),"
    bad 'a row does not define it' 'refuses tessera.opt.two'
    file tests/ops.py "    one('opt.two', np.exp),"
    good 'a row defines it'
    file tests/ops.py ''
    file tests/compiler/rejected/0101-two.txt 'a: error: [TSR-0001] no' 'a: error: [TSR-0101] tessera.opt.two: result has 1 dims'
    bad 'another mistake comes first' 'refuses tessera.opt.two'
    file tests/compiler/graph/ops-invalid.mlir '  %0 = tessera.one %a : tensor<4xf32>'
    bad 'nothing is refused' 'tests/compiler: no op is refused'
}

test_json() {
    file loader/a.c 'tsr_buffer_json_string(out, text);'
    file schemas/one.schema.json '{}'
    file schemas/README.md '| `one.schema.json` | what there is |'
    file tests/tree/json.txt '# rows' 'loader/a.c one'
    file tests/a.py 'check("one")'
    good 'one source, one schema'
    file tools/b.c 'printf("{\"a\": 1}");'
    bad 'another source' 'tools/b.c: writes JSON, but tests/tree/json.txt has no row for it'
    file tests/tree/json.txt 'loader/a.c one' 'tools/b.c two'
    bad 'without a schema' 'tests/tree/json.txt: tools/b.c: no file schemas/two.schema.json'
    file schemas/two.schema.json '{}'
    bad 'which nobody describes' 'schemas/README.md: no word of two.schema.json'
    bad 'which no test validates by' 'schemas/two.schema.json: no test validates by it'
    file tests/tree/json.txt 'loader/a.c one' 'tools/b.c one' 'tools/c.c one'
    bad 'a row that is gone' "no file 'tools/c.c'"
    bad 'a schema of nothing' 'schemas/two.schema.json: no source of tests/tree/json.txt writes it'
}

test_includes() {
    file runtime/base/a.h "$spdx"
    file bundle/b.c '#include "runtime/base/a.h"' '#include <stdio.h>'
    file compiler/c.cpp '#include "mlir/IR/Dialect.h"' '#include "compiler/gen.h.inc"'
    good 'downwards'
    file runtime/base/u.c '#include "bundle/b.h"'
    file bundle/b.h "$spdx"
    bad 'upwards' 'runtime/base/u.c:1: "runtime/base" may not include "bundle/b.h" of "bundle"'
    file runtime/base/u.c '#include "a.h"'
    bad 'not from the root' 'which is no path from the root'
    file runtime/base/u.c '#  include <mlir-c/IR.h>'
    bad 'MLIR outside the compiler' 'includes mlir-c; only compiler'
    file runtime/base/u.c '#include "runtime/base/a.h"'
    file bundle/bundle.h "$spdx"
    file loader/l.c '#include "bundle/bundle.h"'
    good 'public header'
    file loader/l.c '#include "bundle/b.h"'
    bad 'private header' '"loader" may not include "bundle/b.h" of "bundle"'
    rm "$folder/tree/loader/l.c"
    file elsewhere/e.c '#include "runtime/base/a.h"'
    bad 'unknown folder' 'has no row in includes.txt'
}

test_lengths() {
    file tests/tree/lengths.txt '# none'
    file a.c 'static int f(int x,' '             int y) {' "$(lines 67)" '}'
    good '70 lines'
    file a.c 'static int f(int x,' '             int y) {' "$(lines 68)" '}'
    bad '71 lines' 'a.c: f has 71 lines; the limit is 70'
    file tests/tree/lengths.txt '# ratchet' 'function a.c f 71'
    good 'recorded'
    file a.c 'static int f(int x,' '             int y) {' "$(lines 69)" '}'
    bad 'grown' 'a.c: f grew to 72 lines; lengths.txt has 71'
    file a.c 'static int f(int x) {' "$(lines 3)" '}'
    bad 'shorter' 'has 5 lines; lengths.txt has 71: lower or remove the row'
    file a.c 'int a;'
    bad 'gone' 'is not there'
    file tests/tree/lengths.txt '# none'
    file b.c "$(awk 'BEGIN { for (i = 0; i < 801; i++) print "/* */" }')"
    bad '801 lines' 'b.c has 801 lines; the limit is 800'
    file b.c 'static const int t[] = {' "$(lines 90)" '};' '#define X(a) {' 'int g(void) {' '}'
    good 'a long table is no function'
    file b.c 'Test(suite, thing, .timeout = 3) {' "$(lines 70)" '}'
    bad 'a long test' 'b.c: Test(suite,thing) has 72 lines'
    file b.c 'Test(suite, other) {' "$(lines 70)" '}'
    bad 'a long test' 'b.c: Test(suite,other) has 72 lines'
    rm "$folder/tree/b.c"
    file tests/tree/lengths.txt 'room r 3'
    bad 'a room that is gone' 'room r'
    file r/a.c 'int a; /* one' 'more */' '' '/* none */' 'int b;' 'if (TSR_MUTANT(X)) a = 1;'
    file r/b.h '/* none' ' * here' ' */ int c;'
    good '3 lines of code'
    file r/b.h 'int c;' 'int d;'
    bad 'a room over its limit' 'r has 4 lines of code; its limit is 3'
}

test_folders() {
    file README.md '| folder | what |' '|---|---|' '| `a/` | all |'
    file a/README.md '| file | what |' '|---|---|' '| [x.c](x.c), `y.[ch]` | things |' '| `data/` | inputs |'
    file a/x.c ''
    file a/y.c ''
    file a/y.h ''
    file a/data/1.bin ''
    file a/data/more/2.bin ''
    good 'all named'
    file a/z.c ''
    bad 'a file without row' 'a/README.md: no row for the file "z.c"'
    rm "$folder/tree/a/z.c" "$folder/tree/a/x.c"
    bad 'a row without file' 'the row "x.c" names nothing there is'
    file a/x.c ''
    file b/x.c ''
    bad 'a folder without README.md' 'b: no README.md'
    bad 'a folder without row' 'no row for the folder "b/"'
}

test_headers() {
    file a.h '#ifndef A_H' '#define A_H' '#include <stdint.h>' 'int32_t a(void);' '#endif'
    good 'complete'
    file b.h '#ifndef B_H' '#define B_H' 'int32_t b(void);' '#endif'
    bad 'an include is missing' 'b.h'
    file b.h 'struct b { int x; };'
    bad 'no guard' 'redefinition'
    file b.h '#ifndef B_H' '#define B_H' 'int b();' '#endif'
    bad 'a warning' 'b.h'
    rm "$folder/tree/b.h"
    file tessera/c.h '#ifndef C_H' '#define C_H' 'int c(void);' '#endif'
    good 'C and C++'
    file tessera/c.h '#ifndef C_H' '#define C_H' '_Noreturn void c(void);' '#endif'
    bad 'a public header that is C alone' 'tessera/c.h'
}

test_licences() {
    file a.c "$spdx"
    file s '#!/bin/sh' '# SPDX-License-Identifier: Apache-2.0'
    good 'all licensed'
    file a.c '' "$spdx"
    bad 'not in the first line' 'a.c:1: no SPDX line'
    : >"$folder/tree/a.c"
    bad 'an empty file' 'a.c:1: no SPDX line'
    file a.c "$spdx"
    file s '#!/bin/sh' 'exit 0'
    bad 'a script' 's:2: no SPDX line'
}

test_words() {
    file a.c '/* the stubborn table, see runtime/work/a.c */'
    file a.md 'see ~/work/x and $HOME/home/a'
    good 'no such word'
    file a.c "/* TO""DO later */"
    bad 'unfinished' 'a.c:1:'
    file a.c 'int a;'
    file a.md "see /ho""me/somebody/tree"
    bad 'path of a machine' 'path of a machine'
}

test_idioms() {
    # A sentence of a comment without idioms, often enough for a rate to mean something.
    plain='/* Returns the number of rows; the caller owns the array. */'
    file a.c "$plain" "$plain" "$plain" "$plain" 'int what, lies, behind;' 'const char *url = "http://what";'
    good 'code and strings are not counted'
    file b.c '/* Counts what is there. */'
    bad 'a frequent word' 'what: '
    file b.c '// Nothing LIES there.'
    bad 'a line comment' '(for example in b.c)'
    file b.c '/* Of each row the first element. */'
    bad 'an opening' 'openings: 20.00 of 100 comments'
    file b.c '/* The rows of each element. */'
    good 'a preposition later on'
    mkdir -p "$folder/tree/tests/tree"
    cp "$here/idioms.txt" "$folder/tree/tests/tree/"
    bad 'a tree of a few words' 'expected at least 50000'
}

test_names() {
    file a.c '/* The place of a row. */' 'int in_place, placement, misplaced; const char *s = "place", c = '"'p'"';'
    good 'comments, strings, an allowed name and other words'
    mkdir -p "$folder/tree/tests/tree"
    printf '# a comment\n\nplace,places 1 in_place\n' >"$folder/tree/tests/tree/names.txt"
    file b.h 'int place;'
    good 'as many as the ceiling'
    file b.h 'int row_places, rowPlace;'
    bad 'a part of a name' 'place: 2 uses in identifiers; the ceiling is 1 (for example'
    file b.h 'int IN_PLACE, A_PLACE;'
    bad 'capital letters' 'place: 2 uses in identifiers; the ceiling is 1'
    file b.h ''
    file c.py '# place' 'places = {place: "place"}'
    bad 'Python' 'in c.py'
    file c.py ''
    "$here/names.sh" "$folder/tree" --write
    if ! grep -qx 'place,places 0 in_place' "$folder/tree/tests/tree/names.txt"; then
        echo 'names: --write should lower the ceiling to 0'
        failures=$((failures + 1))
    fi
}

test_formatting() {
    cp "$here/../../.clang-format" "$folder/tree/"
    file a.c 'int f(int x) { return x; }'
    good 'formatted'
    file a.c 'int f( int x ) { return x; }'
    bad 'not formatted' 'a.c: not clang-formatted'
    file a.c 'int a;'
    file b.md 'blank '
    bad 'blank at the end' 'blanks at the end'
    printf 'no newline' >"$folder/tree/b.md"
    bad 'no newline' 'b.md: does not end in a newline'
}

test_exit_codes() {
    file tessera/codes.def 'X(OK, 0, "ok", "done")' 'X(IO, 7, "io",' '  "disk")'
    file docs/exit-codes.md '| code |' '|---|' '| 0 | `OK` | ok | done |' '| 7 | `IO` | io | disk |'
    good 'the same'
    file docs/exit-codes.md '| code |' '|---|' '| 0 | `OK` | ok | done |'
    bad 'a code is missing' 'missing: | 7 |'
    file docs/exit-codes.md '| 0 | `OK` | ok | done |' '| 7 | `IO` | io | disk |' '| 8 | `X` | x | x |'
    bad 'one too many' 'extra: | 8 |'
    "$here/$check.sh" "$folder/tree" --write
    good 'rewritten'
}

test_forms() {
    file runtime/base/a.h 'bool tsr_a_read(const char *text, int *out_a);' 'bool tsr_a_is(const int *a);' 'void tsr_a_end(void);'
    file a.c '#include "runtime/base/a.h"' 'static bool f(char *text) { return *text; }' 'void g(int a) {' \
        '    TSR_ASSERT(a == 1 && a <= 2 && tsr_a_is(&a) && "a = 3, ++a");' '    printf("%" PRIu64 " of %%llu", a); /* 100%% */' '}'
    good 'a condition that changes nothing'
    file b.c 'static bool f(const char *text) { return *text; }' 'void h(char *t) { TSR_ASSERT(f(t)); }' '/* sizeof a / sizeof a[0] */'
    good 'a function of the same name in another file'
    for line in 'TSR_ASSERT(a++);' 'assert(--a);' 'TSR_ASSERT(a = 1);' 'TSR_ASSERT((a |= 1));'; do
        file b.c 'void h(int a) {' "    $line" '}'
        bad "$line" 'b.c:2: the condition of an assertion has '
    done
    file b.c 'void h(int a) {' '    TSR_ASSERT(a &&' '               tsr_a_read("", &a));' '}'
    bad 'an argument that is written' 'b.c:2: the condition of an assertion has tsr_a_read, which may change its argument'
    file b.c 'bool f(char *text);' 'void h(char *t) { TSR_ASSERT(f(t)); }'
    bad 'by a function of the file' 'b.c:2: the condition of an assertion has f, '
    for line in 'sizeof rows / sizeof rows[0]' 'sizeof s->rows / sizeof *s->rows' 'sizeof(rows) / sizeof(rows)[0]' 'sizeof(rows) / sizeof(rows[0])'; do
        file b.c "int h(void) { return $line; }"
        bad "$line" 'b.c:1: sizeof / sizeof; expected TSR_COUNT'
    done
    file b.c 'size_t n = size / sizeof rows[0];' 'size_t c = m->capacity ? 2 * m->capacity : 8;' 'row *r = calloc(c, sizeof *r);'
    good 'a size, and a table'
    file b.c 'void h(list *m) {' '    size_t c = m->capacity ? 2 * m->capacity : 8;' '    row *r = realloc(m->rows, c * sizeof *r);' '}'
    bad 'an array that doubles' 'b.c:2: an array doubles by hand'
    file b.c 'void h(long a) {' '    printf("%5llu %s\n", a);' '}'
    bad 'a format' "b.c:2: '%5llu' in a format; expected PRIu64"
    file b.c 'void h(long a) { f((unsigned long long)a); }'
    bad 'a cast' 'b.c:1: a cast to long long'
}

test_results() {
    mkdir -p "$folder/tree/runtime/base" "$folder/tree/tessera"
    cp "$here/../../runtime/base/result.h" "$folder/tree/runtime/base/"
    cp "$here/../../tessera/result.h" "$here/../../tessera/codes.def" "$folder/tree/tessera/"
    include='#include "runtime/base/result.h"'
    define='static tsr_result f(int x) { return (tsr_result){(tsr_code)x}; }'
    file a.c "$include" "$define" 'int g(void) { TSR_DROP(f(1), "a reason"); return (int)f(2).code; }'
    file b.c 'static int f(int x) { return x; }' 'void h(void) { (void)f(1); }'
    good 'one is used, one dropped with a reason'
    file a.c "$include" "$define" 'void g(void) { f(1); }'
    bad 'a static function' 'a.c:3:16: a result is dropped'
    file a.c "$include" 'void g(tsr_result (*f)(int));' 'void g(tsr_result (*f)(int)) { f(1); }'
    bad 'a pointer' 'a.c:3:32: a result is dropped'
    file a.c "$include" "$define" 'void g(void) { (void)f(1).code; }'
    bad 'a cast' 'a.c:3: (void) drops the result of f'
    file a.c "$include" "$define" 'void g(void) { TSR_DROP(f(1), ""); }'
    "${argument:-cc}" -std=c17 -fsyntax-only -I "$folder/tree" "$folder/tree/a.c" 2>/dev/null &&
        echo 'results: TSR_DROP without a reason compiles' && failures=$((failures + 1))
}

test_packages() {
    file tools/packages.txt '# x' 'build gcc compiler'
    file README.md 'tools/demo' 'tools/test' '| `gcc` | compiler |'
    good 'named'
    file tools/packages.txt 'build gcc compiler' 'test meson builds'
    bad 'not named' 'no table names the package "meson"'
    file tools/packages.txt 'build gcc compiler' 'test gcc again'
    bad 'twice' '"gcc" stands there twice'
    file tools/packages.txt 'build gcc'
    bad 'no purpose' 'a row is group, package, purpose'
    file tools/packages.txt 'build gcc compiler'
    file README.md 'tools/demo' '| `gcc` | compiler |'
    bad 'command missing' 'tools/test is not near the top'
    file README.md 'tools/demo tools/test' '| `gcc` |' "$(lines 100)"
    bad 'too long' '102 lines; the limit is 100'
}

test_links() {
    file a/x.md '[root](../y.md#part) [web](https://example.org/no) [here](#here)'
    file y.md 'y'
    good 'all there'
    file a/x.md 'text' '[gone](y.md)'
    bad 'gone' 'a/x.md:2: "y.md" is not there'
}

test_scripts() {
    file a '#!/bin/sh' '# a script' 'echo "$1"'
    chmod +x "$folder/tree/a"
    good 'clean'
    file a '#!/bin/sh' '# a script' 'echo $1'
    bad 'unquoted' 'SC2086'
    file a '#!/bin/sh' '# a script' 'echo "$1"'
    chmod -x "$folder/tree/a"
    bad 'not executable' 'a: not executable'
}

test_shapes() {
    file compiler/a.c 'int a;'
    bad 'no table' 'no benchmark has a table of shapes'
    file bench/gpu/pack 'TABLE = ((16384, 768, 3072), (64, 64, 128))' 'FEW = ((4096, 4096), (768, 3072))'
    file bench/kernels/matmul_bench.c '    {512, 512, 512}, {1, 768, 768},'
    file tools/bench 'measure 640x1111x4096'
    file compiler/a.c 'int t[] = {64, 64, 128, 4096, 4096};' 'int b[] = {512, 512};' 'int c = 768; /* and much more of it */' 'int d = 3072;'
    file runtime/b.h 'enum { A = 512 * 512 * 512, B = 512, C = 1024 };' '/* 3072 heads of 64 */' '/* vector<768xf32>, tensor<768x16xf32> to tensor<768x100xf32> */'
    file bench/c.c 'int c[] = {16384, 768, 3072};'
    file compiler/README.md '16384 x 768 x 3072'
    good 'tiles, single numbers, products; other folders'
    for line in 'if (m == 16384 && n == 3072 && k == 768) return 1;' 'X(512, 512, 512)' '/* 512x512x512 */' 'X(768, 1, 768)' 'tensor<640x1111xf32>' \
        'case 768: case 0xc00:' 'x = 768.0f, y = 3072u;' 'f(640, 1111);'; do
        file loader/d.c 'int d;' "$line"
        bad "$line" 'loader/d.c:2: '
    done
    file loader/d.c 'if (m == 512 &&' '    n == 512 &&' '    k == 512)'
    bad 'in three lines' 'loader/d.c:1: 512, 512, 512 is a shape of bench/kernels/matmul_bench.c:1'
}

# library NAME FILE...: of C files of the tree.
library() {
    for source in $2; do
        "$compiler" -w -c "$folder/tree/$source" -o "$folder/tree/$source.o" || exit 1
    done
    # shellcheck disable=SC2046,SC2086 # one word each
    ar rcs "$folder/tree/$1" $(printf "$folder/tree/%s.o " $2) || exit 1
}

test_symbols() {
    compiler=${argument:-cc}
    argument=
    file a.c 'static int own;' 'int one(void) { return own; }' '__attribute__((weak)) int shared(void) { return 1; }'
    file b.c 'static int own;' 'int two(void) { return own; }' '__attribute__((weak)) int shared(void) { return 2; }'
    bad 'nothing to look at' 'no archive defines a name'
    library one.a a.c
    library two.a b.c
    good 'two names, and weak ones'
    file b.c 'int one(void) { return 2; }'
    library two.a b.c
    bad 'a function in two libraries' 'one: defined by one.a[a.c.o] and two.a[b.c.o]'
    file a.c 'int data = 1;'
    file b.c 'int data;'
    library one.a a.c
    library two.a b.c
    bad 'data' 'data: defined by one.a[a.c.o] and two.a[b.c.o]'
    rm "$folder/tree/two.a"
    library one.a 'a.c b.c'
    bad 'in one library' 'data: defined by one.a[a.c.o] and one.a[b.c.o]'
}

test_python() {
    file tests/python '#!/bin/sh' 'exec /usr/bin/python3 "$@"'
    file tests/a/a.sh '"$PYTHON" a.py' 'echo python3-numpy is not installed'
    file tests/a/a.py '#!/usr/bin/python3' 'import sys'
    file tests/gpu/run '#!/usr/bin/env python3' 'import sys'
    file tests/a/README.md 'python3 a.py'
    file bench/gpu/rows '#!/usr/bin/env python3' 'import sys'
    file tools/test '#!/bin/sh' '        /usr/bin/python3 -m venv "$folder"'
    file tools/packages.txt 'test   python3   runs lit'
    file docs/b 'python3 a.py'
    good 'the interpreter of tests/python, and what is no test'
    file tools/b 'python3 a.py'
    bad 'a tool' 'tools/b:1:python3 a.py: '
    file tools/b ''
    file bench/b.py '#!/usr/bin/env python3'
    bad 'a measurement' 'bench/b.py:1:#!/usr/bin/env python3: '
    file bench/b.py ''
    file tests/a/a.py '#!/usr/bin/env python3' 'import sys'
    bad 'a script that takes the first one' 'tests/a/a.py:1:#!/usr/bin/env python3: '
    file tests/a/a.py '#!/usr/bin/python3' 'BIT = """#!/usr/bin/python3' '"""'
    bad 'one that is written by a test' 'tests/a/a.py:2:'
    file tests/a/a.py ''
    file tests/a/a.sh 'python3 a.py'
    bad 'a command' 'tests/a/a.sh:1:python3 a.py: '
    file tests/a/a.sh 'python3'
    bad 'a command alone' 'tests/a/a.sh:1:python3: '
    file tests/a/a.sh ''
    file tests/a/a.mlir '// RUN: python3 %s'
    bad 'a test of lit' 'tests/a/a.mlir:1:'
    file tests/a/a.mlir ''
    file tests/a/meson.build "test('a', find_program('python3'))"
    bad 'meson' 'tests/a/meson.build:1:'
    file tests/a/meson.build "test('a', import('python').find_installation())"
    bad "meson's own" 'tests/a/meson.build:1:'
}

test_op_names() {
    file compiler/a.c 'bool is_add(MlirOperation op) {' '    return tsr_op_is(op, TSR_GRAPH_ADD) && strcmp(kind(op), "add") == 0;' '}' \
        'void say(MlirOperation op) {' '    const char *name = tsr_op_name(op);' '    fail("%s: %s", name, strcmp(kind(op), "a") ? "a" : tsr_op_name(op));' '}' \
        'bool is_kind(const char *name) {' '    return strcmp(name, "add") == 0;' '}'
    file compiler/ir/mlir.c 'const char *tsr_op_name(MlirOperation op) { return mlirIdentifierStr(mlirOperationGetName(op)).data; }'
    file tests/a.c 'bool is_add(MlirOperation op) { return strcmp(tsr_op_name(op), "tessera.add") == 0; }'
    good 'numbers, texts of messages, names of other things, and a test'
    file compiler/b.c 'bool is_add(MlirOperation op) {' '    return strcmp(tsr_op_name(op), "tessera.add") == 0;' '}'
    bad 'a name compared' 'compiler/b.c:2: compares the name of an op'
    file compiler/b.c 'bool is_add(MlirOperation op, size_t n) {' '    return strncmp("tessera.",' '                   tsr_op_name(of(op)), n) == 0;' '}'
    bad 'in the second argument, on the next line' 'compiler/b.c:3: compares the name of an op'
    file compiler/b.c 'bool same(tsr_op a, const char *b) { return tsr_ref_is(tsr_ref(b), tsr_op_text(a)); }'
    bad "a number's text compared" 'compiler/b.c:1: compares the name of an op'
    file compiler/b.c 'bool is_add(MlirOperation op) {' '    const char *name = tsr_op_name(op);' '    return strcmp(name, "tessera.add") == 0;' '}'
    bad 'by a variable' 'compiler/b.c:3: compares "name", the name of an op'
    file compiler/b.c 'MlirIdentifier of(MlirOperation op) {' '    return mlirOperationGetName(op);' '}'
    bad "MLIR's name" 'compiler/b.c:2: asks for an op by mlirOperationGetName'
}

fresh
case $check in
costs | includes | json | lengths | folders | forms | headers | licences | words | formatting | idioms | names | ops | packages | passes | results | links | python | scripts | shapes | symbols) "test_$check" ;;
exit-codes) test_exit_codes ;;
op-names) test_op_names ;;
*)
    echo "selftest.sh: no check '$check'"
    exit 6
    ;;
esac
exit "$((failures > 0))"
