/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a generation's segments and verifies each byte. Reads bypass the page cache if the file
 * system allows it, and go directly to their destination if its memory has large pages. Some
 * threads read ahead of others that hash, so that the disk always has requests to serve.
 */
#ifndef TSR_RUNTIME_STORE_READ_H
#define TSR_RUNTIME_STORE_READ_H

#include "runtime/base/pool.h"
#include "runtime/state/disk.h"
#include "runtime/state/format.h"
#include "runtime/store/pages.h"

enum {
    TSR_STORE_THREADS_MAX = 8, /* threads of each pool */
    TSR_READERS_PER_CPU = 2,   /* threads that wait for the disk */
    TSR_READ_AHEAD = 4,        /* groups that are read but not yet hashed */
    TSR_READ_SLOTS = 2 * TSR_STORE_THREADS_MAX + TSR_READ_AHEAD,
    TSR_READ_JOBS = 256, /* chunks of a group */
    TSR_READ_GROUP_BYTES = TSR_HASH_CHUNK_BYTES,
    TSR_READ_BUFFER_BYTES = TSR_READ_GROUP_BYTES + 2 * TSR_DIRECT_ALIGN,
    TSR_READ_STRAIGHT_BYTES_MIN = 1 << 20, /* chunks worth reading without a buffer */
};
/* States of at least this size are processed by threads. */
#define TSR_STORE_THREADS_BYTES_MIN (UINT64_C(16) << 20)

typedef struct tsr_read_job {
    const tsr_chunk_row *chunk;
    const char *tensor;   /* its name */
    uint8_t *destination; /* NULL: only verified */
    bool straight;        /* direct I/O to the destination is possible */
} tsr_read_job;

typedef struct tsr_read_slot {
    tsr_read_job jobs[TSR_READ_JOBS]; /* adjacent in one segment */
    uint32_t count;
    const uint8_t *bytes; /* first job's bytes in the buffer; NULL: at its destination */
    bool was_read;
    tsr_ctx ctx; /* used by the thread that works on it */
    tsr_result result;
} tsr_read_slot;

typedef struct tsr_reader {
    tsr_pool workers; /* hashes; also used for saves */
    tsr_pool readers; /* read groups and offer them to the workers */
    void *mapping;    /* owned */
    size_t mapping_bytes;
    uint8_t
        *memory; /* a buffer for each slot, in the mapping. Pages are touched only when needed */
    const struct tsr_segment_file *file; /* file of the running groups */
    tsr_large_pages large_pages;
    uint32_t slot_count;     /* slots in use */
    uint64_t retained_bytes; /* size of the buffers that tsr_reader_reserve touched */
    pthread_mutex_t order;   /* guards the following fields and was_read */
    uint64_t read_count;     /* number of groups read, in order */
    tsr_read_slot slots[TSR_READ_SLOTS];
} tsr_reader;

/* Used by one thread at a time. NULL: out of memory. */
tsr_reader *tsr_reader_create(void);
void tsr_reader_destroy(tsr_reader *reader); /* accepts NULL */
/* Allocates and touches all memory for reading a state of this size. */
void tsr_reader_reserve(tsr_reader *reader, uint64_t state_bytes);

/* Reads some of a generation's chunks, in order. The chunks of tensor i are copied to their offsets
 * in destinations[i] before they are hashed. If destinations is NULL, they are only verified. With
 * `drop`, the page cache is dropped first, so that the storage device is read. */
TSR_RESULT tsr_read_part(tsr_ctx *ctx, tsr_reader *reader, int gens, const tsr_manifest *manifest,
                         tsr_part part, void *const *destinations, bool drop);
/* Checks that the segments exist and have the stated sizes. Reads no data. */
TSR_RESULT tsr_read_sizes(tsr_ctx *ctx, int gens, const tsr_manifest *manifest);

#endif
