/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of digests of data files. A file counts as unchanged while its size, inode and times of
 * change are equal. The cache is text: a first line with the version; a line for each array with
 * its digest, size, mtime and ctime in nanoseconds, inode and the SHA-256 of its member; and the
 * SHA-256 of these lines. Whatever is not like that is ignored and replaced.
 */
#ifndef TSR_RUNTIME_DATA_FINGERPRINT_CACHE_H
#define TSR_RUNTIME_DATA_FINGERPRINT_CACHE_H

#include "runtime/base/hash.h"
#include "runtime/base/result.h"

#include <sys/stat.h>

/* What tells two states of a data file apart. */
typedef struct tsr_file_state {
    uint64_t size_bytes, inode;
    int64_t mtime_ns, ctime_ns;
    tsr_digest member; /* of the part of a spec behind its path */
} tsr_file_state;
tsr_file_state tsr_file_state_of(const struct stat *about, const char *member);
bool tsr_file_state_equal(const tsr_file_state *a, const tsr_file_state *b);

typedef struct tsr_fingerprint_known {
    tsr_file_state state;
    tsr_digest digest;
} tsr_fingerprint_known;

/* False where the cache does not know it, or cannot be read. */
bool tsr_fingerprint_cache_find(tsr_ctx *ctx, const char *path, const tsr_file_state *state,
                                tsr_digest *out_digest);
/* Writes these and what the cache knows of other files, the newest 256, whole or not at all. */
TSR_RESULT tsr_fingerprint_cache_add(tsr_ctx *ctx, const char *path,
                                     const tsr_fingerprint_known *known, size_t count);

#endif
