/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in a store's directory: names, listings, durable publication, reading with damage told
 * apart from other failures. Everything goes through the context's io table. TSR_STATE means
 * "missing or damaged", TSR_IO "the operating system refused, nothing is known".
 */
#ifndef TSR_RUNTIME_STORE_DISK_H
#define TSR_RUNTIME_STORE_DISK_H

#include "runtime/base/io.h"
#include "runtime/store/format.h"

typedef enum tsr_name_kind {
    TSR_NAME_OTHER,
    TSR_NAME_EPOCH,      /* EPOCH.<epoch> */
    TSR_NAME_BASE,       /* BASE.<epoch> */
    TSR_NAME_MANIFEST,   /* MANIFEST.<generation>.<epoch> */
    TSR_NAME_TEMP,       /* TEMP.<epoch>.<pid>.<nonce> */
    TSR_NAME_GENERATION, /* <epoch>-<generation>, in gen/ */
    TSR_NAME_SEGMENT,    /* segment.<index>, in a generation's directory; index in `generation` */
} tsr_name_kind;

typedef struct tsr_name {
    tsr_name_kind kind;
    uint64_t epoch, generation, pid, nonce; /* those its kind has */
} tsr_name;

enum {
    TSR_NAME_TEXT_MAX = 96,
    TSR_DIRECT_ALIGN = 4096, /* of memory, offset and size of what goes past the page cache */
};
const char *tsr_name_format(const tsr_name *name, char out_text[static TSR_NAME_TEXT_MAX]);
tsr_name tsr_name_parse(const char *text);

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

/* One fsync, never a second. */
TSR_RESULT tsr_disk_sync(tsr_ctx *ctx, int fd, const char *what);
/* The same for a name in `dir`: O_RDONLY, sync, close. */
TSR_RESULT tsr_disk_sync_name(tsr_ctx *ctx, int dir, const char *name, int flags);

/* A file or directory for reading; missing or of another kind is TSR_STATE. */
TSR_RESULT tsr_disk_open(tsr_ctx *ctx, int dir, const char *name, int flags, int *out_fd);
/* A read error is tried once more, then it is damage. */
TSR_RESULT tsr_disk_read(tsr_ctx *ctx, int fd, const char *name, void *bytes, size_t size_bytes,
                         uint64_t offset);
/* Of a regular file; another kind is TSR_STATE. */
TSR_RESULT tsr_disk_file_size(tsr_ctx *ctx, int fd, const char *name, uint64_t *out_size_bytes);
TSR_RESULT tsr_disk_read_file(tsr_ctx *ctx, int dir, const char *name, size_t size_max,
                              tsr_arena *arena, uint8_t **out_bytes, size_t *out_size_bytes);

/* Durable and whole under `name`, never replacing: temporary file, fsync, link, fsync of `root`.
 * out_unknown (may not be NULL) is set when the name may or may not be there for good. TSR_LOCKED:
 * the name exists with other bytes. */
TSR_RESULT tsr_disk_publish(tsr_ctx *ctx, int root, uint64_t epoch, const tsr_name *name,
                            const void *bytes, size_t size_bytes, bool *out_unknown);

/* Removes a generation's directory with its segments. `scratch` has no arena. */
TSR_RESULT tsr_disk_remove_generation(tsr_ctx *ctx, int gens, const tsr_name *name,
                                      tsr_listing *scratch);

#endif
