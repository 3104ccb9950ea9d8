/* SPDX-License-Identifier: Apache-2.0
 *
 * Narrowing: each constraint narrows the domain of each of its symbols x, by writing its sum as
 * A x + B, A and B without x, until nothing changes (Benhamou et al., "Revising hull and box
 * consistency", 1999, for intervals; Chinese remainders for congruences).
 *
 * Outline: numbers with ends · ranges and remainders of sums · narrowing · conflicts · verdicts.
 */
#include "compiler/graph/constraints/constraints.h"
#include "compiler/process/guard.h"

#include <stdlib.h>
#include <string.h>

enum { VISITS_MAX = 64 /* of one constraint: slow progress is given up */ };

/* ---- numbers with ends ----------------------------------------------------------------------- */

static int64_t bounded(int64_t x) {
    return x > TSR_DOMAIN_END ? TSR_DOMAIN_END : x < -TSR_DOMAIN_END ? -TSR_DOMAIN_END : x;
}

static int64_t plus(int64_t a, int64_t b) {
    if (llabs(a) == TSR_DOMAIN_END) return a;
    return llabs(b) == TSR_DOMAIN_END ? b : bounded(a + b);
}

static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    if (a == 0 || b == 0) return 0;
    if (__builtin_mul_overflow(a, b, &product))
        return (a < 0) == (b < 0) ? TSR_DOMAIN_END : -TSR_DOMAIN_END;
    return bounded(product);
}

static int64_t floor_divide(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t modulo(int64_t a, int64_t m) {
    int64_t r = a % m;
    return r < 0 ? r + m : r;
}

static int64_t divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return llabs(a);
}

tsr_domain tsr_domain_of(int64_t low, int64_t high) { return (tsr_domain){low, high, 1, 0}; }
tsr_domain tsr_domain_any(void) { return tsr_domain_of(1, TSR_DOMAIN_END); }

/* ---- ranges and remainders of sums ----------------------------------------------------------- */

typedef struct range {
    int64_t low, high;
} range;

/* Without one factor `without`, if the term has it. */
static range range_of_term(const tsr_constraint_term *term, const tsr_domain *domains,
                           uint32_t without) {
    range r = {1, 1};
    for (uint32_t i = 0; i < term->degree; i++) {
        if (term->symbols[i] == without) continue;
        r.low = times(r.low, domains[term->symbols[i]].low);
        r.high = times(r.high, domains[term->symbols[i]].high);
    }
    range scaled = {times(r.low, term->factor), times(r.high, term->factor)};
    return term->factor < 0 ? (range){scaled.high, scaled.low} : scaled;
}

static uint32_t power_of(const tsr_constraint_term *term, uint32_t symbol) {
    uint32_t power = 0;
    for (uint32_t i = 0; i < term->degree; i++) power += term->symbols[i] == symbol;
    return power;
}

/* The ranges of A and B; false if the sum is not linear in the symbol. */
static bool split(const tsr_constraint_part *part, const tsr_domain *domains, uint32_t symbol,
                  range *out_a, range *out_b) {
    *out_a = *out_b = (range){0, 0};
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t power = power_of(&part->terms[i], symbol);
        if (power > 1) return false;
        range r = range_of_term(&part->terms[i], domains, power ? symbol : UINT32_MAX);
        range *to = power ? out_a : out_b;
        *to = (range){plus(to->low, r.low), plus(to->high, r.high)};
    }
    return true;
}

/* A number known modulo `modulus`; modulus 0: exactly. */
typedef struct remainder_of {
    int64_t modulus, residue;
} rest;

static bool product_fits(int64_t a, int64_t b) { return llabs(times(a, b)) < TSR_DOMAIN_END; }

static rest known(int64_t modulus, int64_t residue) {
    return (rest){modulus, modulus ? modulo(residue, modulus) : residue};
}

static rest rest_times(rest a, rest b) {
    if (!product_fits(a.modulus, b.modulus) || !product_fits(a.residue, b.modulus) ||
        !product_fits(b.residue, a.modulus) || !product_fits(a.residue, b.residue))
        return (rest){1, 0};
    int64_t m =
        divisor(divisor(a.modulus * b.modulus, a.residue * b.modulus), b.residue * a.modulus);
    return known(m, a.residue * b.residue);
}

