/* SPDX-License-Identifier: Apache-2.0
 *
 * T2: power is cut after every operation of every life, and every state that a weak file system may
 * leave is generated: entries of directories in any order, the size of a file without its data, any
 * subset of its blocks. If at most three files and entries are pending, all states are tried;
 * otherwise the corners (nothing, all, one alone, all but one) and a sample. Recovery runs once on
 * each state.
 */
#include "tests/store/proof/proof.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PENDING_ALL = 3, TRAIL_MAX = 256, OPERATIONS_MAX = 2000 };

/* How thorough the search is: with a time limit, and without. */
typedef struct effort {
    size_t blocks; /* every subset is tried if a file has at most this many unsynced blocks */
    unsigned samples;
} effort;
static const effort brief = {3, 24}, thorough = {12, 4000};

/* One path through the choices. The next path is found by counting up from the end. */
typedef enum way { WAY_COUNT, WAY_NONE, WAY_ALL, WAY_ONLY, WAY_EXCEPT, WAY_RANDOM } way;
typedef struct trail {
    way how;
    unsigned choices[TRAIL_MAX], alternatives[TRAIL_MAX], length, known;
    unsigned index; /* used by ONLY and EXCEPT */
    uint64_t random;
} trail;

typedef struct seen {
    uint64_t *rows; /* 0: free */
    size_t count, capacity;
} seen;

typedef struct tally {
    uint64_t points, states, different, exhaustive;
    seen seen;
} tally;

static unsigned choose(void *user, unsigned alternatives) {
    trail *t = user;
    unsigned index = t->length++;
    if (index >= TRAIL_MAX) abort();
    switch (t->how) {
    case WAY_COUNT:
        if (index >= t->known) t->choices[index] = 0;
        t->alternatives[index] = alternatives;
        return t->choices[index];
    case WAY_NONE:
        return 0;
    case WAY_ALL:
        return 1;
    case WAY_ONLY:
        return index == t->index;
    case WAY_EXCEPT:
        return index != t->index;
    case WAY_RANDOM:
        break;
    }
    return (unsigned)(proof_random(&t->random) % alternatives);
}

/* Returns false after the last path. */
static bool count_up(trail *t) {
    while (t->length && t->choices[t->length - 1] + 1 == t->alternatives[t->length - 1])
        t->length--;
    if (!t->length) return false;
    t->choices[t->length - 1]++;
    t->known = t->length;
    return true;
}

/* Returns true if the key was not in the set. */
static bool insert(seen *set, uint64_t key) {
    if (!key) key = 1;
    if (2 * (set->count + 1) > set->capacity) {
        seen larger = {.capacity = set->capacity ? 2 * set->capacity : 1 << 14};
        larger.rows = calloc(larger.capacity, sizeof *larger.rows);
        if (!larger.rows) abort();
        for (size_t i = 0; i < set->capacity; i++)
            if (set->rows[i]) insert(&larger, set->rows[i]);
        free(set->rows);
        *set = larger;
    }
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15)) & (set->capacity - 1);
    for (; set->rows[at]; at = (at + 1) & (set->capacity - 1))
        if (set->rows[at] == key) return false;
    set->rows[at] = key;
    set->count++;
    return true;
}

static bool report(const life_case *which, const life_run *run, const trail *path,
                   const char *text) {
    static const char *const names[] = {"counted", "none", "all", "only", "all but", "random"};
    printf("VIOLATION: %s\n  power cut after operation %" PRIu64 " (%s); what was kept: %s", text,
           run->at, run->operation, names[path->how]);
    if (path->how == WAY_ONLY || path->how == WAY_EXCEPT) printf(" %u", path->index);
    for (unsigned i = 0; path->how == WAY_COUNT && i < path->length; i++)
        printf(" %u/%u", path->choices[i], path->alternatives[i]);
    printf("\n  reproduce: proof weak --life %s --start %s --at %" PRIu64 "\n", which->life,
           which->start, run->at);
    return false;
}

