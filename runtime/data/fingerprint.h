/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints of data: a digest of each array, and one of all of them. Large arrays are hashed on
 * a thread of the lowest priority while the caller works, and digests of files that did not change
 * since are read from a cache.
 *
 *     open -> is it known? -> begin (beside other work) -> finish -> get
 */
#ifndef TSR_RUNTIME_DATA_FINGERPRINT_H
#define TSR_RUNTIME_DATA_FINGERPRINT_H

#include "runtime/base/hash.h"
#include "runtime/base/tensor.h"

typedef struct tsr_fingerprint tsr_fingerprint;

typedef struct tsr_fingerprint_array {
    const char *name; /* of the data input; these are borrowed until close */
    const char *spec; /* as for tsr_array_open */
    tsr_dtype dtype;  /* of a flat file */
} tsr_fingerprint_array;

typedef struct tsr_fingerprint_options {
    /* A file of digests (fingerprint_cache.h), borrowed until close; NULL: none. One that is
     * absent, damaged or not a regular file is ignored. */
    const char *cache_path;
    bool writes_cache;  /* adds to it what was hashed */
    bool ignores_cache; /* hashes everything */
} tsr_fingerprint_options;

enum { TSR_FINGERPRINT_ARRAYS_MAX = 256 };

/* Opens the arrays and looks them up in the cache; reads none of their elements. */
TSR_RESULT tsr_fingerprint_open(tsr_ctx *ctx, const tsr_fingerprint_array *arrays, size_t count,
                                const tsr_fingerprint_options *options,
                                tsr_fingerprint **out_fingerprint);
void tsr_fingerprint_close(tsr_ctx *ctx, tsr_fingerprint *fingerprint); /* accepts NULL */
uint64_t tsr_fingerprint_get_bytes(const tsr_fingerprint *fingerprint); /* left to be hashed */
/* Starts to hash beside the caller; a few MiB are hashed at once. Finish tells of errors. */
void tsr_fingerprint_begin(tsr_ctx *ctx, tsr_fingerprint *fingerprint);
/* Hashes the rest, on this thread too. TSR_IO, or TSR_DATA if a file changed meanwhile. */
TSR_RESULT tsr_fingerprint_finish(tsr_ctx *ctx, tsr_fingerprint *fingerprint);
/* After finish, once: adds the digests to the cache; failing is a warning. A file that had changed
 * less than two seconds before it was opened is left out, as it might change again without another
 * time stamp. */
void tsr_fingerprint_write_cache(tsr_ctx *ctx, tsr_fingerprint *fingerprint);

/* After finish. The digest of an array is tsr_hash_tree of its elements. */
tsr_digest tsr_fingerprint_get_array(const tsr_fingerprint *fingerprint, size_t index);
/* SHA-256 over "tessera.data.1", a zero byte, the number of arrays and for each, in the order of
 * their names, the length of the name, the name and the digest (numbers as 8 bytes,
 * little-endian). */
tsr_digest tsr_fingerprint_get(const tsr_fingerprint *fingerprint);

#endif
