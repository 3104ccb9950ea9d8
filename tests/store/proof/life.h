/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives of a process that uses the store on the file system in memory, and what must hold after
 * each, whatever befell it. A violation is a text, not an exit: the layers of proof report it with
 * what reproduces it.
 *
 * Each save is of a step of its own, so that the bytes recovered tell which save they are of. The
 * facts say which steps may be recovered: a save that was begun may, one that was acknowledged
 * must, one that failed for certain may not, and nothing that was there before a later step that
 * was acknowledged or gone on from.
 */
#ifndef TSR_TESTS_STORE_PROOF_LIFE_H
#define TSR_TESTS_STORE_PROOF_LIFE_H

#include "tests/store/fault_io.h"

enum { LIFE_STEPS_MAX = 63, LIFE_TEXT = 600, LIFE_CASES = 13 };

typedef struct life_facts {
    uint64_t allowed; /* bit s: step s may be recovered; bit 0: nothing there */
    unsigned steps;   /* the highest a save was begun for */
    unsigned good;    /* generations that must be good */
} life_facts;

/* A store to begin with. */
typedef struct life_start {
    const char *name;
    fault_io *disk;
    life_facts facts;
} life_start;

typedef struct life_fault {
    const char *name;
    fault_plan plan; /* `at` and `persistent` are set by its user */
    bool allocation; /* the at-th allocation instead; the kind of the plan is none */
    bool dies;       /* a crash: there is no "persistent" */
} life_fault;

/* Up to two faults, from the moment on that the life is about. `second` counts operations. */
typedef struct life_run {
    fault_io *disk;
    life_facts facts;
    const life_fault *first;
    uint64_t at;
    bool persistent;
    const fault_plan *second; /* or NULL */
    bool medium_fails;        /* both are read errors: together they are damage, if told */
    bool fell_back;           /* so they were: what holds without damage does not hold */
    bool fired, both_fired;
    uint64_t opportunities; /* operations that the first fault could meet */
    char operation[16];     /* the first that met a fault */
    char violation[LIFE_TEXT];
} life_run;

/* One kind of life, from one start. */
typedef struct life_case {
    const char *life, *start;
    void (*live)(life_run *run);
} life_case;

extern const life_case life_cases[LIFE_CASES];
extern const life_fault life_faults[];
extern const size_t life_fault_count;

/* The start of a case; made once. A violation while it is made ends the process. */
const life_start *life_start_get(const char *name);

/* Runs the case on a copy of its start, which run->disk then is; the caller destroys it. */
void life_live(const life_case *which, life_run *run);
/* One more life on the disk that the run has, up again: from the opening to the close. */
void life_go_on(life_run *run);
/* On a disk that is up again (fault_io_crash): everything committed is good, what is recovered is
 * allowed, the same after another power cut, and the store goes on: a save is acknowledged. Changes
 * the disk. False with the violation in `out_text`. */
bool life_check(fault_io *disk, const life_facts *facts, char out_text[LIFE_TEXT]);

#endif
