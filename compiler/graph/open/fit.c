/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions through samples. The sizes are primes that no model has as a dim, so that no other
 * number equals them by chance.
 */
#include "compiler/graph/open/open.h"

#include <string.h>

__extension__ typedef __int128 wide;

enum { MONOMIALS_MAX = 1 + 4 + 10 + 20, DEGREE_MAX = 3 };

static const int64_t primes[TSR_SAMPLES][TSR_SAMPLE_SYMBOLS_MAX] = {{1013, 1223, 1451, 1663},
                                                                    {1297, 1063, 1787, 1381},
                                                                    {1559, 1873, 1109, 1999},
                                                                    {1907, 1601, 2011, 1153}};

void tsr_samples_init(tsr_samples *s) {
    TSR_ASSERT(s->symbol_count <= TSR_SAMPLE_SYMBOLS_MAX);
    memcpy(s->sizes, primes, sizeof primes);
}

typedef struct monomial {
    int factors[DEGREE_MAX]; /* symbols, ascending; -1: none */
    int64_t values[TSR_SAMPLES];
} monomial;

typedef struct solver {
    const tsr_samples *samples;
    size_t count;
    monomial list[MONOMIALS_MAX];
} solver;

/* The products of symbols, smaller degrees first. */
static void add_monomials(solver *s, uint32_t degree) {
    int n = (int)s->samples->symbol_count;
    for (int i = 0; i < n; i++)
        for (int j = degree > 1 ? i : n; j <= n; j++)
            for (int k = degree > 2 ? j : n; k <= n; k++) {
                uint32_t is = 1u + (j < n) + (k < n);
                if (is != degree || (j == n && k < n)) continue;
                monomial *m = &s->list[s->count++];
                *m = (monomial){.factors = {i, j < n ? j : -1, k < n ? k : -1}};
                for (size_t at = 0; at < TSR_SAMPLES; at++) {
                    m->values[at] = 1;
                    for (uint32_t f = 0; f < degree; f++)
                        m->values[at] *= s->samples->sizes[at][m->factors[f]];
                }
            }
}

/* a * m + b * n + c, in all samples */
static bool holds(const int64_t *values, const monomial *m, wide a, const monomial *n, wide b,
                  wide c) {
    for (size_t at = 0; at < TSR_SAMPLES; at++)
        if (a * m->values[at] + (n ? b * n->values[at] : 0) + c != values[at]) return false;
    return a >= INT64_MIN && a <= INT64_MAX && b >= INT64_MIN && b <= INT64_MAX && c >= INT64_MIN &&
           c <= INT64_MAX;
}

static bool solve_one(const int64_t *v, const monomial *m, wide *a, wide *c) {
    wide step = (wide)m->values[1] - m->values[0], rise = (wide)v[1] - v[0];
    if (step == 0 || rise % step != 0) return false;
    *a = rise / step;
    *c = v[0] - *a * m->values[0];
    return *a != 0 && holds(v, m, *a, NULL, 0, *c);
}

static bool solve_two(const int64_t *v, const monomial *m, const monomial *n, wide *a, wide *b,
                      wide *c) {
    wide m1 = (wide)m->values[1] - m->values[0], n1 = (wide)n->values[1] - n->values[0];
    wide m2 = (wide)m->values[2] - m->values[0], n2 = (wide)n->values[2] - n->values[0];
    wide v1 = (wide)v[1] - v[0], v2 = (wide)v[2] - v[0], det = m1 * n2 - m2 * n1;
    if (det == 0 || (v1 * n2 - v2 * n1) % det != 0 || (m1 * v2 - m2 * v1) % det != 0) return false;
    *a = (v1 * n2 - v2 * n1) / det;
    *b = (m1 * v2 - m2 * v1) / det;
    *c = v[0] - *a * m->values[0] - *b * n->values[0];
    return holds(v, m, *a, n, *b, *c);
}

/* Adds factor * m to one of the two sums, whose difference is the expression. */
static bool add_term(const tsr_samples *s, const monomial *m, int64_t factor, uint64_t *sum,
                     uint64_t *less) {
    uint64_t term = factor < 0 ? 0 - (uint64_t)factor : (uint64_t)factor, symbol;
    uint64_t *to = factor < 0 ? less : sum;
    if (!tsr_dim_is_known(term)) return false;
    for (size_t i = 0; m && i < DEGREE_MAX && m->factors[i] >= 0; i++)
        if (!tsr_dim_read(tsr_attr_make_string(s->context, s->symbols[m->factors[i]]), &symbol) ||
            !tsr_dim_multiply(term, symbol, &term))
            return false;
    return tsr_dim_add(*to, term, to);
}

static bool write(const tsr_samples *s, const monomial *m, wide a, const monomial *n, wide b,
                  wide c, uint64_t *out_dim) {
    uint64_t sum = 0, less = 0;
    return add_term(s, m, (int64_t)a, &sum, &less) &&
           (!n || add_term(s, n, (int64_t)b, &sum, &less)) &&
           add_term(s, NULL, (int64_t)c, &sum, &less) && tsr_dim_subtract(sum, less, out_dim);
}

bool tsr_samples_fit(const tsr_samples *samples, const int64_t values[TSR_SAMPLES],
                     uint64_t *out_dim) {
    solver s = {.samples = samples};
    wide a, b, c;
    bool same = values[0] >= 0;
    for (size_t at = 1; at < TSR_SAMPLES; at++) same = same && values[at] == values[0];
    *out_dim = (uint64_t)values[0];
    if (same) return true;
    for (uint32_t degree = 1; degree <= DEGREE_MAX; degree++) add_monomials(&s, degree);
    for (size_t i = 0; i < s.count; i++)
        if (solve_one(values, &s.list[i], &a, &c))
            return write(samples, &s.list[i], a, NULL, 0, c, out_dim);
    for (size_t i = 0; i < s.count; i++)
        for (size_t k = i + 1; k < s.count; k++)
            if (solve_two(values, &s.list[i], &s.list[k], &a, &b, &c))
                return write(samples, &s.list[i], a, &s.list[k], b, c, out_dim);
    return false;
}

static tsr_dim_range high_of(void *user, const char *name) {
    const tsr_samples *s = user;
    for (size_t i = 0; i < s->symbol_count; i++)
        if (strcmp(s->symbols[i], name) == 0) return (tsr_dim_range){s->high[i], s->high[i]};
    return (tsr_dim_range){INT64_MIN, INT64_MAX};
}

bool tsr_samples_high(const tsr_samples *samples, uint64_t dim, int64_t *out_value) {
    uint64_t value;
    if (!tsr_dim_value(dim, high_of, (void *)(uintptr_t)samples, &value)) return false;
    *out_value = (int64_t)value;
    return true;
}
