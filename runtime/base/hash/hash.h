/* SPDX-License-Identifier: Apache-2.0
 *
 * The only hash function: SHA-256 (OpenSSL), flat, and as a leaf tree for chunks of bundles,
 * segments and tensors. The digest of a chunk (at most 4 MiB) is the SHA-256 of the concatenated
 * SHA-256 of its 16 KiB leaves, so that a GPU can compute it in parallel. The digest of a longer
 * range is the SHA-256 of its concatenated chunk digests; the digest of a range of at most 4 MiB is
 * the digest of its single chunk. An empty range has no leaf: its digest is the SHA-256 of the
 * empty string.
 */
#ifndef TSR_BASE_HASH_H
#define TSR_BASE_HASH_H

#include "runtime/base/result.h"
#include "tessera/digest.h"

enum {
    TSR_HASH_LEAF_BYTES = 16 * 1024,
    TSR_HASH_CHUNK_BYTES = 4 * 1024 * 1024,
};

/* Incremental flat SHA-256. init, update any number of times, finish. No allocation. */
typedef struct tsr_hasher {
    _Alignas(16) unsigned char state[128]; /* an SHA256_CTX */
} tsr_hasher;
void tsr_hasher_init(tsr_hasher *hasher);
void tsr_hasher_update(tsr_hasher *hasher, const void *bytes, size_t size_bytes);
tsr_digest tsr_hasher_finish(tsr_hasher *hasher);

/* Incremental leaf tree over a range of any length. No allocation. */
typedef struct tsr_tree_hasher {
    tsr_hasher leaf, chunk, range;
    uint64_t size_bytes;
    tsr_digest chunk_digest; /* digest of the last closed chunk */
} tsr_tree_hasher;
void tsr_tree_hasher_init(tsr_tree_hasher *hasher);
void tsr_tree_hasher_update(tsr_tree_hasher *hasher, const void *bytes, size_t size_bytes);
tsr_digest tsr_tree_hasher_finish(tsr_tree_hasher *hasher);

tsr_digest tsr_hash(const void *bytes, size_t size_bytes);      /* flat SHA-256 */
tsr_digest tsr_hash_tree(const void *bytes, size_t size_bytes); /* leaf tree of a range */

#endif
