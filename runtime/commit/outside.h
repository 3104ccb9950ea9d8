/* SPDX-License-Identifier: Apache-2.0
 *
 * What the protocol knows of the world besides files: time, the network, who wants to know what it
 * did.
 */
#ifndef TSR_RUNTIME_COMMIT_OUTSIDE_H
#define TSR_RUNTIME_COMMIT_OUTSIDE_H

#include "runtime/base/result.h"

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

#endif
