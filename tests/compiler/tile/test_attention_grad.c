/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of attention against the definition in double precision, and bit for bit between
 * targets with FMA.
 */
#include "compiler/ir/targets/target.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, O, L, G, M, INPUTS };

typedef struct attention {
    size_t b, h, g, s, t, d, e; /* heads h, key heads g, queries s, keys t */
    bool causal, wide;
    char mask;   /* 0: none; 'b': i1 [s, t]; 'a': added [h, s, t] */
    char unseen; /* NaN in each head: 'q': in the first query; 'g': in the gradient of its result;
                    'k', 'v': in the last key, or its value; 0: no NaN */
} attention;

typedef struct problem {
    const attention *a;
    tsr_dtype dtype;
    void *inputs[INPUTS];
    size_t counts[INPUTS];
    double *expected[3]; /* dq, dk, dv */
    double tolerance;
} problem;

static double get(const problem *p, int input, size_t at) {
    return element_get(p->dtype, p->inputs[input], at);
}

static double dot(const problem *p, int x, size_t x_at, int y, size_t y_at, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += get(p, x, x_at + i) * get(p, y, y_at + i);
    return sum;
}

static void put(const problem *p, int input, size_t at, double value) {
    if (p->dtype == TSR_DTYPE_F64)
        ((double *)p->inputs[input])[at] = value;
    else
        ((float *)p->inputs[input])[at] = (float)value;
}

static bool sees(const attention *a, size_t i, size_t j) {
    return !a->causal || j + a->s <= i + a->t;
}

/* The probabilities of one query; stores its result and logsumexp in the inputs. */
static void forward_row(const problem *p, size_t head, size_t i, size_t key_row, double *chance) {
    const attention *a = p->a;
    size_t row = head * a->s + i;
    double largest = -INFINITY, total = 0;
    for (size_t j = 0; j < a->t; j++) {
        double x = dot(p, Q, row * a->d, K, (key_row + j) * a->d, a->d) / sqrt((double)a->d);
        size_t at = (head % a->h * a->s + i) * a->t + j;
        if (a->mask == 'a') x += get(p, M, at);
        if (a->mask == 'b' && !((const uint8_t *)p->inputs[M])[i * a->t + j]) x = -INFINITY;
        chance[j] = sees(a, i, j) ? x : -INFINITY;
        largest = isnan(chance[j]) || isnan(largest) ? NAN : fmax(largest, chance[j]);
    }
    for (size_t j = 0; j < a->t; j++) {
        chance[j] = largest == -INFINITY ? 0 : exp(chance[j] - largest);
        total += chance[j];
    }
    for (size_t j = 0; j < a->t && total != 0; j++) chance[j] /= total;
    put(p, L, row, total == 0 ? -INFINITY : largest + log(total));
    for (size_t e = 0; e < a->e; e++) {
        double sum = 0;
        for (size_t j = 0; j < a->t; j++)
            if (sees(a, i, j)) sum += chance[j] * get(p, V, (key_row + j) * a->e + e);
        put(p, O, row * a->e + e, sum);
    }
}

static void backward_row(const problem *p, size_t row, size_t key_row, const double *chance) {
    const attention *a = p->a;
    double total = dot(p, G, row * a->e, O, row * a->e, a->e);
    for (size_t j = 0; j < a->t; j++) {
        if (!sees(a, row % a->s, j)) continue;
        size_t key = key_row + j;
        double change = dot(p, G, row * a->e, V, key * a->e, a->e) - total;
        change *= chance[j] / sqrt((double)a->d);
        for (size_t e = 0; e < a->e; e++)
            p->expected[2][key * a->e + e] += chance[j] * get(p, G, row * a->e + e);
        for (size_t d = 0; d < a->d; d++) {
            p->expected[0][row * a->d + d] += change * get(p, K, key * a->d + d);
            p->expected[1][key * a->d + d] += change * get(p, Q, row * a->d + d);
        }
    }
}

static void compute(const problem *p) {
    const attention *a = p->a;
    double *chance = malloc(a->t * sizeof *chance + 8);
    for (size_t head = 0; head < a->b * a->h; head++)
        for (size_t i = 0; i < a->s; i++) {
            size_t group = head % a->h / (a->h / a->g), batch = head / a->h;
            size_t key_row = (batch * a->g + group) * a->t;
            forward_row(p, head, i, key_row, chance);
            backward_row(p, head * a->s + i, key_row, chance);
        }
    free(chance);
}