/* Tries one state if it is new. */
static bool try_state(const life_case *which, const life_run *run, size_t blocks, trail *path,
                      tally *done) {
    char text[LIFE_TEXT];
    fault_io *later = fault_io_clone(run->disk);
    path->length = 0;
    fault_io_crash_choose(
        later, &(fault_choice){.choose = choose, .user = path, .exhaustive_blocks = blocks});
    bool good = true;
    uint64_t key = fault_io_fingerprint(later) ^
                   (run->facts.allowed * UINT64_C(0xff51afd7ed558ccd)) ^ run->facts.good;
    done->states++;
    if (insert(&done->seen, key)) {
        done->different++;
        good = life_check(later, &run->facts, text);
    }
    fault_io_destroy(later);
    return good || report(which, run, path, text);
}

static bool every_state(const life_case *which, const life_run *run, const effort *how,
                        uint64_t seed, tally *done) {
    unsigned pending = fault_io_pending(run->disk);
    trail path = {.how = WAY_COUNT};
    if (pending <= PENDING_ALL) {
        done->exhaustive++;
        do
            if (!try_state(which, run, how->blocks, &path, done)) return false;
        while (count_up(&path));
        return true;
    }
    for (way corner = WAY_NONE; corner <= WAY_EXCEPT; corner++)
        for (unsigned i = 0; i < (corner < WAY_ONLY ? 1 : pending); i++) {
            path = (trail){.how = corner, .index = i};
            if (!try_state(which, run, 0, &path, done)) return false;
        }
    path = (trail){.how = WAY_RANDOM, .random = seed + run->at};
    for (unsigned i = 0; i < how->samples; i++)
        if (!try_state(which, run, i % 2 ? how->blocks : SIZE_MAX, &path, done)) return false;
    return true;
}

/* Returns false after a violation. Sets *out_end if there is no such operation. */
static bool cut_power(const life_case *which, uint64_t at, const effort *how, uint64_t seed,
                      tally *done, bool *out_end) {
    static const life_fault crash = {.name = "crash-after", .plan = {.kind = FAULT_CRASH_AFTER}};
    life_run run = {.first = &crash, .at = at};
    life_live(which, &run);
    bool good = true;
    *out_end = !run.fired;
    if (run.violation[0])
        good = report(which, &run, &(trail){.how = WAY_NONE}, run.violation);
    else if (run.fired) {
        done->points++;
        good = every_state(which, &run, how, seed, done);
    }
    fault_io_destroy(run.disk);
    return good;
}

/* Visits the same operation of all lives, then the next operation, from a start that the seed
 * decides, so that a short run covers all lives. */
bool proof_weak(const proof_options *options) {
    const effort *how = options->seconds > 0 ? &brief : &thorough;
    tally done = {0};
    uint64_t state = options->seed, counts[LIFE_CASES] = {0}, total = 0, longest = 0;
    bool good = true, end = false, late = false;
    for (size_t c = 0; c < LIFE_CASES; c++) {
        static const life_fault none = {.name = ""};
        life_run run = {.first = &none};
        if (!proof_chosen(options, &life_cases[c])) continue;
        life_live(&life_cases[c], &run);
        counts[c] = run.opportunities;
        total += counts[c];
        if (counts[c] > longest) longest = counts[c];
        fault_io_destroy(run.disk);
    }
    uint64_t first = longest ? proof_random(&state) % longest : 0;
    for (uint64_t i = 0; good && !late && i < longest; i++)
        for (size_t c = 0; good && !late && c < LIFE_CASES; c++) {
            uint64_t at = (first + i) % longest + 1;
            late = options->seconds > 0 && proof_seconds() > options->seconds;
            if (at <= counts[c] && !late && (!options->at || at == options->at))
                good = cut_power(&life_cases[c], at, how, options->seed, &done, &end) && !end;
        }
    if (good)
        printf("weak: %" PRIu64 " of %" PRIu64 " points of power loss (%" PRIu64
               " exhaustively, seed %" PRIu64 "), %" PRIu64 " states, %" PRIu64
               " different, each recovered\n",
               done.points, total, done.exhaustive, options->seed, done.states, done.different);
    free(done.seen.rows);
    return good && done.points > 0;
}
