/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of several reductions: softmax, norms and gradients in one kernel. They must give the same
 * bits as the same ops in separate kernels, and agree with a reference in double.
 */
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 19, ARGUMENTS_MAX = 6, STEPS_MAX = 16 };

/* A straight-line program over %x (FULL), %g (FULL), %s (the dims from the first reduced one on):
 * one op per step. Types: F full, K parallel dims, O the same with a dim of size 1, C the type of
 * %s. */
typedef struct step {
    const char *result, *op, *operands; /* "y", "sub", "x m" */
    char type;                          /* type of the result */
    bool returned;
} step;

static const step softmax[] = {
    {"m", "reduce_max", "x", 'K', false}, {"n", "reshape", "m", 'O', false},
    {"d", "sub", "x n", 'F', false},      {"e", "exp", "d", 'F', false},
    {"t", "sum", "e", 'K', false},        {"u", "reshape", "t", 'O', false},
    {"y", "div", "e u", 'F', true},       {NULL, NULL, NULL, 0, false}};
static const step softmax_gradient[] = {
    {"p", "mul", "x g", 'F', false},   {"t", "sum", "p", 'K', false},
    {"u", "reshape", "t", 'O', false}, {"d", "sub", "g u", 'F', false},
    {"y", "mul", "d x", 'F', true},    {NULL, NULL, NULL, 0, false}};
static const step logsumexp[] = {
    {"m", "reduce_max", "x", 'K', true}, {"n", "reshape", "m", 'O', false},
    {"d", "sub", "x n", 'F', false},     {"e", "exp", "d", 'F', false},
    {"t", "sum", "e", 'K', false},       {"l", "log", "t", 'K', false},
    {"y", "add", "l m", 'K', true},      {NULL, NULL, NULL, 0, false}};
/* The variance keeps its dim, the mean is also a result; stored values are read again. */
static const step layernorm[] = {{"t", "sum", "x", 'K', true},   {"m", "reshape", "t", 'O', false},
                                 {"d", "sub", "x m", 'F', true}, {"q", "mul", "d d", 'F', false},
                                 {"v", "sum", "q", 'K', false},  {"w", "reshape", "v", 'O', false},
                                 {"r", "rsqrt", "w", 'O', true}, {"n", "mul", "d r", 'F', false},
                                 {"o", "tanh", "n", 'F', false}, {"y", "mul", "o s", 'F', true},
                                 {NULL, NULL, NULL, 0, false}};
/* Two reductions of one stage, then one that needs both; an exp that all stages need. */
static const step mixed[] = {
    {"e", "exp", "x", 'F', false},        {"a", "sum", "e", 'K', false},
    {"h", "reduce_min", "g", 'K', false}, {"b", "mul", "a h", 'K', false},
    {"c", "reshape", "b", 'O', false},    {"f", "mul", "e c", 'F', false},
    {"p", "reduce_max", "f", 'K', true},  {"q", "reshape", "p", 'O', false},
    {"y", "sub", "e q", 'F', true},       {"z", "add", "f g", 'F', true},
    {NULL, NULL, NULL, 0, false}};

static const struct named {
    const char *name;
    const step *steps;
} programs[] = {{"softmax", softmax},
                {"softmax_gradient", softmax_gradient},
                {"logsumexp", logsumexp},
                {"layernorm", layernorm},
                {"mixed", mixed}};

/* The numbers of reduced dims and of the dims after them. */
typedef struct shapes {
    tsr_shape full;
    uint32_t reduced, behind;
} shapes;

static uint32_t first_reduced(const shapes *s) { return s->full.rank - s->reduced - s->behind; }

static bool is_reduced(const shapes *s, uint32_t dim) {
    return dim >= first_reduced(s) && dim < s->full.rank - s->behind;
}

static tsr_shape shape_of(const shapes *s, char letter) {
    tsr_shape shape = {0};
    for (uint32_t d = 0; d < s->full.rank; d++) {
        if (letter == 'K' && is_reduced(s, d)) continue;
        if (letter == 'C' && d < first_reduced(s)) continue;
        shape.dims[shape.rank++] = letter == 'O' && is_reduced(s, d) ? 1 : s->full.dims[d];
    }
    return shape;
}

static const char *type_of(const shapes *s, tsr_dtype dtype, char letter, char text[static 128]) {
    char inner[TSR_TYPE_TEXT_MAX];
    const tsr_shape shape = shape_of(s, letter);
    snprintf(text, 128, "tensor<%s>", tsr_type_format(dtype, &shape, inner));
    return text;
}

