/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of the protocol apart from files: time, the network, and the reader of the event
 * log.
 */
#ifndef TSR_RUNTIME_COMMIT_OUTSIDE_H
#define TSR_RUNTIME_COMMIT_OUTSIDE_H

#include "runtime/base/result.h"

/* All functions return at once. No function calls back into the coordinator or rank that called
 * it. */
typedef struct tsr_outside {
    void *self;                     /* borrowed; passed first to every function */
    uint64_t (*now_ns)(void *self); /* monotonic */
    /* A coordinator sends to that rank. A rank sends to the coordinator, and `rank` is its own
     * number. May lose the message. The callee must copy `bytes`. */
    void (*send)(void *self, uint32_t rank, const uint8_t *bytes, size_t size_bytes);
    /* Gets a line of the event log, without its newline; NULL: no log. */
    void (*event)(void *self, const char *line);
    uint64_t process_id, nonce; /* used in names of temporary files */
} tsr_outside;

#endif
