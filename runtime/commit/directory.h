/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of the protocol on a store's directory: durable publication, removal. All file
 * operations go through the context's io table.
 */
#ifndef TSR_RUNTIME_COMMIT_DIRECTORY_H
#define TSR_RUNTIME_COMMIT_DIRECTORY_H

#include "runtime/state/disk.h"

/* An open store directory: owned descriptors, or -1. */
typedef struct tsr_directory {
    int root, gens, lock;
} tsr_directory;

/* Creates the directory and its parents if absent; TSR_STATE on a network file system; TSR_LOCKED
 * while another process holds it. After a failure, out_dir contains the descriptors that were
 * opened before it. */
TSR_RESULT tsr_directory_open(tsr_ctx *ctx, const char *path, bool allow_network_fs,
                              uint64_t process_id, tsr_directory *out_dir);
void tsr_directory_close(tsr_ctx *ctx, tsr_directory *dir);
/* Opens gen/ and publishes EPOCH.<epoch>, one above the highest existing epoch; for a new store,
 * first syncs all ancestors. */
TSR_RESULT tsr_directory_claim(tsr_ctx *ctx, tsr_directory *dir, const char *path,
                               tsr_listing *scratch, uint64_t *out_epoch);

/* Publishes a file durably and atomically as `name`, without replacing: temporary file, fsync,
 * link, fsync of `root`. out_unknown (may not be NULL) is set if it is not known whether the name
 * is durable. TSR_LOCKED: the name exists with other bytes. */
TSR_RESULT tsr_disk_publish(tsr_ctx *ctx, int root, const tsr_name *temp, const tsr_name *name,
                            const void *bytes, size_t size_bytes, bool *out_unknown);

/* Removes a generation's directory with its segments. `scratch` has no arena. */
TSR_RESULT tsr_disk_remove_generation(tsr_ctx *ctx, int gens, const tsr_name *name,
                                      tsr_listing *scratch);

#endif
