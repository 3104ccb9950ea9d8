/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention against the definition in double precision, and bit for bit between targets with FMA.
 */
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum mask_kind { NO_MASK, BOOL_MASK, ADDED_MASK } mask_kind;

typedef struct attention {
    size_t b, h, g, s, t, d, e;
    bool causal, logsumexp;
    mask_kind mask;
    size_t mask_heads, mask_queries; /* dims 1 and 2 of the mask: 1 or h, 1 or s */
    double scale;                    /* 0: the default */
    bool wide;                       /* f64 */
    tsr_dtype narrow;                /* bf16 or f16; any other value: f32 */
    char unseen;                     /* 'k', 'v': the last key, or its value, is NaN; 0: no NaN */
} attention;

typedef struct problem {
    const attention *a;
    tsr_dtype dtype, logsumexp_dtype;
    void *q, *k, *v, *mask;
    double *result, *logsumexp, tolerance, logsumexp_tolerance;
} problem;

static double score(const problem *p, size_t b, size_t h, size_t i, size_t j) {
    const attention *a = p->a;
    size_t query = ((b * a->h + h) * a->s + i) * a->d;
    size_t key = ((b * a->g + h / (a->h / a->g)) * a->t + j) * a->d;
    double sum = 0;
    for (size_t d = 0; d < a->d; d++)
        sum += element_get(p->dtype, p->q, query + d) * element_get(p->dtype, p->k, key + d);
    sum *= a->scale != 0 ? a->scale : 1 / sqrt((double)a->d);
    if (a->causal && (ptrdiff_t)j > (ptrdiff_t)i + (ptrdiff_t)a->t - (ptrdiff_t)a->s)
        return -INFINITY;
    if (a->mask == NO_MASK) return sum;
    size_t at = b * a->mask_heads + (a->mask_heads > 1 ? h : 0);
    at = (at * a->mask_queries + (a->mask_queries > 1 ? i : 0)) * a->t + j;
    if (a->mask == ADDED_MASK) return sum + element_get(p->dtype, p->mask, at);
    return ((const uint8_t *)p->mask)[at] ? sum : -INFINITY;
}

static void compute_row(const problem *p, size_t b, size_t h, size_t i) {
    const attention *a = p->a;
    size_t row = (b * a->h + h) * a->s + i;
    double *scores = malloc(a->t * sizeof *scores + 8), largest = -INFINITY, total = 0;
    for (size_t j = 0; j < a->t; j++) {
        scores[j] = score(p, b, h, i, j);
        largest = fmax(largest, scores[j]);
    }
    for (size_t j = 0; j < a->t && isfinite(largest); j++) total += exp(scores[j] - largest);
    p->logsumexp[row] = total == 0 ? -INFINITY : largest + log(total);
    for (size_t e = 0; e < a->e; e++) {
        double sum = 0;
        for (size_t j = 0; j < a->t; j++) {
            if (scores[j] == -INFINITY) continue; /* for any value */
            size_t at = ((b * a->g + h / (a->h / a->g)) * a->t + j) * a->e + e;
            sum += exp(scores[j] - largest) / total * element_get(p->dtype, p->v, at);
        }
        p->result[row * a->e + e] = sum;
    }
    free(scores);
}

static bool is_near(double got, double expected, double tolerance) {
    if (isnan(expected)) return isnan(got);
    return got == expected || fabs(got - expected) <= tolerance;
}

static void check(const tsr_target *target, void *const *outs, void *user) {
    const problem *p = user;
    const attention *a = p->a;
    size_t rows = a->b * a->h * a->s;
    for (size_t i = 0; i < rows * a->e; i++)
        cr_assert(is_near(element_get(p->dtype, outs[0], i), p->result[i], p->tolerance),
                  "%s [%zu]: expected %.9g, got %.9g", target->name, i, p->result[i],
                  element_get(p->dtype, outs[0], i));
    for (size_t i = 0; a->logsumexp && i < rows; i++) {
        double got = element_get(p->logsumexp_dtype, outs[1], i), expected = p->logsumexp[i];
        cr_assert(is_near(got, expected, p->logsumexp_tolerance * (1 + fabs(expected))),
                  "%s logsumexp [%zu]: expected %.9g, got %.9g", target->name, i, expected, got);
    }
}

