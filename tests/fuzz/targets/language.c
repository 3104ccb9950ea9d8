/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of programs in Python syntax: any text gives a tree or errors with places in
 * the text. A tree has spans within those of the nodes above it, and a dump.
 */
#include "compiler/frontend/language/evaluate/evaluate.h"
#include "compiler/frontend/language/syntax/limits.h"
#include "compiler/frontend/language/syntax/parser.h"
#include "runtime/base/array.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

typedef struct walk {
    const tsr_source *source;
    const tsr_ast *above;
} walk;

static void visit(void *user, tsr_ast *node) {
    const walk *w = user;
    fuzz_require(node->span.begin <= w->source->size_bytes, "a node begins in the text");
    fuzz_require(node->height < w->above->height, "the height of a node counts those below it");
    tsr_ast_visit(node, visit, &(walk){w->source, node});
}

static void check_module(const tsr_source *source, const tsr_ast *module) {
    tsr_buffer text = {0};
    tsr_ast_visit(module, visit, &(walk){source, module});
    tsr_ast_dump(module, &text);
    fuzz_require(text.failed || text.size_bytes > 0, "a module has a dump");
    tsr_buffer_finish(&text);
}

static void check_record(void *user, tsr_diag *diag) {
    tsr_buffer text = {0};
    const tsr_source *source = user;
    fuzz_require(!source->lines || (diag->line >= 1 && diag->line <= source->line_count),
                 "an error is in a line of the text");
    tsr_diag_format(diag, &text);
    tsr_diag_format_json(diag, &text);
    fuzz_require(text.failed || text.size_bytes > 0, "an error has a text");
    tsr_buffer_finish(&text);
}

static void evaluate(tsr_report *report, const tsr_source *source, const tsr_ast *module) {
    tsr_evaluator e = {.report = report, .arena = report->arena};
    tsr_scope globals = {0};
    size_t errors = report->error_count;
    bool done = tsr_evaluate_module(&e, source, module, &globals);
    fuzz_require(done || report->error_count > errors || e.stopped, "what fails has an error");
    for (size_t i = 0; i < globals.count && done && e.steps < 10000; i++) {
        tsr_buffer text = {0};
        bool whole = globals.bindings[i].value.kind > TSR_VALUE_TEXT;
        if (!whole) tsr_value_repr(globals.bindings[i].value, &text);
        fuzz_require(whole || text.failed || text.size_bytes, "a value has a text");
        tsr_buffer_finish(&text);
    }
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_arena arena = {0};
    tsr_source source = {0};
    tsr_report report = {.arena = &arena,
                         .on_diag = check_record,
                         .user = &source,
                         .errors_max = TSR_LANGUAGE_ERRORS_MAX};
    fuzz_armed = true;
    bool read = tsr_source_init(&report, "m.py", (const char *)bytes, size_bytes, &source);
    tsr_ast *module = read ? tsr_parse(&report, &source) : NULL;
    fuzz_require(!read || module || report.memory, "a text gives a module");
    bool good = module && tsr_refuse(&report, &source, module) && !report.error_count;
    if (good) evaluate(&report, &source, module);
    fuzz_require(read || report.first || report.memory, "what is refused has an error");
    fuzz_armed = false;
    if (module && !report.memory) check_module(&source, module);
    tsr_report_send(&report);
    tsr_arena_finish(&arena);
    return read;
}

