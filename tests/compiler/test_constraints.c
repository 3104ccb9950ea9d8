/* SPDX-License-Identifier: Apache-2.0
 *
 * Constraints on dims: random sets, compared with trying all sizes; the time of a large
 * set; conflicts.
 */
#include "compiler/graph/constraints/constraints.h"
#include "runtime/base/array.h"
#include "tests/compiler/fixture.h"

#include <stdio.h>
#include <time.h>

enum { SYMBOLS = 3, SIZE_MAX_TRIED = 9, SETS = 3000, PER_SET = 3 };

static const char *const names[SYMBOLS] = {"A", "B", "C"};

/* Draws a constraint, and says whether sizes satisfy it, without the code that is tested. */
typedef struct drawn {
    int form, left, right, number, modulus, remainder;
} drawn;

static drawn draw(unsigned *seed) {
    drawn d;
    int *fields[] = {&d.form, &d.left, &d.right, &d.number, &d.modulus, &d.remainder};
    static const int ends[] = {8, SYMBOLS, SYMBOLS, 12, 5, 100};
    for (size_t i = 0; i < TSR_COUNT(fields); i++) {
        *seed = *seed * 1103515245 + 12345;
        *fields[i] = (int)(*seed >> 16) % ends[i];
    }
    d.modulus += 2;
    d.remainder %= d.modulus;
    return d;
}

static void write(const drawn *d, char *text, size_t size) {
    const char *x = names[d->left], *y = names[d->right];
    static const char *const signs[] = {"==", "!=", "<", ">="};
    if (d->form < 4)
        snprintf(text, size, "%s + %d %s 2*%s", x, d->number, signs[d->form], y);
    else if (d->form == 4)
        snprintf(text, size, "(%s + %d) %% %d == %d", x, d->number, d->modulus, d->remainder);
    else if (d->form == 5)
        snprintf(text, size, "%s * %s == %d", x, y, d->number + 1);
    else if (d->form == 6)
        snprintf(text, size, "%s in %d..%d", x, d->modulus, d->modulus + d->number + 1);
    else
        snprintf(text, size, "%s * %s - %s <= %d", x, y, names[(d->left + 1) % SYMBOLS], d->number);
}

static bool holds(const drawn *d, const int *s) {
    int x = s[d->left], y = s[d->right], sum = x + d->number;
    switch (d->form) {
    case 0:
        return sum == 2 * y;
    case 1:
        return sum != 2 * y;
    case 2:
        return sum < 2 * y;
    case 3:
        return sum >= 2 * y;
    case 4:
        return sum % d->modulus == d->remainder;
    case 5:
        return x * y == d->number + 1;
    case 6:
        return x >= d->modulus && x < d->modulus + d->number + 1;
    default:
        return x * y - s[(d->left + 1) % SYMBOLS] <= d->number;
    }
}

static void add(tsr_constraints *set, const char *text) {
    tsr_dim_error error = {0};
    cr_assert(tsr_constraints_add(set, text, &error), "%s: %s", text, error.text);
}

static bool contains(const tsr_domain *d, int size) {
    return size >= d->low && size <= d->high && (size - d->residue) % d->modulus == 0;
}

typedef struct outcome {
    bool none;                          /* no sizes satisfy all */
    bool some[PER_SET], other[PER_SET]; /* in the domains, sizes that satisfy it; that do not */
} outcome;

static outcome try_all(const drawn *list, const tsr_domain *domains, bool fits) {
    outcome o = {.none = true};
    for (int i = 0; i < SIZE_MAX_TRIED * SIZE_MAX_TRIED * SIZE_MAX_TRIED; i++) {
        int s[SYMBOLS] = {i % 9 + 1, i / 9 % 9 + 1, i / 81 + 1};
        bool inside = fits, all = true;
        for (int k = 0; k < SYMBOLS; k++) inside = inside && contains(&domains[k], s[k]);
        for (int k = 0; k < PER_SET; k++) {
            bool one = holds(&list[k], s);
            all = all && one;
            if (inside) *(one ? &o.some[k] : &o.other[k]) = true;
        }
        if (all) {
            o.none = false;
            cr_assert(inside, "sizes %d, %d, %d were removed", s[0], s[1], s[2]);
        }
    }
    return o;
}