static rest rest_of_sum(const tsr_constraint_part *part, const tsr_domain *domains,
                        uint32_t without) {
    rest sum = {0, 0};
    for (uint32_t i = 0; i < part->count; i++) {
        const tsr_constraint_term *term = &part->terms[i];
        rest product = {0, term->factor};
        if (power_of(term, without)) continue;
        for (uint32_t k = 0; k < term->degree; k++) {
            const tsr_domain *d = &domains[term->symbols[k]];
            product = rest_times(product, d->low == d->high ? (rest){0, d->low}
                                                            : (rest){d->modulus, d->residue});
        }
        sum = known(divisor(sum.modulus, product.modulus), plus(sum.residue, product.residue));
    }
    return sum;
}

/* ---- narrowing ------------------------------------------------------------------------------- */

/* False if the domain is empty afterwards. */
static bool align(tsr_domain *d) {
    if (d->modulus > 1) {
        int64_t up = modulo(d->residue - d->low, d->modulus);
        d->low = plus(d->low, up);
        if (d->high < TSR_DOMAIN_END) d->high -= modulo(d->high - d->residue, d->modulus);
    }
    return d->low <= d->high;
}

/* x congruent to `residue` modulo `modulus`, too. */
static bool meet(tsr_domain *d, int64_t modulus, int64_t residue) {
    int64_t common = divisor(d->modulus, modulus);
    if (modulo(residue - d->residue, common) != 0) return false;
    if (modulus == common || !product_fits(d->modulus, modulus / common)) return align(d);
    enum { SEARCH_MAX = 1 << 16 };
    if (d->modulus * (modulus / common) > INT32_MAX || modulus / common > SEARCH_MAX)
        return align(d);
    while (modulo(d->residue - residue, modulus) != 0) d->residue += d->modulus;
    d->modulus *= modulus / common;
    d->residue = modulo(d->residue, d->modulus);
    return align(d);
}

/* a x >= -b, a > 0 */
static void raise_low(tsr_domain *d, range a, range b) {
    int64_t least = b.high == TSR_DOMAIN_END ? -TSR_DOMAIN_END : -b.high;
    if (least == -TSR_DOMAIN_END) return;
    int64_t by = least > 0 ? a.high : a.low;
    if (by == TSR_DOMAIN_END) return;
    int64_t low = -floor_divide(-least, by);
    if (low > d->low) d->low = low;
}

/* a x <= -b, a > 0 */
static void lower_high(tsr_domain *d, range a, range b) {
    if (b.low == -TSR_DOMAIN_END) return;
    int64_t most = -b.low, by = most >= 0 ? a.low : a.high;
    if (by == TSR_DOMAIN_END) return;
    int64_t high = floor_divide(most, by);
    if (high < d->high) d->high = high;
}

static range negated(range r) { return (range){-r.high, -r.low}; }

static bool narrow_linear(const tsr_constraint_part *part, tsr_domain *domains, uint32_t symbol) {
    tsr_domain *d = &domains[symbol];
    range a, b;
    if (!split(part, domains, symbol, &a, &b)) return true;
    if (a.high < 0) {
        if (part->kind == TSR_PART_NOT_NEGATIVE) lower_high(d, negated(a), negated(b));
        a = negated(a);
        b = negated(b);
        if (part->kind == TSR_PART_NOT_NEGATIVE) return align(d);
    }
    if (a.low < 1) return true;
    raise_low(d, a, b);
    if (part->kind == TSR_PART_ZERO) lower_high(d, a, b);
    return align(d);
}

/* The coefficient of a symbol that stands alone in one term; 0 if it does not. */
static int64_t coefficient(const tsr_constraint_part *part, uint32_t symbol) {
    int64_t factor = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        if (!power_of(&part->terms[i], symbol)) continue;
        if (factor || part->terms[i].degree > 1) return 0;
        factor = part->terms[i].factor;
    }
    return factor;
}

/* factor x + rest congruent to residue modulo modulus */
static bool narrow_modulo(const tsr_constraint_part *part, tsr_domain *domains, uint32_t symbol) {
    int64_t factor = coefficient(part, symbol), m = part->modulus;
    rest other = rest_of_sum(part, domains, symbol);
    if (!factor) return true;
    if (part->kind == TSR_PART_ZERO) {
        m = other.modulus;
        if (llabs(factor) != 1 || m < 2 || m > INT32_MAX) return true;
    } else if (other.modulus % m != 0) {
        return true;
    }
    int64_t want = modulo((part->kind == TSR_PART_ZERO ? 0 : part->residue) - other.residue, m);
    int64_t common = divisor(factor, m), step = m / common, by = modulo(factor / common, step);
    if (want % common != 0) return false;
    if (step == 1) return true;
    int64_t x = 0, sum = 0, goal = (want / common) % step;
    enum { SEARCH_MAX = 1 << 16 };
    for (; x < step && x < SEARCH_MAX && sum != goal; x++) sum = (sum + by) % step;
    return sum != goal || meet(&domains[symbol], step, x);
}

