/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a generation's segments, each byte verified. Blocks go past the page cache where the file
 * system allows it. Several threads read and hash at once, more than there are CPUs: so the disk
 * has requests to serve while the CPUs hash, and what is hashed is still near the processor.
 */
#ifndef TSR_RUNTIME_STORE_READ_H
#define TSR_RUNTIME_STORE_READ_H

#include "runtime/state/disk.h"
#include "runtime/state/format.h"
#include "runtime/store/crew.h"

enum {
    TSR_READ_SLOTS = 24, /* groups of chunks, under way and waiting */
    TSR_READ_JOBS = 256, /* chunks of a group */
    TSR_READ_GROUP_BYTES = TSR_HASH_CHUNK_BYTES,
    TSR_READ_WINDOW_BYTES = 1 << 20, /* read at once; stays in a CPU's own cache */
    TSR_READ_BUFFER_BYTES = TSR_READ_WINDOW_BYTES + 2 * TSR_DIRECT_ALIGN,
    TSR_READ_BUFFERS = TSR_CREW_MAX + 1, /* one for each member of the crew */
};
/* From this size on a state is worth threads. */
#define TSR_CREW_BYTES_MIN (UINT64_C(16) << 20)

typedef struct tsr_read_job {
    const tsr_chunk_row *chunk;
    const char *tensor;   /* its name */
    uint8_t *destination; /* NULL: only verified */
} tsr_read_job;

typedef struct tsr_read_slot {
    tsr_read_job jobs[TSR_READ_JOBS]; /* side by side in one segment */
    uint32_t count;
    tsr_ctx ctx; /* of whoever reads it */
    tsr_result result;
} tsr_read_slot;

typedef struct tsr_reader {
    tsr_crew crew;
    void *mapping;   /* owned */
    uint8_t *memory; /* in it; the buffers. Pages are touched as far as they are needed */
    const struct tsr_segment_file *file; /* that of the groups under way */
    tsr_read_slot slots[TSR_READ_SLOTS];
} tsr_reader;

/* For one thread at a time. NULL: no memory. */
tsr_reader *tsr_reader_create(void);
void tsr_reader_destroy(tsr_reader *reader); /* accepts NULL */
/* Everything that reading a state of so many bytes needs, touched. */
void tsr_reader_reserve(tsr_reader *reader, uint64_t state_bytes);

/* Some of a generation's chunks, in order. Those of tensor i are copied to their place in
 * destinations[i] before they are hashed, or, where destinations is NULL, only verified. With
 * `drop` the page cache is dropped first, so that the medium is read. */
TSR_RESULT tsr_read_part(tsr_ctx *ctx, tsr_reader *reader, int gens, const tsr_manifest *manifest,
                         tsr_part part, void *const *destinations, bool drop);
/* Are the segments there, with the sizes stated? Reads no data. */
TSR_RESULT tsr_read_sizes(tsr_ctx *ctx, int gens, const tsr_manifest *manifest);

#endif