static size_t size_of(const shapes *s, tsr_dtype dtype, char letter) {
    const tsr_shape shape = shape_of(s, letter);
    uint64_t count = 0;
    cr_assert(tsr_shape_count(&shape, &count));
    return (size_t)count * tsr_dtype_size(dtype);
}

static const step *find_step(const step *steps, const char *name, size_t length) {
    for (; steps->result; steps++)
        if (strlen(steps->result) == length && strncmp(steps->result, name, length) == 0)
            return steps;
    return NULL;
}

static char letter_of(const step *steps, const char *name, size_t length) {
    const step *made = find_step(steps, name, length);
    return made ? made->type : *name == 's' ? 'C' : 'F';
}

static void write_step(tsr_buffer *text, const step *steps, const step *at, const shapes *s,
                       tsr_dtype dtype) {
    char type[128], result[128], from[128] = "", axes[64] = "";
    tsr_buffer operands = {0}, types = {0};
    size_t used = 0;
    for (const char *o = at->operands; *o;) {
        size_t length = strcspn(o, " ");
        type_of(s, dtype, letter_of(steps, o, length), type);
        tsr_buffer_printf(&operands, "%s%%%.*s", operands.size_bytes ? ", " : "", (int)length, o);
        tsr_buffer_printf(&types, "%s%s", types.size_bytes ? ", " : "", type);
        if (!from[0]) snprintf(from, sizeof from, "%s", type);
        o += length + (o[length] == ' ');
    }
    bool reduces = strncmp(at->op, "reduce", 6) == 0 || strcmp(at->op, "sum") == 0;
    for (uint32_t d = first_reduced(s); reduces && is_reduced(s, d); d++)
        used += (size_t)snprintf(axes + used, sizeof axes - used, "%s%u",
                                 used ? ", " : " {axes = [", d);
    if (reduces) snprintf(axes + used, sizeof axes - used, "]}");
    type_of(s, dtype, at->type, result);
    bool unary = !strchr(at->operands, ' ') && !reduces && strcmp(at->op, "reshape") != 0;
    tsr_buffer_printf(text, "%%%s = tessera.%s %s%s : %s%s%s\n", at->result, at->op, operands.bytes,
                      axes, types.bytes, unary ? "" : " -> ", unary ? "" : result);
    tsr_buffer_finish(&operands);
    tsr_buffer_finish(&types);
}

static bool reads(const step *steps, const char *name) {
    for (; steps->result; steps++)
        for (const char *o = steps->operands; (o = strstr(o, name)); o++)
            if ((o == steps->operands || o[-1] == ' ') && (!o[1] || o[1] == ' ')) return true;
    return false;
}

/* Writes the program as one group, and each of its ops as a separate group. */
static void write_program(tsr_buffer *text, const step *steps, const shapes *s, tsr_dtype dtype) {
    char type[128];
    tsr_buffer returned = {0}, types = {0}, arguments = {0};
    static const char *const names[] = {"x", "g", "s"};
    for (int i = 0; i < 3; i++)
        if (reads(steps, names[i]))
            tsr_buffer_printf(&arguments, "%s%%%s: %s", arguments.size_bytes ? ", " : "", names[i],
                              type_of(s, dtype, *names[i] == 's' ? 'C' : 'F', type));
    for (const step *at = steps; at->result; at++) {
        if (!at->returned) continue;
        tsr_buffer_printf(&returned, "%s%%%s", returned.size_bytes ? ", " : "", at->result);
        tsr_buffer_printf(&types, "%s%s", types.size_bytes ? ", " : "",
                          type_of(s, dtype, at->type, type));
    }
    tsr_buffer_printf(text, "tsched.func @whole(%s) -> (%s) attributes {kind = \"rows\"} {\n",
                      arguments.bytes, types.bytes);
    for (const step *at = steps; at->result; at++) write_step(text, steps, at, s, dtype);
    tsr_buffer_printf(text, "tsched.return %s : %s\n}\n", returned.bytes, types.bytes);
    for (const step *at = steps; at->result; at++) {
        bool reduces = strncmp(at->op, "reduce", 6) == 0 || strcmp(at->op, "sum") == 0;
        tsr_buffer_printf(text, "tsched.func @%s(", at->result);
        for (const char *o = at->operands; *o;) {
            size_t length = strcspn(o, " ");
            bool again = o != at->operands && strncmp(at->operands, o, length) == 0;
            if (!again)
                tsr_buffer_printf(text, "%s%%%.*s: %s", o == at->operands ? "" : ", ", (int)length,
                                  o, type_of(s, dtype, letter_of(steps, o, length), type));
            o += length + (o[length] == ' ');
        }
        type_of(s, dtype, at->type, type);
        tsr_buffer_printf(text, ") -> %s attributes {kind = \"%s\"} {\n", type,
                          reduces ? "reduce" : "map");
        write_step(text, steps, at, s, dtype);
        tsr_buffer_printf(text, "tsched.return %%%s : %s\n}\n", at->result, type);
    }
    tsr_buffer_finish(&returned);
    tsr_buffer_finish(&types);
    tsr_buffer_finish(&arguments);
}

