/* SPDX-License-Identifier: Apache-2.0
 *
 * Arena: memory that is released all at once. Grows by blocks; memory in it never moves. One arena
 * belongs to one thread at a time. The library fills an arena of the caller with the results of a
 * call:
 *
 *     tsr_arena arena = {0};
 *     … a function that takes &arena …
 *     tsr_arena_finish(&arena);
 */
#ifndef TSR_TESSERA_ARENA_H
#define TSR_TESSERA_ARENA_H

#include "tessera/result.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tsr_arena_block;
typedef struct tsr_arena {
    struct tsr_arena_block *head; /* owned */
    size_t used_bytes;            /* sum of all requests, for reports */
} tsr_arena;

/* A zero-initialised arena is empty. finish releases every block and accepts NULL. */
TSR_API void tsr_arena_finish(tsr_arena *arena);

#ifdef __cplusplus
}
#endif

#endif