static const char *const lines[] = {
    "x = 1\n",
    "d = {'a': [1, 2.5], 2: (None, True)}\ns = f\"{d['a'][1]:>8.2f}{d!r}\"\n",
    "r = [i * j // 2 for i, j in enumerate(range(3, 9, 2)) if i % 2 or j > 4]\n",
    "def add(a, b=2, *, c=3):\n    return a + b ** c\nx = add(1) - add(b=2, a=1, c=4)\n",
    "t = 'a,b'.split(',') + ['-'.join(['c', 'd']).upper()]\nt[0] += 'x'\nt.append(len(t))\n",
    "x = min(3, 2) + max([1, 5]) + sum([1, 2]) + abs(-3) + int('4') + float('1e3')\n",
    "u = (1, 2, 3)[::-1]\na, b, c = u\nassert a < b or not c, 'm'\n",
    "k = dict(zip('ab', [1, 2]))\nk.update(c=3)\nk.pop('a')\nv = list(k.items())\n",
    "for i in range(4):\n    if i & 1: y = i << 2\n    else: y = ~i ^ 7\n",
    "if x:\n    y = 2\nelif z:\n    pass\nelse: y = 3\n",
    "def f(a, b: int = 1, *, c=2) -> T:\n    return a\n",
    "for i, (j, k) in zip(a, b):\n    pass\nelse:\n    pass\n",
    "x = [a for a in b if a]\n",
    "y = {1: 2, **d}\n",
    "z = {k: v for k, v in d}\n",
    "s = {1, 2}, {a for a in b}, (c for c in d)\n",
    "t = f'{a!r:>{w}}b{{' 'c' u'd'\n",
    "t = f'''{a[\"b\"]} {c=} {d == (e, '''f''')}''' rf'\\{g}\\'\n",
    "@jit @autodiff\ndef f(x: Tensor['B', bf16 @accum(f32)], *, p: float): return x\n",
    "with device(gpu[0]) as d, prefetch(c, into='smem'):\n    pass\n",
    "with (a as b, c):\n  pass\nwith (a, b).c: pass\n",
    "on mesh(4):\n    pass\n",
    "x = block(2)\n  .k(3)\n",
    "W{'d'}\n",
    "def g(...): pass\n",
    "class A(B, c=1):\n    def f(self, /, *a, **k): pass\n",
    "try:\n    pass\nexcept A as b:\n    pass\nelse: pass\nfinally:\n    pass\n",
    "try: pass\nexcept* A: pass\n",
    "while x:\n    break\n    continue\n",
    "x: int = yield\nx: int\ny = yield from z\n",
    "a = b = c, *d\n*a, (b, [c]) = d\n",
    "x @= 2 ** -3 // ~4\nx <<= 1 << 2 >> 3 & 4 | 5 ^ 6\n",
    "f(a, *b, c=1, **d)\nf(a for a in b)\n",
    "x = a[1:2, ::3, ..., *b]\nx = a[*b]\nx = a[:]\n",
    "lambda x, *y, z=1: 0\nlambda *, a, **k: 0\n",
    "not a < b is not c not in d != e is f in g <= h >= i == j > k\n",
    "x = 1 if a and b or c else 2\n",
    "from .a.b import (c as d, e)\nfrom . import a\nfrom ... import *\n",
    "import a.b as c, d\n",
    "del a, b[0], (c, d)\n",
    "assert a, 'b'\n",
    "raise A from b\nraise\n",
    "global a, b\nnonlocal c\n",
    "async def f():\n    await g\n    async for a in b: pass\n    async with c: pass\n",
    "x = [a async for a in b]\n",
    "x = 0x1f + 0o17 + 0b11 + 1_000 + 1.5e-3 + 2j + 99999999999999999999\n",
    "match x:\n    case 1: pass\n",
    "x = (y := 1)\n",
    "x = rb'\\x' + b'\\x41\\q' + '\\u00e9\\n\\101\\U0001f600\\\n'\n",
    "x = b'\xc3\xa9' '\\xq' \"\\U99999999\" '\\N{A}'\n",
    "# coding: utf-8\n",
    "\tx = 1\n        y = 2\n",
    "x = (1,\ndef f(): pass\n",
    "if 1:\n    x = 1\n  y = 2\n",
    "x = 1 +\\\n  2\n\\\n\n",
    "f() = 1\n[a, 1] = 2\na + b += 1\n(a, b): int\n",
    "def f(a=1, b): pass\ndef g(*): pass\n",
    "f(a=1, b)\nx = (*a)\nx = [*a for a in b]\n",
    "x = f'{'\nx = f'}'\nx = f'{a!x}'\nx = f'{a:{b:{c}}}'\nx = f'{}'\nx = f'{a)}'\nx = f'{a#}'\n",
    "x = 12ab + 1__0 + 012 + 0xg\n",
    "x = ? ! $ \x01\n",
    "na\xc3\xafve = 1\n",
    "x = 'a\ny = '''b\n"};

static size_t encode(uint32_t seed, tsr_arena *arena, const void **out_bytes) {
    uint32_t state = seed * 2654435761u + 1;
    char *text = tsr_arena_alloc(arena, 1, 2048, 1);
    size_t size = 0;
    fuzz_require(text != NULL, "memory for a text");
    for (uint32_t i = 0; i < 6; i++) {
        const char *line = lines[(seed * 6 + i + fuzz_random(&state) % 3) % TSR_COUNT(lines)];
        size += (size_t)snprintf(text + size, 2048 - size, "%s", line);
    }
    *out_bytes = text;
    return size;
}

static void seed(const char *folder) { fuzz_put_valid(folder, 24, encode); }

/* Puts a word of the language somewhere. */
static size_t insert(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *state) {
    static const char *const words[] = {
        "(",     ")",       "[",      "]",       "{",      "}",       ":",       ",",      ".",
        "=",     ":=",      "*",      "**",      "@",      "-",       "not ",    " in ",   " is ",
        " if ",  "else",    " for ",  "\n",      "\n    ", "\n\t",    "\\\n",    "f'{",    "}'",
        "'''",   "\"",      "\\",     "#",       "def ",   "class ",  "lambda ", "return", "yield ",
        "from ", "as ",     "with ",  "import ", "1_0",    "0x",      "1e5",     "1j",     "...",
        "->",    ";",       "async ", "await ",  "try:",   "except ", "finally", "elif ",  "match ",
        "\r\n",  "\f",      "!r",     "!=",      "<",      ">>=",     "u'",      "rb'",    "\\x4",
        "\\N{",  "\xc3\xa9"};
    const char *word = words[fuzz_random(state) % TSR_COUNT(words)];
    size_t length = strlen(word), at = size_bytes ? fuzz_random(state) % (size_bytes + 1) : 0;
    if (size_bytes + length > size_max) return size_bytes;
    memmove(bytes + at + length, bytes + at, size_bytes - at);
    memcpy(bytes + at, word, length);
    return size_bytes + length;
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed_number) {
    uint32_t state = seed_number | 1;
    size_t size = fuzz_another_valid(bytes, size_bytes, size_max, &state, encode);
    if (fuzz_one_in(&state, 3)) return LLVMFuzzerMutate(bytes, size, size_max);
    for (uint32_t count = 1 + fuzz_random(&state) % 4; count > 0; count--)
        size = insert(bytes, size, size_max, &state);
    return size;
}

const fuzz_target fuzz_the_target = {"language", seed, run, mutate};
