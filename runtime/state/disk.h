/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking into a store's directory: listings, and reading with damage told apart from other
 * failures. Everything goes through the context's io table. TSR_STATE means "missing or damaged",
 * TSR_IO "the operating system refused, nothing is known".
 */
#ifndef TSR_RUNTIME_STATE_DISK_H
#define TSR_RUNTIME_STATE_DISK_H

#include "runtime/base/io.h"
#include "runtime/state/names.h"

/* Names of one directory, unknown ones left out. With an arena it grows; without, it stops at its
 * capacity and says so in `overflow`. */
typedef struct tsr_listing {
    tsr_arena *arena; /* borrowed; NULL: names is of fixed capacity */
    tsr_name *names;
    size_t count, capacity;
    bool overflow;
} tsr_listing;
TSR_RESULT tsr_disk_list(tsr_ctx *ctx, int fd, tsr_listing *listing);
bool tsr_listing_has(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                     uint64_t generation);
/* Of EPOCH, BASE and MANIFEST; 0: none. */
uint64_t tsr_listing_highest_epoch(const tsr_listing *listing);

/* A file or directory for reading; missing or of another kind is TSR_STATE. */
TSR_RESULT tsr_disk_open(tsr_ctx *ctx, int dir, const char *name, int flags, int *out_fd);
/* A read error is tried once more, then it is damage. */
TSR_RESULT tsr_disk_read(tsr_ctx *ctx, int fd, const char *name, void *bytes, size_t size_bytes,
                         uint64_t offset);
/* Of a regular file; another kind is TSR_STATE. */
TSR_RESULT tsr_disk_file_size(tsr_ctx *ctx, int fd, const char *name, uint64_t *out_size_bytes);
TSR_RESULT tsr_disk_read_file(tsr_ctx *ctx, int dir, const char *name, size_t size_max,
                              tsr_arena *arena, uint8_t **out_bytes, size_t *out_size_bytes);

#endif