static void check(const tsr_target *target, void *const *outs, void *user) {
    static const char *const names[] = {"dq", "dk", "dv"};
    const problem *p = user;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < p->counts[k]; i++) {
            double got = element_get(p->dtype, outs[k], i), expected = p->expected[k][i];
            bool same = isnan(expected)
                            ? isnan(got)
                            : fabs(got - expected) <= p->tolerance * (1 + fabs(expected));
            cr_assert(same, "%s %s[%zu]: expected %.9g, got %.9g", target->name, names[k], i,
                      expected, got);
        }
}

static void write_text(const problem *p, char *text, size_t size) {
    const attention *a = p->a;
    const char *dtype = a->wide ? "f64" : "f32";
    char t[INPUTS][80], types[800];
    size_t dims[][4] = {{a->b, a->h, a->s, a->d},
                        {a->b, a->g, a->t, a->d},
                        {a->b, a->g, a->t, a->e},
                        {a->b, a->h, a->s, a->e},
                        {0},
                        {a->b, a->h, a->s, a->e}};
    for (int i = 0; i < M; i++)
        snprintf(t[i], sizeof t[i], "tensor<%zux%zux%zux%zux%s>", dims[i][0], dims[i][1],
                 dims[i][2], dims[i][3], dtype);
    snprintf(t[L], sizeof t[L], "tensor<%zux%zux%zux%s>", a->b, a->h, a->s, dtype);
    if (a->mask == 'a')
        snprintf(t[M], sizeof t[M], "tensor<%zux%zux%zux%s>", a->h, a->s, a->t, dtype);
    else
        snprintf(t[M], sizeof t[M], "tensor<%zux%zuxi1>", a->s, a->t);
    snprintf(types, sizeof types, "%s, %s, %s, %s, %s, %s%s%s", t[Q], t[K], t[V], t[O], t[L], t[G],
             a->mask ? ", " : "", a->mask ? t[M] : "");
    snprintf(text, size,
             "tsched.func @f(%%q: %s, %%k: %s, %%v: %s, %%o: %s, %%l: %s, %%g: %s%s%s) -> (%s, %s, "
             "%s) attributes {kind = \"attention_grad\"} {\n"
             "%%r:3 = tessera.attention_grad %%q, %%k, %%v, %%o, %%l, %%g%s {%s} : %s -> %s, %s, "
             "%s\ntsched.return %%r#0, %%r#1, %%r#2 : %s, %s, %s\n}",
             t[Q], t[K], t[V], t[O], t[L], t[G], a->mask ? ", %m: " : "", a->mask ? t[M] : "", t[Q],
             t[K], t[V], a->mask ? ", %m" : "", a->causal ? "causal" : "", types, t[Q], t[K], t[V],
             t[Q], t[K], t[V]);
}

static void make_inputs(problem *p) {
    const attention *a = p->a;
    random_state random = {a->s * 31 + a->t};
    size_t keys = a->b * a->g * a->t, queries = a->b * a->h * a->s;
    size_t masks = a->mask == 'a' ? a->h * a->s * a->t : a->mask ? a->s * a->t : 0;
    size_t counts[] = {queries * a->d, keys * a->d,    keys * a->e, queries * a->e,
                       queries,        queries * a->e, masks};
    for (int i = 0; i < INPUTS; i++) {
        tsr_dtype dtype = i == M && a->mask == 'b' ? TSR_DTYPE_I1 : p->dtype;
        p->counts[i] = counts[i];
        p->inputs[i] = malloc(counts[i] * 8 + 8);
        random_fill(&random, dtype, p->inputs[i], counts[i], -2, 2);
    }
    for (int k = 0; k < 3; k++) p->expected[k] = calloc(counts[k] + 1, sizeof(double));
    int at = a->unseen == 'q' ? Q : a->unseen == 'k' ? K : a->unseen == 'v' ? V : G;
    bool first = at == Q || at == G;
    size_t length = at == Q || at == K ? a->d : a->e, head = length * (first ? a->s : a->t);
    for (size_t i = 0; a->unseen && i < counts[at]; i += head)
        put(p, at, first ? i : i + head - 1, NAN);
}

static void test_gradient(attention a) {
    problem p = {.a = &a, .dtype = a.wide ? TSR_DTYPE_F64 : TSR_DTYPE_F32};
    size_t size = tsr_dtype_size(p.dtype), count = 0;
    /* Sums of some hundred terms of up to ten. */
    p.tolerance = a.wide ? 1e-13 : 3e-5;
    make_inputs(&p);
    compute(&p);
    char text[4096];
    write_text(&p, text, sizeof text);
    fixture f = {.nans = a.unseen ? &p.dtype : NULL};
    fixture_open(&f, text);
    argument arguments[INPUTS + 3];
    for (int i = 0; i < (a.mask ? INPUTS : M); i++)
        arguments[count++] =
            (argument){p.inputs[i], p.counts[i] * (i == M && a.mask == 'b' ? 1 : size)};
    void *outs[3];
    for (int k = 0; k < 3; k++) {
        outs[k] = malloc(p.counts[k] * size + 1);
        arguments[count++] = (argument){NULL, p.counts[k] * size};
    }
    kernel_test(&f, "f", arguments, count, outs, check, &p);
    fixture_close(&f);
    for (int i = 0; i < INPUTS; i++) free(p.inputs[i]);
    for (int k = 0; k < 3; k++) {
        free(p.expected[k]);
        free(outs[k]);
    }
}