static void *make(random_state *random, tsr_dtype dtype, size_t count, double size) {
    void *data = malloc(count * 8 + 8);
    random_fill(random, dtype, data, count, -size, size);
    return data;
}

static void write_text(const problem *p, char *text, size_t size) {
    const attention *a = p->a;
    const char *dtype = tsr_dtype_name(p->dtype), *l_dtype = tsr_dtype_name(p->logsumexp_dtype);
    char q[80], k[80], v[80], m[80], o[80], l[80], types[700], scale[64] = "";
    const char *causal = a->causal ? (a->scale != 0 ? "causal, " : "causal") : "";
    snprintf(q, sizeof q, "tensor<%zux%zux%zux%zux%s>", a->b, a->h, a->s, a->d, dtype);
    snprintf(k, sizeof k, "tensor<%zux%zux%zux%zux%s>", a->b, a->g, a->t, a->d, dtype);
    snprintf(v, sizeof v, "tensor<%zux%zux%zux%zux%s>", a->b, a->g, a->t, a->e, dtype);
    snprintf(m, sizeof m, "tensor<%zux%zux%zux%zux%s>", a->b, a->mask_heads, a->mask_queries, a->t,
             a->mask == BOOL_MASK ? "i1" : dtype);
    snprintf(o, sizeof o, "tensor<%zux%zux%zux%zux%s>", a->b, a->h, a->s, a->e, dtype);
    snprintf(l, sizeof l, "tensor<%zux%zux%zux%s>", a->b, a->h, a->s, l_dtype);
    bool masked = a->mask != NO_MASK;
    if (a->scale != 0) snprintf(scale, sizeof scale, "scale = %.17g : f64", a->scale);
    snprintf(types, sizeof types, "%s, %s, %s%s%s", q, k, v, masked ? ", " : "", masked ? m : "");
    snprintf(text, size,
             "tsched.func @f(%%q: %s, %%k: %s, %%v: %s%s%s) -> (%s%s%s) attributes {kind = "
             "\"attention\"} {\n"
             "%s = tessera.attention %%q, %%k, %%v%s {%s%s} : %s -> %s%s%s\n"
             "tsched.return %s : %s%s%s\n}",
             q, k, v, masked ? ", %m: " : "", masked ? m : "", o, a->logsumexp ? ", " : "",
             a->logsumexp ? l : "", a->logsumexp ? "%o:2" : "%o", masked ? ", %m" : "", causal,
             scale, types, o, a->logsumexp ? ", " : "", a->logsumexp ? l : "",
             a->logsumexp ? "%o#0, %o#1" : "%o", o, a->logsumexp ? ", " : "",
             a->logsumexp ? l : "");
}

