/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a generation's segments, each byte verified: blocks go past the page cache where the file
 * system allows it and are hashed by a crew while the next ones are read.
 */
#ifndef TSR_RUNTIME_STORE_READ_H
#define TSR_RUNTIME_STORE_READ_H

#include "runtime/state/disk.h"
#include "runtime/state/format.h"
#include "runtime/store/crew.h"

enum {
    TSR_READ_SLOTS = 4,
    TSR_READ_JOBS = 256, /* chunks of a slot */
    TSR_READ_BYTES = 2 * TSR_HASH_CHUNK_BYTES,
    TSR_READ_SLOT_BYTES = TSR_READ_BYTES + 2 * TSR_DIRECT_ALIGN,
};
/* From this size on a state is worth threads. */
#define TSR_CREW_BYTES_MIN (UINT64_C(16) << 20)

typedef struct tsr_read_job {
    const tsr_chunk_row *chunk;
    const char *tensor; /* its name */
    const uint8_t *bytes;
    uint8_t *destination; /* NULL: only verified */
} tsr_read_job;

typedef struct tsr_read_slot {
    uint8_t *memory;
    tsr_read_job jobs[TSR_READ_JOBS];
    uint32_t count;
    const tsr_read_job *damaged; /* the first whose hash differs, or NULL */
    tsr_digest found;            /* its hash */
} tsr_read_slot;

typedef struct tsr_reader {
    tsr_crew crew;
    uint8_t *memory; /* owned; pages are touched as far as they are needed */
    tsr_read_slot slots[TSR_READ_SLOTS];
} tsr_reader;

/* For one thread at a time. NULL: no memory. */
tsr_reader *tsr_reader_create(void);
void tsr_reader_destroy(tsr_reader *reader); /* accepts NULL */

/* Some of a generation's chunks, in order. Those of tensor i are copied to their place in
 * destinations[i] before they are hashed, or, where destinations is NULL, only verified. With
 * `drop` the page cache is dropped first, so that the medium is read. */
TSR_RESULT tsr_read_part(tsr_ctx *ctx, tsr_reader *reader, int gens, const tsr_manifest *manifest,
                         tsr_part part, void *const *destinations, bool drop);
/* Are the segments there, with the sizes stated? Reads no data. */
TSR_RESULT tsr_read_sizes(tsr_ctx *ctx, int gens, const tsr_manifest *manifest);

#endif
