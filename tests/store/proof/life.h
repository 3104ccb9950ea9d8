/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives of a process that uses the store on the in-memory file system, and the invariants after
 * each, whatever faults it met. A violation is a text, not an exit: the layers of proof report it
 * together with the options that reproduce it.
 *
 * Each save has a step of its own, so that the recovered bytes tell which save they belong to. The
 * facts say which steps may be recovered. A save that was begun may be recovered; a save that was
 * acknowledged must be; a save that failed for certain may not be. After a step was acknowledged or
 * resumed from, no earlier step may be recovered.
 */
#ifndef TSR_TESTS_STORE_PROOF_LIFE_H
#define TSR_TESTS_STORE_PROOF_LIFE_H

#include "tests/store/fault_io.h"

enum { LIFE_STEPS_MAX = 63, LIFE_TEXT = 600, LIFE_CASES = 13 };

typedef struct life_facts {
    uint64_t allowed; /* bit s: step s may be recovered; bit 0: the store may be empty */
    unsigned steps;   /* the highest step whose save was begun */
    unsigned good;    /* generations that must be good */
} life_facts;

/* A store in which lives start. */
typedef struct life_start {
    const char *name;
    fault_io *disk;
    life_facts facts;
} life_start;

typedef struct life_fault {
    const char *name;
    fault_plan plan; /* the user sets `at` and `persistent` */
    bool allocation; /* fails the at-th allocation instead; plan.kind is FAULT_NONE */
    bool dies;       /* a crash, which is never persistent */
} life_fault;

/* One life with up to two faults, which are armed when the tested part of the life begins. `second`
 * counts operations. */
typedef struct life_run {
    fault_io *disk;
    life_facts facts;
    const life_fault *first;
    uint64_t at;
    bool persistent;
    const fault_plan *second; /* or NULL */
    bool medium_fails;        /* both faults are read errors: damage, if it is reported */
    bool fell_back;           /* damage was reported: rules for undamaged stores do not apply */
    bool fired, both_fired;
    uint64_t opportunities; /* operations that the first fault matches */
    char operation[16];     /* the first operation that met a fault */
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

/* Returns the start of a case, which is made once. A violation while it is made ends the
 * process. */
const life_start *life_start_get(const char *name);

/* Runs the case on a copy of its start. The copy becomes run->disk; the caller destroys it. */
void life_live(const life_case *which, life_run *run);
/* Runs one more life on the run's disk, which is up again: from opening to closing the store. */
void life_go_on(life_run *run);
/* Checks a disk that is up again (fault_io_crash): every committed generation is good, the
 * recovered one is allowed and stays the same after another power cut, and a further save is
 * acknowledged. Changes the disk. Returns false and writes the violation to `out_text` on
 * failure. */
bool life_check(fault_io *disk, const life_facts *facts, char out_text[LIFE_TEXT]);

#endif