static void test_attention(attention a) {
    problem p = {.a = &a, .logsumexp_dtype = a.wide ? TSR_DTYPE_F64 : TSR_DTYPE_F32};
    bool is_narrow = a.narrow == TSR_DTYPE_BF16 || a.narrow == TSR_DTYPE_F16;
    p.dtype = is_narrow ? a.narrow : p.logsumexp_dtype;
    size_t rows = a.b * a.h * a.s, size = tsr_dtype_size(p.dtype);
    size_t masks = a.b * a.mask_heads * a.mask_queries * a.t;
    random_state random = {rows * 31 + a.t};
    p.logsumexp_tolerance = a.wide ? 1e-13 : 4e-6;
    /* Results are below 1 and rounded once: half a unit of 8 bits. */
    p.tolerance = is_narrow ? 0x1p-9 + 4e-6 : p.logsumexp_tolerance;
    p.q = make(&random, p.dtype, rows * a.d, 2);
    p.k = make(&random, p.dtype, a.b * a.g * a.t * a.d, 2);
    p.v = make(&random, p.dtype, a.b * a.g * a.t * a.e, 1);
    if (a.unseen) { /* of each head */
        size_t width = a.unseen == 'k' ? a.d : a.e;
        for (size_t end = a.t * width; end <= a.b * a.g * a.t * width; end += a.t * width)
            ((float *)(a.unseen == 'k' ? p.k : p.v))[end - 1] = NAN;
    }
    tsr_dtype mask_dtype = a.mask == BOOL_MASK ? TSR_DTYPE_I1 : p.dtype;
    p.mask = make(&random, mask_dtype, masks, 3);
    p.result = calloc(rows * a.e + 1, sizeof *p.result);
    p.logsumexp = calloc(rows + 1, sizeof *p.logsumexp);
    for (size_t b = 0; b < a.b; b++)
        for (size_t h = 0; h < a.h; h++)
            for (size_t i = 0; i < a.s; i++) compute_row(&p, b, h, i);
    char text[4096];
    write_text(&p, text, sizeof text);
    fixture f = {.nans = a.unseen ? &p.dtype : NULL};
    fixture_open(&f, text);
    argument arguments[6] = {{p.q, rows * a.d * size},
                             {p.k, a.b * a.g * a.t * a.d * size},
                             {p.v, a.b * a.g * a.t * a.e * size}};
    size_t count = 3;
    if (a.mask != NO_MASK)
        arguments[count++] = (argument){p.mask, masks * tsr_dtype_size(mask_dtype)};
    arguments[count++] = (argument){NULL, rows * a.e * size};
    if (a.logsumexp)
        arguments[count++] = (argument){NULL, rows * tsr_dtype_size(p.logsumexp_dtype)};
    void *outs[] = {malloc(rows * a.e * size + 1), malloc(rows * 8 + 1)};
    kernel_test(&f, "f", arguments, count, outs, check, &p);
    void *all[] = {p.q, p.k, p.v, p.mask, p.result, p.logsumexp, outs[0], outs[1]};
    for (size_t i = 0; i < TSR_COUNT(all); i++) free(all[i]);
    fixture_close(&f);
}

Test(attention, plain) {
    test_attention((attention){.b = 1, .h = 1, .g = 1, .s = 1, .t = 1, .d = 1, .e = 1});
    test_attention((attention){.b = 2, .h = 3, .g = 3, .s = 17, .t = 33, .d = 20, .e = 7});
    test_attention((attention){
        .b = 1, .h = 18, .g = 18, .s = 70, .t = 64, .d = 16, .e = 50, .logsumexp = true});
    test_attention(
        (attention){.b = 1, .h = 1, .g = 1, .s = 5, .t = 3, .d = 4, .e = 4, .scale = 0.7});
}

Test(attention, causal) {
    test_attention(
        (attention){.b = 1, .h = 2, .g = 2, .s = 75, .t = 75, .d = 8, .e = 8, .causal = true});
    test_attention((attention){.b = 1,
                               .h = 2,
                               .g = 1,
                               .s = 9,
                               .t = 140,
                               .d = 8,
                               .e = 24,
                               .causal = true,
                               .logsumexp = true});
    /* queries that see no key */
    test_attention((attention){.b = 1,
                               .h = 1,
                               .g = 1,
                               .s = 90,
                               .t = 13,
                               .d = 8,
                               .e = 8,
                               .causal = true,
                               .logsumexp = true});
}

/* Keys that a query does not see add nothing, not even zero times NaN. */
Test(attention, unseen) {
    for (const char *what = "kv"; *what; what++) {
        test_attention((attention){.b = 1,
                                   .h = 2,
                                   .g = 1,
                                   .s = 67,
                                   .t = 67,
                                   .d = 8,
                                   .e = 40,
                                   .causal = true,
                                   .logsumexp = true,
                                   .unseen = *what});
        test_attention((attention){.b = 2,
                                   .h = 1,
                                   .g = 1,
                                   .s = 13,
                                   .t = 640,
                                   .d = 5,
                                   .e = 3,
                                   .causal = true,
                                   .unseen = *what});
        test_attention((attention){.b = 1,
                                   .h = 1,
                                   .g = 1,
                                   .s = 41,
                                   .t = 17,
                                   .d = 5,
                                   .e = 70,
                                   .causal = true,
                                   .unseen = *what});
    }
}

