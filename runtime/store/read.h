/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a generation's segments, each byte verified. Blocks go past the page cache where the file
 * system allows it, and where the memory they are for has large pages, straight into it. Some
 * threads read ahead of others that hash, so that the disk always has requests to serve.
 */
#ifndef TSR_RUNTIME_STORE_READ_H
#define TSR_RUNTIME_STORE_READ_H

#include "runtime/state/disk.h"
#include "runtime/state/format.h"
#include "runtime/store/crew.h"
#include "runtime/store/pages.h"

enum {
    TSR_READERS_PER_CPU = 2, /* threads that wait for the disk */
    TSR_READ_AHEAD = 4,      /* groups that were read and nobody hashes yet */
    TSR_READ_SLOTS = 2 * TSR_CREW_MAX + TSR_READ_AHEAD,
    TSR_READ_JOBS = 256, /* chunks of a group */
    TSR_READ_GROUP_BYTES = TSR_HASH_CHUNK_BYTES,
    TSR_READ_BUFFER_BYTES = TSR_READ_GROUP_BYTES + 2 * TSR_DIRECT_ALIGN,
    TSR_READ_STRAIGHT_BYTES_MIN = 1 << 20, /* chunks worth reading without a buffer */
};
/* From this size on a state is worth threads. */
#define TSR_CREW_BYTES_MIN (UINT64_C(16) << 20)

typedef struct tsr_read_job {
    const tsr_chunk_row *chunk;
    const char *tensor;   /* its name */
    uint8_t *destination; /* NULL: only verified */
    bool straight;        /* the disk may write there */
} tsr_read_job;

typedef struct tsr_read_slot {
    tsr_read_job jobs[TSR_READ_JOBS]; /* side by side in one segment */
    uint32_t count;
    const uint8_t *bytes; /* of the first job, in the slot's buffer; NULL: at its destination */
    bool was_read;
    tsr_ctx ctx; /* of whoever works on it */
    tsr_result result;
} tsr_read_slot;

typedef struct tsr_reader {
    tsr_crew crew;    /* hashes; for saves, too */
    tsr_crew readers; /* read groups, for the crew */
    void *mapping;    /* owned */
    size_t mapping_bytes;
    uint8_t
        *memory; /* in it; a buffer for each slot. Pages are touched as far as they are needed */
    const struct tsr_segment_file *file; /* that of the groups under way */
    tsr_large_pages large_pages;
    uint32_t slot_count;   /* in use */
    uint64_t kept_bytes;   /* of the buffers, by tsr_reader_reserve */
    pthread_mutex_t order; /* guards what follows, and was_read */
    uint64_t read_count;   /* groups that were read, in order */
    tsr_read_slot slots[TSR_READ_SLOTS];
} tsr_reader;

/* For one thread at a time. NULL: no memory. */
tsr_reader *tsr_reader_create(void);
void tsr_reader_destroy(tsr_reader *reader); /* accepts NULL */
/* Everything that reading a state of so many bytes needs, touched. */
void tsr_reader_reserve(tsr_reader *reader, uint64_t state_bytes);

/* Some of a generation's chunks, in order. Those of tensor i are at their place in destinations[i]
 * before they are hashed, or, where destinations is NULL, only verified. With
 * `drop` the page cache is dropped first, so that the medium is read. */
TSR_RESULT tsr_read_part(tsr_ctx *ctx, tsr_reader *reader, int gens, const tsr_manifest *manifest,
                         tsr_part part, void *const *destinations, bool drop);
/* Are the segments there, with the sizes stated? Reads no data. */
TSR_RESULT tsr_read_sizes(tsr_ctx *ctx, int gens, const tsr_manifest *manifest);

#endif
