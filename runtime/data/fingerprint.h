/* SPDX-License-Identifier: Apache-2.0
 *
 * Fingerprints of data: a digest of each array, and one for all arrays. Large arrays are hashed on
 * a thread of the lowest priority while the caller works; digests of unchanged files are read from
 * a cache.
 *
 *     open -> is it known? -> begin (concurrent with other work) -> finish -> get
 */
#ifndef TSR_RUNTIME_DATA_FINGERPRINT_H
#define TSR_RUNTIME_DATA_FINGERPRINT_H

#include "runtime/base/hash/hash.h"
#include "runtime/base/tensor.h"

typedef struct tsr_fingerprint tsr_fingerprint;

typedef struct tsr_fingerprint_array {
    const char *name; /* name of the data input; borrowed until close, like the spec */
    const char *spec; /* see tsr_array_open */
    tsr_dtype dtype;  /* dtype of a flat file */
} tsr_fingerprint_array;

typedef struct tsr_fingerprint_options {
    /* A file of digests (fingerprint_cache.h), borrowed until close; NULL: no cache. A file that is
     * absent, damaged or not regular is ignored. */
    const char *cache_path;
    bool writes_cache;  /* adds the computed digests to the cache */
    bool ignores_cache; /* hashes everything */
} tsr_fingerprint_options;

enum { TSR_FINGERPRINT_ARRAYS_MAX = 256 };

/* Opens the arrays and looks them up in the cache; does not read their elements. */
TSR_RESULT tsr_fingerprint_open(tsr_ctx *ctx, const tsr_fingerprint_array *arrays, size_t count,
                                const tsr_fingerprint_options *options,
                                tsr_fingerprint **out_fingerprint);
void tsr_fingerprint_close(tsr_ctx *ctx, tsr_fingerprint *fingerprint); /* accepts NULL */
uint64_t tsr_fingerprint_get_bytes(const tsr_fingerprint *fingerprint); /* bytes that remain to be
                                                                           hashed */
/* Starts to hash concurrently with the caller; a few MiB are hashed by this call itself. Finish
 * reports errors. */
void tsr_fingerprint_begin(tsr_ctx *ctx, tsr_fingerprint *fingerprint);
/* Hashes the rest, on this thread too. TSR_IO, or TSR_DATA if a file changed in between. */
TSR_RESULT tsr_fingerprint_finish(tsr_ctx *ctx, tsr_fingerprint *fingerprint);
/* Adds the digests to the cache, once after finish; a failure is a warning. A file that changed
 * less than two seconds before it was opened is omitted, since it might change again with the same
 * time stamp. */
void tsr_fingerprint_write_cache(tsr_ctx *ctx, tsr_fingerprint *fingerprint);

/* The digest of an array, tsr_hash_tree of its elements. After finish. */
tsr_digest tsr_fingerprint_get_array(const tsr_fingerprint *fingerprint, size_t index);
/* Digest of one array, by the name of its input. */
typedef struct tsr_named_digest {
    const char *name; /* unique; borrowed */
    tsr_digest digest;
} tsr_named_digest;
/* SHA-256 over "tessera.data.1", a zero byte, the number of arrays and for each, in the order of
 * their names, the length of the name, the name and the digest (numbers as 8 bytes,
 * little-endian). */
tsr_digest tsr_fingerprint_combine(const tsr_named_digest *arrays, size_t count);
/* The same of the arrays of a fingerprint. After finish. */
tsr_digest tsr_fingerprint_get(const tsr_fingerprint *fingerprint);

#endif