static tsr_verdict decide_part(const tsr_constraint_part *part, const tsr_domain *domains) {
    range a, sum;
    rest of = rest_of_sum(part, domains, UINT32_MAX);
    split(part, domains, UINT32_MAX, &a, &sum);
    bool has_zero = sum.low <= 0 && sum.high >= 0 &&
                    (of.modulus ? modulo(of.residue, of.modulus) == 0 : of.residue == 0);
    switch (part->kind) {
    case TSR_PART_ZERO:
        return !has_zero ? TSR_REFUTED : sum.low == sum.high ? TSR_PROVED : TSR_OPEN;
    case TSR_PART_NOT_ZERO:
        return !has_zero ? TSR_PROVED : sum.low == sum.high ? TSR_REFUTED : TSR_OPEN;
    case TSR_PART_NOT_NEGATIVE:
        return sum.low >= 0 ? TSR_PROVED : sum.high < 0 ? TSR_REFUTED : TSR_OPEN;
    case TSR_PART_MODULO:
        break;
    }
    int64_t common = divisor(of.modulus, part->modulus);
    if (modulo(of.residue - part->residue, common) != 0) return TSR_REFUTED;
    return common == part->modulus ? TSR_PROVED : TSR_OPEN;
}

tsr_verdict tsr_constraint_decide(const tsr_constraint *constraint, const tsr_domain *domains) {
    tsr_verdict all = TSR_PROVED;
    for (uint32_t i = 0; i < constraint->part_count; i++) {
        tsr_verdict one = decide_part(&constraint->parts[i], domains);
        if (one == TSR_REFUTED) return one;
        if (one == TSR_OPEN) all = one;
    }
    return all;
}

static bool narrow_part(const tsr_constraint_part *part, tsr_domain *domains) {
    for (uint32_t i = 0; i < part->count; i++)
        for (uint32_t k = 0; k < part->terms[i].degree; k++) {
            uint32_t symbol = part->terms[i].symbols[k];
            bool orders = part->kind == TSR_PART_ZERO || part->kind == TSR_PART_NOT_NEGATIVE;
            bool divides = part->kind == TSR_PART_ZERO || part->kind == TSR_PART_MODULO;
            if (orders && !narrow_linear(part, domains, symbol)) return false;
            if (divides && !narrow_modulo(part, domains, symbol)) return false;
        }
    return decide_part(part, domains) != TSR_REFUTED;
}

static bool narrow(const tsr_constraint *constraint, tsr_domain *domains) {
    for (uint32_t i = 0; i < constraint->part_count; i++)
        if (!narrow_part(&constraint->parts[i], domains)) return false;
    return true;
}

/* Marks the constraints that share a symbol whose domain changed. */
typedef struct queue {
    const tsr_constraints *set;
    uint32_t *starts, *users; /* of symbol s: users[starts[s] … starts[s + 1]) */
    bool *waits;
    uint8_t *visits;
    tsr_domain *before;
} queue;

static void each_symbol(const tsr_constraint *c, void (*visit)(void *user, uint32_t symbol),
                        void *user) {
    for (uint32_t p = 0; p < c->part_count; p++)
        for (uint32_t i = 0; i < c->parts[p].count; i++)
            for (uint32_t k = 0; k < c->parts[p].terms[i].degree; k++)
                visit(user, c->parts[p].terms[i].symbols[k]);
}

static void count_user(void *user, uint32_t symbol) { ((uint32_t *)user)[symbol + 1]++; }

typedef struct filling {
    uint32_t *next, *users, constraint;
} filling;

static void add_user(void *user, uint32_t symbol) {
    filling *f = user;
    f->users[f->next[symbol]++] = f->constraint;
}