typedef struct values {
    void *inputs[3]; /* x, g, s */
    void *steps[STEPS_MAX];
    void *whole[STEPS_MAX];
} values;

static void *value_of(const step *steps, const values *v, const char *name, size_t length) {
    const step *made = find_step(steps, name, length);
    if (made) return v->steps[made - steps];
    return v->inputs[*name == 'x' ? 0 : *name == 'g' ? 1 : 2];
}

/* Runs the separate ops on each target, so that targets without FMA are compared with themselves.
 */
static void run_steps(const built *b, const step *steps, const shapes *s, tsr_dtype dtype,
                      values *v) {
    for (const step *at = steps; at->result; at++) {
        argument arguments[3];
        size_t count = 0;
        for (const char *o = at->operands; *o;) {
            size_t length = strcspn(o, " ");
            bool again = o != at->operands && strncmp(at->operands, o, length) == 0;
            if (!again)
                arguments[count++] = (argument){value_of(steps, v, o, length),
                                                size_of(s, dtype, letter_of(steps, o, length))};
            o += length + (o[length] == ' ');
        }
        arguments[count++] = (argument){NULL, size_of(s, dtype, at->type)};
        void *outs[] = {v->steps[at - steps]};
        kernel_run(b, at->result, arguments, count, SPLIT_WHOLE, GUARD_END, outs);
    }
}

static void run_whole(fixture *f, const built *b, const step *steps, const shapes *s,
                      tsr_dtype dtype, const values *v) {
    argument arguments[ARGUMENTS_MAX + 3];
    void *outs[STEPS_MAX];
    size_t count = 0, out_count = 0;
    static const char *const names[] = {"x", "g", "s"};
    for (int i = 0; i < 3; i++)
        if (reads(steps, names[i]))
            arguments[count++] = (argument){v->inputs[i], size_of(s, dtype, i == 2 ? 'C' : 'F')};
    for (const step *at = steps; at->result; at++) {
        if (!at->returned) continue;
        arguments[count++] = (argument){NULL, size_of(s, dtype, at->type)};
        outs[out_count++] = v->whole[at - steps];
    }
    if (b)
        kernel_run(b, "whole", arguments, count, SPLIT_REVERSED, GUARD_START, outs);
    else
        kernel_test(f, "whole", arguments, count, outs, NULL, NULL);
}

static void test_program(const struct named *program, const shapes *s, tsr_dtype dtype) {
    const step *steps = program->steps;
    fixture f = {0};
    values v;
    tsr_buffer text = {0};
    random_state random = {s->full.dims[0] + (uint64_t)dtype};
    for (int i = 0; i < 3; i++) v.inputs[i] = calloc(BYTES, 1);
    for (int i = 0; i < STEPS_MAX; i++) {
        v.steps[i] = calloc(BYTES, 1);
        v.whole[i] = calloc(BYTES, 1);
    }
    cr_assert(size_of(s, dtype, 'F') <= BYTES);
    for (int i = 0; i < 3; i++)
        random_fill(&random, dtype, v.inputs[i],
                    size_of(s, dtype, i == 2 ? 'C' : 'F') / tsr_dtype_size(dtype), -3, 3);
    write_program(&text, steps, s, dtype);
    fixture_open(&f, text.bytes);
    run_whole(&f, NULL, steps, s, dtype, &v);
    for (size_t t = 0; t < f.built_count; t++) {
        run_steps(&f.built[t], steps, s, dtype, &v);
        run_whole(&f, &f.built[t], steps, s, dtype, &v);
        for (const step *at = steps; at->result; at++)
            cr_assert(!at->returned || memcmp(v.whole[at - steps], v.steps[at - steps],
                                              size_of(s, dtype, at->type)) == 0,
                      "%s of %s on %s: %%%s is not what the ops alone give", program->name,
                      tsr_dtype_name(dtype), f.built[t].target->name, at->result);
    }
    for (int i = 0; i < 3; i++) free(v.inputs[i]);
    for (int i = 0; i < STEPS_MAX; i++) {
        free(v.steps[i]);
        free(v.whole[i]);
    }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

static void test_programs(const shapes *cases, size_t count) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F32, TSR_DTYPE_F64, TSR_DTYPE_BF16};
    for (size_t p = 0; p < TSR_COUNT(programs); p++)
        for (size_t i = 0; i < count; i++)
            test_program(&programs[p], &cases[i], dtypes[(i + p) % 3]);
}

