/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a store: listings, reading with damage told apart from other failures, writing, paths.
 * Everything goes through the context's io table. TSR_STATE means "missing or damaged", TSR_IO "the
 * operating system refused, nothing is known".
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
    unsigned wanted; /* a bit 1 << kind for each kind that is kept; 0: all */
    unsigned seen;   /* the same for those there are, kept or not */
    bool overflow;
    uint64_t highest_epoch; /* of EPOCH, BASE and MANIFEST, whether they had room or not; 0: none */
} tsr_listing;
TSR_RESULT tsr_disk_list(tsr_ctx *ctx, int fd, tsr_listing *listing);
/* By kind, epoch, generation: for the three below. */
void tsr_listing_sort(tsr_listing *listing);
/* How many names come before this one. */
size_t tsr_listing_find(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                        uint64_t generation);
/* The highest epoch below `limit` among the names of a kind; 0: none. */
uint64_t tsr_listing_epoch_below(const tsr_listing *listing, tsr_name_kind kind, uint64_t limit);
/* The highest generation of the names of this kind, or 0. */
uint64_t tsr_listing_highest(const tsr_listing *listing, tsr_name_kind kind);
bool tsr_names_have(const tsr_name *names, size_t count, const tsr_name *name);
/* The manifest of this generation, of the highest epoch, that is not one of `except`; or NULL. */
const tsr_name *tsr_listing_find_other(const tsr_listing *listing, uint64_t generation,
                                       const tsr_name *except, size_t except_count);
bool tsr_listing_has(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                     uint64_t generation);

/* What the directory of a generation holds. */
typedef struct tsr_contents {
    bool marked, used; /* COMMITTED is there; any file of ours is */
} tsr_contents;
/* One that cannot be read is taken for one that is used. */
tsr_contents tsr_disk_look_into(tsr_ctx *ctx, int gens, const tsr_name *name);

/* A file or directory for reading; missing or of another kind is TSR_STATE. */
TSR_RESULT tsr_disk_open(tsr_ctx *ctx, int dir, const char *name, int flags, int *out_fd);
/* A read error is tried once more, then it is damage. */
TSR_RESULT tsr_disk_read(tsr_ctx *ctx, int fd, const char *name, void *bytes, size_t size_bytes,
                         uint64_t offset);
/* Of a regular file; another kind is TSR_STATE. */
TSR_RESULT tsr_disk_file_size(tsr_ctx *ctx, int fd, const char *name, uint64_t *out_size_bytes);
TSR_RESULT tsr_disk_read_file(tsr_ctx *ctx, int dir, const char *name, size_t size_max,
                              tsr_arena *arena, uint8_t **out_bytes, size_t *out_size_bytes);

/* One fsync, never a second. */
TSR_RESULT tsr_disk_sync(tsr_ctx *ctx, int fd, const char *what);
/* The same for a name in `dir`: O_RDONLY, sync, close. */
TSR_RESULT tsr_disk_sync_name(tsr_ctx *ctx, int dir, const char *name, int flags);
/* All of a new file, open as `fd`: whole blocks past the page cache, through a second descriptor,
 * if the file system allows it. `bytes` begin at a multiple of TSR_DIRECT_ALIGN. */
TSR_RESULT tsr_disk_write(tsr_ctx *ctx, int dir, int fd, const char *name, const uint8_t *bytes,
                          uint64_t size_bytes);

/* A directory in `dir`, made where it is missing; the caller closes *out_fd. */
TSR_RESULT tsr_disk_make_folder(tsr_ctx *ctx, int dir, const char *name, int *out_fd);
/* A directory with its parents, where they are missing, each synced in its parent; one that cannot
 * be is removed again. */
TSR_RESULT tsr_disk_make_path(tsr_ctx *ctx, const char *path);
/* Syncs every directory above `path`, so that none that was made is lost with what is in it. One
 * that may not be opened was not made here. */
TSR_RESULT tsr_disk_sync_path(tsr_ctx *ctx, const char *path);
/* The name of a network file system, whose word on durability cannot be relied on; NULL: it is
 * none. */
TSR_RESULT tsr_disk_network_fs(tsr_ctx *ctx, int fd, const char **out_name);

#endif
