/* SPDX-License-Identifier: Apache-2.0
 *
 * T1: every operation of every life meets every fault, once or from then on. Then the process is
 * killed, or power is cut and none or some mixture of the unsynced data remains.
 */
#include "tests/store/proof/proof.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MIXES_CRASHED = 4, MIXES = 1, OPERATIONS_MAX = 2000 };

typedef struct tally {
    uint64_t lives, checks;
} tally;

static bool report(const life_case *which, const life_run *run, const char *crash,
                   const char *text) {
    printf(
        "VIOLATION: %s\n  reproduce: proof singles --life %s --start %s --fault %s%s --at %" PRIu64
        " (%s%s%s)\n",
        text, which->life, which->start, run->first->name, run->persistent ? "+" : "", run->at,
        run->operation, crash[0] ? ", then " : "", crash);
    return false;
}

static bool check_all(const life_case *which, const life_run *run, tally *done) {
    static const char *const names[] = {"power cut", "kill", "mixture"};
    char text[LIFE_TEXT];
    for (int crash = FAULT_LOSE; crash <= FAULT_MIX; crash++) {
        unsigned count = crash != FAULT_MIX ? 1 : run->first->dies ? MIXES_CRASHED : MIXES;
        for (unsigned i = 1; i <= count; i++) {
            fault_io *later = fault_io_clone(run->disk);
            fault_io_crash(later, (fault_crash)crash, i * 1000003 + run->at);
            bool good = life_check(later, &run->facts, text);
            fault_io_destroy(later);
            done->checks++;
            if (!good) return report(which, run, names[crash], text);
        }
    }
    return true;
}

typedef struct operations {
    uint64_t first, step; /* step 0: the first alone */
} operations;

/* If not all operations are tried, each fault gets a different subset. */
static operations choose_operations(const proof_options *options, uint64_t number) {
    if (options->at) return (operations){.first = options->at};
    uint64_t step = options->every ? options->every : 1;
    return (operations){.first = 1 + (options->seed + number) % step, .step = step};
}

static bool every_operation(const life_case *which, const life_fault *fault, bool persistent,
                            operations of, tally *done) {
    bool fired = true, good = true;
    for (uint64_t n = of.first; good && fired; n += of.step) {
        life_run run = {.first = fault, .at = n, .persistent = persistent};
        life_live(which, &run);
        fired = run.fired && of.step && n < OPERATIONS_MAX;
        if (run.fired) {
            done->lives++;
            good = run.violation[0] ? report(which, &run, "", run.violation)
                                    : check_all(which, &run, done);
        }
        fault_io_destroy(run.disk);
    }
    return good;
}

static bool is_asked_for(const proof_options *options, const life_fault *fault, bool persistent) {
    char name[32];
    snprintf(name, sizeof name, "%s%s", fault->name, persistent ? "+" : "");
    return !options->fault || strcmp(options->fault, name) == 0;
}

bool proof_singles(const proof_options *options) {
    tally done = {0};
    uint64_t number = 0;
    for (size_t c = 0; c < LIFE_CASES; c++) {
        if (!proof_chosen(options, &life_cases[c])) continue;
        for (size_t f = 0; f < life_fault_count; f++)
            for (int persistent = 0; persistent <= !life_faults[f].dies; persistent++)
                if (is_asked_for(options, &life_faults[f], persistent) &&
                    !every_operation(&life_cases[c], &life_faults[f], persistent,
                                     choose_operations(options, number++), &done))
                    return false;
    }
    printf("singles: %" PRIu64 " faults, %" PRIu64 " recoveries checked: ", done.lives,
           done.checks);
    if (options->every > 1)
        printf("one in %" PRIu64 ", seed %" PRIu64 "\n", options->every, options->seed);
    else
        printf("all of them\n");
    return done.lives > 0;
}
