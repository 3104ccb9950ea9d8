/* SPDX-License-Identifier: Apache-2.0
 *
 * What the protocol knows of the world besides files: time, the network, a log of what it did.
 */
#ifndef TSR_RUNTIME_COMMIT_OUTSIDE_H
#define TSR_RUNTIME_COMMIT_OUTSIDE_H

#include "runtime/commit/directory.h"

/* All functions return at once. None calls back into the coordinator or rank that called it. */
typedef struct tsr_outside {
    void *self;                     /* borrowed; passed first to every function */
    uint64_t (*now_ns)(void *self); /* monotonic */
    /* Of a coordinator: to that rank. Of a rank: to the coordinator, `rank` is its own. May lose
     * the message. `bytes` are the callee's to copy. */
    void (*send)(void *self, uint32_t rank, const uint8_t *bytes, size_t size_bytes);
    /* A line of the event log, without its newline; NULL: none is wanted. */
    void (*event)(void *self, const char *line);
    uint64_t process_id, nonce; /* in the names of temporary files */
} tsr_outside;

/* The log of one coordinator or rank: JSON objects, numbered from 1. */
typedef struct tsr_events {
    const tsr_outside *outside; /* borrowed */
    const char *who;            /* "coordinator", "rank 3" */
    uint64_t epoch, sequence;
} tsr_events;

/* `format` gives the members after those common to all: `"\"generation\":%llu,…"`, or "". */
void tsr_event(tsr_events *events, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, for what went wrong: a member "text", escaped, follows. */
void tsr_event_text(tsr_events *events, const char *name, const char *text, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