Test(rows, bits_of_the_ops_alone, .timeout = 240) {
    static const shapes cases[] = {
        {{2, {1, 1}}, 1, 0},     {{2, {3, 7}}, 1, 0},     {{2, {5, 64}}, 1, 0},
        {{2, {17, 200}}, 1, 0},  {{2, {2, 5000}}, 1, 0},  {{1, {130}}, 1, 0},
        {{3, {2, 3, 50}}, 1, 0}, {{3, {4, 5, 33}}, 2, 0}, {{2, {9, 0}}, 1, 0},
        {{2, {0, 9}}, 1, 0},     {{3, {3, 1, 9}}, 2, 0},  {{2, {700, 3}}, 1, 0},
        {{2, {64, 64}}, 1, 0},
    };
    test_programs(cases, TSR_COUNT(cases));
}

/* Up to 64 rows, and more; following dims that are merged, and vectors that are not whole. */
Test(rows, bits_of_columns, .timeout = 240) {
    static const shapes cases[] = {
        {{3, {2, 5, 16}}, 1, 1},   {{2, {70, 33}}, 1, 1},       {{4, {2, 3, 4, 20}}, 2, 1},
        {{4, {2, 7, 5, 9}}, 1, 2}, {{3, {1, 1, 16}}, 1, 1},     {{3, {3, 130, 40}}, 1, 1},
        {{3, {2, 0, 20}}, 1, 1},   {{3, {0, 4, 20}}, 1, 1},     {{2, {1000, 17}}, 1, 1},
        {{3, {2, 64, 96}}, 1, 1},  {{4, {3, 2, 67, 31}}, 2, 1},
    };
    test_programs(cases, TSR_COUNT(cases));
}

/* exp 1 ulp of the result, its argument's rounding up to |x - m| / 2 ulp, the sum's 64 chains of 4
 * and a tree of 6, the quotient */
static void check_softmax(const float *x, const float *y, size_t count, size_t stride) {
    double highest = -INFINITY, sum = 0;
    for (size_t k = 0; k < count; k++) highest = fmax(highest, (double)x[k * stride]);
    for (size_t k = 0; k < count; k++) sum += exp((double)x[k * stride] - highest);
    for (size_t k = 0; k < count; k++) {
        double below = highest - (double)x[k * stride], want = exp(-below) / sum;
        double bound = want * 0x1p-24 * (12 + 2 * below) + 1e-38;
        cr_assert(fabs((double)y[k * stride] - want) <= bound, "%a, not %a", (double)y[k * stride],
                  want);
    }
}

static void test_softmax(const shapes *s, size_t outer, size_t count, size_t behind) {
    enum { ELEMENTS_MAX = 8192 };
    static float x[ELEMENTS_MAX], y[ELEMENTS_MAX];
    size_t elements = outer * count * behind;
    fixture f = {0};
    tsr_buffer text = {0};
    random_state random = {1};
    cr_assert(elements <= ELEMENTS_MAX);
    random_fill(&random, TSR_DTYPE_F32, x, elements, -80, 80);
    write_program(&text, softmax, s, TSR_DTYPE_F32);
    fixture_open(&f, text.bytes);
    void *outs[] = {y};
    argument arguments[] = {{x, elements * sizeof *x}, {NULL, elements * sizeof *y}};
    kernel_test(&f, "whole", arguments, 2, outs, NULL, NULL);
    for (size_t i = 0; i < outer; i++)
        for (size_t k = 0; k < behind; k++)
            check_softmax(x + i * count * behind + k, y + i * count * behind + k, count, behind);
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

Test(rows, softmax_is_right) {
    test_softmax(&(shapes){{2, {37, 203}}, 1, 0}, 37, 203, 1);
    test_softmax(&(shapes){{3, {2, 203, 20}}, 1, 1}, 2, 203, 20);
    test_softmax(&(shapes){{4, {3, 13, 7, 29}}, 1, 2}, 3, 13, 7 * 29);
}