Test(attention_grad, plain) {
    test_gradient((attention){.b = 1, .h = 1, .g = 1, .s = 1, .t = 1, .d = 1, .e = 1});
    test_gradient((attention){.b = 2, .h = 3, .g = 3, .s = 17, .t = 33, .d = 20, .e = 7});
    test_gradient((attention){.b = 1, .h = 2, .g = 2, .s = 70, .t = 64, .d = 16, .e = 50});
}

/* Several blocks of queries and of keys; heads that share keys. */
Test(attention_grad, blocks) {
    test_gradient((attention){.b = 1, .h = 1, .g = 1, .s = 150, .t = 301, .d = 64, .e = 64});
    test_gradient((attention){.b = 2, .h = 4, .g = 2, .s = 75, .t = 130, .d = 24, .e = 8});
    test_gradient((attention){.b = 1, .h = 2, .g = 1, .s = 30, .t = 210, .d = 256, .e = 12});
}

Test(attention_grad, causal) {
    test_gradient(
        (attention){.b = 1, .h = 2, .g = 2, .s = 200, .t = 200, .d = 8, .e = 8, .causal = true});
    test_gradient(
        (attention){.b = 1, .h = 2, .g = 1, .s = 9, .t = 140, .d = 8, .e = 24, .causal = true});
    /* queries that see no key */
    test_gradient(
        (attention){.b = 1, .h = 1, .g = 1, .s = 90, .t = 13, .d = 8, .e = 8, .causal = true});
}

/* Masked elements add nothing, not even zero times NaN. */
Test(attention_grad, unseen) {
    for (const char *what = "qkvg"; *what; what++) {
        test_gradient((attention){.b = 1,
                                  .h = 2,
                                  .g = 2,
                                  .s = 67,
                                  .t = 67,
                                  .d = 8,
                                  .e = 40,
                                  .causal = true,
                                  .unseen = *what});
        test_gradient((attention){.b = 2,
                                  .h = 2,
                                  .g = 1,
                                  .s = 13,
                                  .t = 140,
                                  .d = 5,
                                  .e = 3,
                                  .causal = true,
                                  .unseen = *what});
        test_gradient((attention){.b = 1,
                                  .h = 1,
                                  .g = 1,
                                  .s = 141,
                                  .t = 17,
                                  .d = 5,
                                  .e = 70,
                                  .causal = true,
                                  .unseen = *what});
    }
}

Test(attention_grad, masks) {
    test_gradient(
        (attention){.b = 2, .h = 2, .g = 2, .s = 19, .t = 71, .d = 8, .e = 8, .mask = 'b'});
    test_gradient(
        (attention){.b = 2, .h = 4, .g = 2, .s = 11, .t = 130, .d = 8, .e = 8, .mask = 'a'});
    test_gradient((attention){
        .b = 1, .h = 2, .g = 1, .s = 70, .t = 70, .d = 8, .e = 8, .mask = 'a', .causal = true});
}

/* No queries, no keys, no batch, or values of size 0: the gradients are empty or zeros. */
Test(attention_grad, nothing) {
    test_gradient((attention){.b = 1, .h = 1, .g = 1, .s = 0, .t = 3, .d = 4, .e = 4});
    test_gradient((attention){.b = 1, .h = 2, .g = 1, .s = 5, .t = 0, .d = 4, .e = 4});
    test_gradient((attention){.b = 1, .h = 1, .g = 1, .s = 2, .t = 3, .d = 4, .e = 0});
    test_gradient((attention){.b = 0, .h = 2, .g = 2, .s = 2, .t = 3, .d = 4, .e = 4});
}

Test(attention_grad, wide) {
    test_gradient((attention){
        .b = 1, .h = 2, .g = 1, .s = 33, .t = 47, .d = 9, .e = 11, .causal = true, .wide = true});
    test_gradient(
        (attention){.b = 1, .h = 1, .g = 1, .s = 20, .t = 160, .d = 256, .e = 256, .wide = true});
}
