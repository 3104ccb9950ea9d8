/* SPDX-License-Identifier: Apache-2.0
 *
 * What the protocol does to a store's directory: durable publication, removal. Everything goes
 * through the context's io table.
 */
#ifndef TSR_RUNTIME_COMMIT_DIRECTORY_H
#define TSR_RUNTIME_COMMIT_DIRECTORY_H

#include "runtime/state/disk.h"

/* A store's directory, held: owned descriptors, or -1. */
typedef struct tsr_directory {
    int root, gens, lock;
} tsr_directory;

/* One fsync, never a second. */
TSR_RESULT tsr_disk_sync(tsr_ctx *ctx, int fd, const char *what);
/* The same for a name in `dir`: O_RDONLY, sync, close. */
TSR_RESULT tsr_disk_sync_name(tsr_ctx *ctx, int dir, const char *name, int flags);

/* Durable and whole under `name`, never replacing: temporary file, fsync, link, fsync of `root`.
 * out_unknown (may not be NULL) is set when the name may or may not be there for good. TSR_LOCKED:
 * the name exists with other bytes. */
TSR_RESULT tsr_disk_publish(tsr_ctx *ctx, int root, uint64_t epoch, const tsr_name *name,
                            const void *bytes, size_t size_bytes, bool *out_unknown);

/* Removes a generation's directory with its segments. `scratch` has no arena. */
TSR_RESULT tsr_disk_remove_generation(tsr_ctx *ctx, int gens, const tsr_name *name,
                                      tsr_listing *scratch);

#endif