Test(attention, masks) {
    test_attention((attention){.b = 2,
                               .h = 2,
                               .g = 2,
                               .s = 19,
                               .t = 71,
                               .d = 8,
                               .e = 8,
                               .mask = BOOL_MASK,
                               .mask_heads = 2,
                               .mask_queries = 19,
                               .logsumexp = true});
    test_attention((attention){.b = 2,
                               .h = 4,
                               .g = 2,
                               .s = 11,
                               .t = 66,
                               .d = 8,
                               .e = 8,
                               .mask = ADDED_MASK,
                               .mask_heads = 1,
                               .mask_queries = 1});
    test_attention((attention){.b = 1,
                               .h = 2,
                               .g = 1,
                               .s = 40,
                               .t = 40,
                               .d = 8,
                               .e = 8,
                               .mask = ADDED_MASK,
                               .mask_heads = 2,
                               .mask_queries = 40,
                               .causal = true});
}

/* The last panel of keys has one vector, two or all vectors; there are no keys, one block, or
 * several with a short last one; there are more or fewer queries than in a block. */
Test(attention, edges) {
    static const size_t keys[] = {0, 1, 15, 16, 49, 80, 96, 112, 128, 144, 335, 514, 531, 600};
    static const size_t queries[] = {1, 13, 41, 52, 104, 8};
    for (size_t i = 0; i < TSR_COUNT(keys); i++)
        test_attention((attention){.b = 1,
                                   .h = 2,
                                   .g = 1 + i % 2,
                                   .s = queries[i % 6],
                                   .t = keys[i],
                                   .d = 24 + i % 3,
                                   .e = i % 4 ? 64 : 33,
                                   .causal = i % 5 == 4,
                                   .logsumexp = i % 3 == 1});
}

/* Several blocks of keys. */
Test(attention, online) {
    test_attention((attention){
        .b = 1, .h = 1, .g = 1, .s = 70, .t = 700, .d = 64, .e = 64, .logsumexp = true});
    test_attention((attention){
        .b = 1, .h = 2, .g = 1, .s = 150, .t = 300, .d = 128, .e = 130, .causal = true});
    test_attention((attention){.b = 1,
                               .h = 1,
                               .g = 1,
                               .s = 30,
                               .t = 1300,
                               .d = 256,
                               .e = 12,
                               .mask = BOOL_MASK,
                               .mask_heads = 1,
                               .mask_queries = 30});
}

/* The kernels of bundles with native numerics. */
Test(attention, narrow) {
    test_attention((attention){.b = 2,
                               .h = 4,
                               .g = 2,
                               .s = 37,
                               .t = 300,
                               .d = 128,
                               .e = 128,
                               .causal = true,
                               .logsumexp = true,
                               .narrow = TSR_DTYPE_BF16});
    test_attention((attention){.b = 1,
                               .h = 2,
                               .g = 2,
                               .s = 20,
                               .t = 33,
                               .d = 64,
                               .e = 24,
                               .mask = ADDED_MASK,
                               .mask_heads = 1,
                               .mask_queries = 20,
                               .narrow = TSR_DTYPE_F16});
}

Test(attention, wide) {
    test_attention((attention){.b = 1,
                               .h = 2,
                               .g = 1,
                               .s = 33,
                               .t = 47,
                               .d = 9,
                               .e = 11,
                               .causal = true,
                               .logsumexp = true,
                               .wide = true});
    test_attention(
        (attention){.b = 1, .h = 1, .g = 1, .s = 20, .t = 260, .d = 256, .e = 256, .wide = true});
}