Test(constraints, never_remove_a_solution_and_never_prove_what_is_false) {
    unsigned seed = 36;
    int refuted = 0, impossible = 0, proved = 0;
    for (int n = 0; n < SETS; n++) {
        tsr_arena arena = {0};
        tsr_constraints set = {.arena = &arena};
        tsr_domain domains[SYMBOLS];
        drawn list[PER_SET];
        char text[80];
        uint32_t broken;
        for (int k = 0; k < SYMBOLS; k++) {
            cr_assert_eq(tsr_constraints_symbol(&set, names[k], 1), (uint32_t)k);
            domains[k] = tsr_domain_of(1, SIZE_MAX_TRIED);
        }
        for (int k = 0; k < PER_SET; k++) {
            list[k] = draw(&seed);
            write(&list[k], text, sizeof text);
            add(&set, text);
        }
        bool fits = tsr_constraints_narrow(&set, NULL, domains, &broken);
        outcome o = try_all(list, domains, fits);
        refuted += !fits;
        impossible += o.none;
        for (uint32_t k = 0; k < PER_SET && fits; k++) {
            tsr_verdict verdict = tsr_constraint_decide(&set.list[k], domains);
            cr_assert(verdict != TSR_PROVED || !o.other[k], "%s", set.list[k].text);
            cr_assert(verdict != TSR_REFUTED || !o.some[k], "%s", set.list[k].text);
            proved += verdict == TSR_PROVED;
        }
        tsr_arena_finish(&arena);
    }
    cr_assert(refuted > impossible * 3 / 4 && proved > SETS / 2,
              "%d of %d impossible sets, %d proved", refuted, impossible, proved);
    printf("%d sets, %d impossible, %d of them refuted, %d constraints proved\n", SETS, impossible,
           refuted, proved);
}

Test(constraints, a_conflict_has_no_constraint_too_many) {
    static const char *const texts[] = {"A >= 1",     "B % 8 == 0", "C <= 512",      "B == 3 * A",
                                        "C == B + 4", "C % 8 == 0", "A * B < 100000"};
    tsr_arena arena = {0};
    tsr_constraints set = {.arena = &arena};
    uint32_t list[TSR_COUNT(texts)], broken;
    tsr_domain domains[SYMBOLS] = {tsr_domain_any(), tsr_domain_any(), tsr_domain_any()};
    for (size_t i = 0; i < TSR_COUNT(texts); i++) add(&set, texts[i]);
    tsr_domain narrowed[SYMBOLS] = {domains[0], domains[1], domains[2]};
    cr_assert_not(tsr_constraints_narrow(&set, NULL, narrowed, &broken));
    cr_assert_eq(tsr_constraints_conflict(&set, domains, list), 3);
    cr_assert(list[0] == 1 && list[1] == 4 && list[2] == 5);
    tsr_arena_finish(&arena);
}

/* 1,000 constraints over 500 symbols. The bound on the time is wide: the machine may be busy. */
Test(constraints, a_thousand_are_solved_quickly) {
    enum { COUNT = 500 };
    tsr_arena arena = {0};
    tsr_constraints set = {.arena = &arena};
    char text[80];
    uint32_t broken;
    for (int i = 0; i < COUNT; i++) {
        snprintf(text, sizeof text, i ? "D%d == D%d + 8" : "D%d in 8..=64", i, i - 1);
        add(&set, text);
        snprintf(text, sizeof text, i % 2 ? "D%d %% 8 == 0" : "D%d * 2 <= 100000", i);
        add(&set, text);
    }
    tsr_domain *domains = calloc(set.symbol_count, sizeof *domains);
    cr_assert(domains && set.count == 1000);
    for (uint32_t s = 0; s < set.symbol_count; s++) domains[s] = tsr_domain_any();
    clock_t begin = clock();
    cr_assert(tsr_constraints_narrow(&set, NULL, domains, &broken));
    double ms = 1000.0 * (double)(clock() - begin) / CLOCKS_PER_SEC;
    printf("1000 constraints: %.2f ms\n", ms);
    cr_assert_eq(domains[COUNT - 1].high, 64 + 8 * (COUNT - 1));
    cr_assert_eq(domains[COUNT - 1].modulus, 8);
    cr_assert(ms < 50, "%.2f ms", ms);
    free(domains);
    tsr_arena_finish(&arena);
}