static void find_users(queue *q) {
    const uint32_t symbols = q->set->symbol_count;
    for (uint32_t i = 0; i < q->set->count; i++)
        each_symbol(&q->set->list[i], count_user, q->starts);
    for (uint32_t s = 0; s < symbols; s++) q->starts[s + 1] += q->starts[s];
    q->users = calloc((size_t)q->starts[symbols] + 1, sizeof *q->users);
    uint32_t *next = calloc((size_t)symbols + 1, sizeof *next);
    TSR_NEED(q->users && next);
    memcpy(next, q->starts, symbols * sizeof *next);
    for (uint32_t i = 0; i < q->set->count; i++)
        each_symbol(&q->set->list[i], add_user, &(filling){next, q->users, i});
    free(next);
}

typedef struct waking {
    queue *q;
    const tsr_domain *domains;
    uint32_t constraint;
} waking;

static void wake_users(void *user, uint32_t symbol) {
    waking *w = user;
    queue *q = w->q;
    if (memcmp(&q->before[symbol], &w->domains[symbol], sizeof *w->domains) == 0) return;
    q->before[symbol] = w->domains[symbol];
    for (uint32_t i = q->starts[symbol]; i < q->starts[symbol + 1]; i++)
        q->waits[q->users[i]] = true;
}

static bool run_queue(queue *q, const bool *skipped, tsr_domain *domains, uint32_t *out_broken) {
    bool some = true;
    while (some) {
        some = false;
        for (uint32_t i = 0; i < q->set->count; i++) {
            if (!q->waits[i] || (skipped && skipped[i]) || q->visits[i] == VISITS_MAX) continue;
            q->waits[i] = false;
            q->visits[i]++;
            some = true;
            if (!narrow(&q->set->list[i], domains)) {
                *out_broken = i;
                return false;
            }
            each_symbol(&q->set->list[i], wake_users, &(waking){q, domains, i});
        }
    }
    return true;
}

bool tsr_constraints_narrow(const tsr_constraints *set, const bool *skipped, tsr_domain *domains,
                            uint32_t *out_broken) {
    const size_t symbols = (size_t)set->symbol_count + 2, count = (size_t)set->count + 1;
    queue q = {.set = set,
               .starts = calloc(symbols, sizeof *q.starts),
               .waits = malloc(count),
               .visits = calloc(count, 1),
               .before = calloc(symbols, sizeof *q.before)};
    TSR_NEED(q.starts && q.waits && q.visits && q.before);
    memset(q.waits, true, count);
    memcpy(q.before, domains, set->symbol_count * sizeof *domains);
    find_users(&q);
    bool fits = run_queue(&q, skipped, domains, out_broken);
    free(q.starts);
    free(q.users);
    free(q.waits);
    free(q.visits);
    free(q.before);
    return fits;
}

/* ---- conflicts ------------------------------------------------------------------------------- */

typedef struct search {
    const tsr_constraints *set;
    const tsr_domain *given;
    tsr_domain *domains;
    bool *skipped;
} search;

static bool fails(search *s) {
    uint32_t broken;
    memcpy(s->domains, s->given, s->set->symbol_count * sizeof *s->domains);
    return !tsr_constraints_narrow(s->set, s->skipped, s->domains, &broken);
}

/* Leaves out a half, a quarter, …, then single constraints, as long as the others fail. */
static void leave_out(search *s) {
    for (uint32_t step = s->set->count; step > 0; step /= 2)
        for (uint32_t at = 0; at < s->set->count; at += step) {
            uint32_t end = at + step < s->set->count ? at + step : s->set->count, some = 0;
            bool *were = malloc(step);
            TSR_NEED(were);
            for (uint32_t i = at; i < end; i++) {
                were[i - at] = s->skipped[i];
                some += !s->skipped[i];
                s->skipped[i] = true;
            }
            if (some && !fails(s)) memcpy(s->skipped + at, were, end - at);
            free(were);
        }
}

uint32_t tsr_constraints_conflict(const tsr_constraints *set, const tsr_domain *domains,
                                  uint32_t *out_list) {
    search s = {set, domains, calloc((size_t)set->symbol_count + 1, sizeof *s.domains),
                calloc((size_t)set->count + 1, 1)};
    uint32_t count = 0;
    TSR_NEED(s.domains && s.skipped);
    leave_out(&s);
    for (uint32_t i = 0; i < set->count; i++)
        if (!s.skipped[i]) out_list[count++] = i;
    free(s.domains);
    free(s.skipped);
    return count;
}
