/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a store: listings, reading (which distinguishes damage from other failures), writing,
 * paths. All file operations go through the context's io table. TSR_STATE means "missing or
 * damaged", TSR_IO "the operating system refused, nothing is known".
 */
#ifndef TSR_RUNTIME_STATE_DISK_H
#define TSR_RUNTIME_STATE_DISK_H

#include "runtime/base/io/io.h"
#include "runtime/state/names.h"

/* The known names in a directory. With an arena the listing grows; without one it stops at its
 * capacity and sets `overflow`. */
typedef struct tsr_listing {
    tsr_arena *arena; /* borrowed; NULL: names is of fixed capacity */
    tsr_name *names;
    size_t count, capacity;
    unsigned wanted; /* bit 1 << kind is set for each kind to keep; 0: all */
    unsigned seen;   /* the same for kinds that exist, kept or not */
    bool overflow;
    uint64_t highest_epoch; /* highest epoch of EPOCH, BASE and MANIFEST, even without room for the
                               name; 0: none */
} tsr_listing;
TSR_RESULT tsr_disk_list(tsr_ctx *ctx, int fd, tsr_listing *listing);
/* Sorts by kind, epoch, generation; required by tsr_listing_find, epoch_below, find_other and has.
 */
void tsr_listing_sort(tsr_listing *listing);
/* Returns the number of names before this one. */
size_t tsr_listing_find(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                        uint64_t generation);
/* Returns the highest epoch below `limit` among the names of a kind; 0: none. */
uint64_t tsr_listing_epoch_below(const tsr_listing *listing, tsr_name_kind kind, uint64_t limit);
/* Returns the highest generation among the names of this kind, or 0. */
uint64_t tsr_listing_highest(const tsr_listing *listing, tsr_name_kind kind);
bool tsr_names_have(const tsr_name *names, size_t count, const tsr_name *name);
/* Returns this generation's manifest of the highest epoch that is not in `except`; or NULL. */
const tsr_name *tsr_listing_find_other(const tsr_listing *listing, uint64_t generation,
                                       const tsr_name *except, size_t except_count);
bool tsr_listing_has(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                     uint64_t generation);

/* The contents of a generation's directory. */
typedef struct tsr_contents {
    bool marked, used; /* COMMITTED exists; any of our files exists */
} tsr_contents;
/* A directory that cannot be read counts as used. */
tsr_contents tsr_disk_scan_generation(tsr_ctx *ctx, int gens, const tsr_name *name);

/* Opens a file or directory for reading; TSR_STATE if it is missing or of another kind. */
TSR_RESULT tsr_disk_open(tsr_ctx *ctx, int dir, const char *name, int flags, int *out_fd);
/* A read error is retried once; then it is damage. */
TSR_RESULT tsr_disk_read(tsr_ctx *ctx, int fd, const char *name, void *bytes, size_t size_bytes,
                         uint64_t offset);
/* Size of a regular file; another kind is TSR_STATE. */
TSR_RESULT tsr_disk_file_size(tsr_ctx *ctx, int fd, const char *name, uint64_t *out_size_bytes);
TSR_RESULT tsr_disk_read_file(tsr_ctx *ctx, int dir, const char *name, size_t size_max,
                              tsr_arena *arena, uint8_t **out_bytes, size_t *out_size_bytes);

/* Calls fsync once and never repeats it. */
TSR_RESULT tsr_disk_sync(tsr_ctx *ctx, int fd, const char *what);
/* The same for a name in `dir`: O_RDONLY, sync, close. */
TSR_RESULT tsr_disk_sync_name(tsr_ctx *ctx, int dir, const char *name, int flags);
/* Writes a complete new file, open as `fd`: full blocks bypass the page cache, through a second
 * descriptor, if the file system allows it. `bytes` is aligned to TSR_DIRECT_ALIGN. */
TSR_RESULT tsr_disk_write(tsr_ctx *ctx, int dir, int fd, const char *name, const uint8_t *bytes,
                          uint64_t size_bytes);

/* Opens a directory in `dir` and creates it if missing; the caller closes *out_fd. */
TSR_RESULT tsr_disk_make_folder(tsr_ctx *ctx, int dir, const char *name, int *out_fd);
/* Creates a directory and its missing parents, and syncs each in its parent; a directory that
 * cannot be synced is removed again. */
TSR_RESULT tsr_disk_make_path(tsr_ctx *ctx, const char *path);
/* Syncs every directory above `path`, so that no new directory is lost with its contents. A
 * directory that may not be opened was not created here. */
TSR_RESULT tsr_disk_sync_path(tsr_ctx *ctx, const char *path);
/* Returns the name of a network file system, which may not guarantee durability; NULL for other
 * file systems. */
TSR_RESULT tsr_disk_network_fs(tsr_ctx *ctx, int fd, const char **out_name);

#endif
