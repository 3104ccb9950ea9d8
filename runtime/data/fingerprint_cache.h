/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache of digests of data files. A file counts as unchanged while its size, inode and time
 * stamps are equal. The cache is text: a first line with the version; a line for each array with
 * its digest, size, mtime and ctime in nanoseconds, inode and the SHA-256 of its member; and the
 * SHA-256 of the lines before. A file with any other content is ignored and replaced.
 */
#ifndef TSR_RUNTIME_DATA_FINGERPRINT_CACHE_H
#define TSR_RUNTIME_DATA_FINGERPRINT_CACHE_H

#include "runtime/base/hash/hash.h"
#include "runtime/base/result.h"

#include <sys/stat.h>

/* Distinguishes two states of a data file. */
typedef struct tsr_file_state {
    uint64_t size_bytes, inode;
    int64_t mtime_ns, ctime_ns;
    tsr_digest member; /* SHA-256 of the part of a spec after its path */
} tsr_file_state;
tsr_file_state tsr_file_state_of(const struct stat *about, const char *member);
bool tsr_file_state_equal(const tsr_file_state *a, const tsr_file_state *b);

typedef struct tsr_fingerprint_known {
    tsr_file_state state;
    tsr_digest digest;
} tsr_fingerprint_known;

/* Returns false if the file is not in the cache, or the cache cannot be read. */
bool tsr_fingerprint_cache_find(tsr_ctx *ctx, const char *path, const tsr_file_state *state,
                                tsr_digest *out_digest);
/* Writes these entries and the cache's entries for other files, at most the newest 256, atomically.
 */
TSR_RESULT tsr_fingerprint_cache_add(tsr_ctx *ctx, const char *path,
                                     const tsr_fingerprint_known *known, size_t count);

#endif
