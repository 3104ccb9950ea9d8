/* SPDX-License-Identifier: Apache-2.0
 *
 * T1, two faults: combines each single fault of each life with every other fault in the same life
 * or in the next life. All pairs of a case are numbered. A stride that is coprime to the number of
 * pairs visits all pairs in an order that looks random.
 */
#include "tests/store/proof/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SINGLES_MAX = 8192 };

/* A fault that may occur in one life. */
typedef struct single {
    const life_fault *fault;
    uint64_t at;
    bool persistent;
} single;

typedef struct singles {
    single *rows;
    size_t count;
} singles;

typedef struct space {
    const life_case *which[LIFE_CASES];
    singles first[LIFE_CASES], again; /* faults in the life of each case; in the life after it */
    uint64_t sizes[LIFE_CASES], total;
    size_t count;
} space;

static void add_faults(singles *list, const life_fault *fault, uint64_t opportunities) {
    for (uint64_t at = 1; at <= opportunities; at++)
        for (int persistent = 0; persistent <= !fault->dies; persistent++) {
            if (list->count == SINGLES_MAX) abort();
            list->rows[list->count++] = (single){fault, at, persistent != 0};
        }
}

/* Counts the operations in a life that meets no fault. The second life begins after a first one
 * without faults. */
static singles list_singles(const life_case *which, bool again) {
    singles list = {.rows = calloc(SINGLES_MAX, sizeof(single))};
    if (!list.rows) abort();
    for (size_t f = 0; f < life_fault_count; f++) {
        life_run run = {.first = &life_faults[f], .at = UINT64_MAX};
        life_live(which, &run);
        if (again) {
            fault_io_crash(run.disk, FAULT_LOSE, 0);
            life_go_on(&run);
        }
        add_faults(&list, &life_faults[f], run.opportunities);
        fault_io_destroy(run.disk);
    }
    return list;
}

static space measure(const proof_options *options) {
    space all = {.again = list_singles(&life_cases[LIFE_CASES - 1], true)};
    for (size_t c = 0; c < LIFE_CASES; c++) {
        if (!proof_chosen(options, &life_cases[c])) continue;
        size_t i = all.count++;
        all.which[i] = &life_cases[c];
        all.first[i] = list_singles(&life_cases[c], false);
        all.sizes[i] = all.first[i].count * (all.first[i].count + all.again.count);
        all.total += all.sizes[i];
    }
    return all;
}

static void release(space *all) {
    for (size_t i = 0; i < all->count; i++) free(all->first[i].rows);
    free(all->again.rows);
}

static bool report(const life_case *which, const single *a, const single *b, const char *where,
                   const proof_options *options, uint64_t number, const char *text) {
    printf("VIOLATION: %s\n  life %s from %s: %s%s at %" PRIu64 ", %s%s at %" PRIu64 " %s\n"
           "  reproduce: proof pairs --seed %" PRIu64 " --at %" PRIu64 "%s%s%s%s\n",
           text, which->life, which->start, a->fault->name, a->persistent ? "+" : "", a->at,
           b->fault->name, b->persistent ? "+" : "", b->at, where, options->seed, number + 1,
           options->life ? " --life " : "", options->life ? options->life : "",
           options->start ? " --start " : "", options->start ? options->start : "");
    return false;
}

static bool drops(const single *s) { return s->fault->plan.kind == FAULT_SYNC_DROPS; }

/* Runs between the two lives. After a removal that a failed sync forgot, power must be cut, because
 * later lives cannot know that the removal is not durable. */
static void between(life_run *run, const single *a, uint64_t random) {
    fault_io_crash(run->disk, drops(a) ? FAULT_LOSE : (fault_crash)(random % 3), random);
    run->first = NULL;
    run->second = NULL;
}

/* A read that fails twice counts as damage: the run falls back and reports it. */
static bool reads_fail(const single *a, const single *b) {
    return a->fault->plan.error == EIO && b->fault->plan.error == EIO;
}

/* Returns false if the second fault matched no operation. */
static bool live_pair(const life_case *which, const single *a, const single *b, bool same,
                      uint64_t random, life_run *run) {
    fault_plan second = b->fault->plan;
    second.at = b->at;
    second.persistent = b->persistent;
    *run = (life_run){.first = a->fault,
                      .at = a->at,
                      .persistent = a->persistent,
                      .medium_fails = same && reads_fail(a, b)};
    if (same) run->second = &second;
    life_live(which, run);
    run->second = NULL;
    if (same) return run->both_fired;
    if (!run->fired || run->violation[0]) return false;
    between(run, a, random);
    run->first = b->fault;
    run->at = b->at;
    run->persistent = b->persistent;
    life_go_on(run);
    return run->fired;
}

/* Returns 1 if the pair was tried, 0 if it does not exist, -1 after a violation. */
static int try_pair(const space *all, uint64_t number, const proof_options *options) {
    size_t c = 0;
    uint64_t rest = number, random = options->seed ^ (number * UINT64_C(0x2545f4914f6cdd1d));
    char text[LIFE_TEXT] = "";
    life_run run;
    while (rest >= all->sizes[c]) rest -= all->sizes[c++];
    const singles *first = &all->first[c];
    const single *a = &first->rows[rest % first->count];
    size_t index = rest / first->count;
    bool same = index < first->count;
    const single *b = same ? &first->rows[index] : &all->again.rows[index - first->count];
    /* Only one allocation can be made to fail, and one of two faults in the same life must come
     * first. */
    if (same && (b->fault->allocation || a == b)) return 0;
    bool met = live_pair(all->which[c], a, b, same, random, &run);
    random = proof_random(&random);
    bool good = !run.violation[0];
    if (good && met && !run.fell_back) {
        fault_io_crash(run.disk, (fault_crash)(random % 3), random);
        good = life_check(run.disk, &run.facts, text);
    }
    fault_io_destroy(run.disk);
    if (good) return met ? 1 : 0;
    report(all->which[c], a, b, same ? "of the same life" : "of the next life", options, number,
           run.violation[0] ? run.violation : text);
    return -1;
}

static uint64_t common_factor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool proof_pairs(const proof_options *options) {
    space all = measure(options);
    uint64_t state = options->seed, done = 0, met = 0, number = 0, stride = 1;
    bool good = true;
    if (all.total > 1) {
        number = proof_random(&state) % all.total;
        do stride = 1 + proof_random(&state) % (all.total - 1);
        while (common_factor(stride, all.total) != 1);
    }
    if (options->at) number = options->at - 1;
    for (; good && done < all.total; done++) {
        if (options->seconds > 0 && proof_seconds() > options->seconds) break;
        int result = try_pair(&all, number, options);
        met += result > 0;
        good = result >= 0;
        number = (number + stride) % all.total;
        if (options->at) break;
    }
    if (good)
        printf("pairs: %" PRIu64 " of %" PRIu64 " (seed %" PRIu64 "), %" PRIu64
               " met both faults\n",
               done, all.total, options->seed, met);
    release(&all);
    return good && done > 0;
}
