/* SPDX-License-Identifier: Apache-2.0
 *
 * The low-level SHA256_* functions are used on purpose: EVP allocates, and these use the same
 * assembly (SHA-NI where present). Full leaves of a tree are hashed in pairs if the CPU supports
 * it.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "runtime/base/hash/hash.h"

#include "runtime/base/hash/sha256_pair.h"
#include "runtime/base/result.h"

#include <openssl/sha.h>
#include <string.h>

static_assert(sizeof(SHA256_CTX) <= sizeof(tsr_hasher), "tsr_hasher holds an SHA256_CTX");

void tsr_hasher_init(tsr_hasher *hasher) { SHA256_Init((SHA256_CTX *)(void *)hasher->state); }

void tsr_hasher_update(tsr_hasher *hasher, const void *bytes, size_t size_bytes) {
    SHA256_Update((SHA256_CTX *)(void *)hasher->state, bytes, size_bytes);
}

tsr_digest tsr_hasher_finish(tsr_hasher *hasher) {
    tsr_digest digest;
    SHA256_Final(digest.bytes, (SHA256_CTX *)(void *)hasher->state);
    return digest;
}

void tsr_tree_hasher_init(tsr_tree_hasher *hasher) {
    *hasher = (tsr_tree_hasher){0};
    tsr_hasher_init(&hasher->leaf);
    tsr_hasher_init(&hasher->chunk);
    tsr_hasher_init(&hasher->range);
}

static void close_leaf(tsr_tree_hasher *hasher) {
    tsr_digest digest = tsr_hasher_finish(&hasher->leaf);
    tsr_hasher_update(&hasher->chunk, digest.bytes, sizeof digest.bytes);
    tsr_hasher_init(&hasher->leaf);
}

static void close_chunk(tsr_tree_hasher *hasher) {
    hasher->chunk_digest = tsr_hasher_finish(&hasher->chunk);
    tsr_hasher_update(&hasher->range, hasher->chunk_digest.bytes, TSR_DIGEST_BYTES);
    tsr_hasher_init(&hasher->chunk);
}

/* Hashes two leaves at once, from an offset that is a multiple of their joint size. A chunk has an
 * even number of leaves, so both belong to the same chunk. */
static size_t take_pair(tsr_tree_hasher *hasher, const unsigned char *at) {
    tsr_digest digests[2];
    static_assert(TSR_HASH_CHUNK_BYTES % (2 * TSR_HASH_LEAF_BYTES) == 0, "leaves come in pairs");
    tsr_sha256_pair(at, at + TSR_HASH_LEAF_BYTES, TSR_HASH_LEAF_BYTES, digests);
    tsr_hasher_update(&hasher->chunk, digests, sizeof digests);
    return (size_t)2 * TSR_HASH_LEAF_BYTES;
}

static size_t take_part(tsr_tree_hasher *hasher, const unsigned char *at, size_t size_bytes) {
    size_t capacity = TSR_HASH_LEAF_BYTES - (size_t)(hasher->size_bytes % TSR_HASH_LEAF_BYTES);
    size_t part = size_bytes < capacity ? size_bytes : capacity;
    tsr_hasher_update(&hasher->leaf, at, part);
    if (part == capacity) close_leaf(hasher);
    return part;
}

void tsr_tree_hasher_update(tsr_tree_hasher *hasher, const void *bytes, size_t size_bytes) {
    const size_t pair_bytes = (size_t)2 * TSR_HASH_LEAF_BYTES;
    const unsigned char *at = bytes;
    bool paired = size_bytes >= pair_bytes && tsr_sha256_pair_available();
    while (size_bytes) {
        bool pair = paired && size_bytes >= pair_bytes && hasher->size_bytes % pair_bytes == 0;
        size_t part = pair ? take_pair(hasher, at) : take_part(hasher, at, size_bytes);
        hasher->size_bytes += part;
        at += part;
        size_bytes -= part;
        if (hasher->size_bytes % TSR_HASH_CHUNK_BYTES == 0) close_chunk(hasher);
    }
}

tsr_digest tsr_tree_hasher_finish(tsr_tree_hasher *hasher) {
    if (hasher->size_bytes == 0) return tsr_hash(NULL, 0);
    if (hasher->size_bytes % TSR_HASH_LEAF_BYTES) close_leaf(hasher);
    if (hasher->size_bytes % TSR_HASH_CHUNK_BYTES) close_chunk(hasher);
    if (hasher->size_bytes <= TSR_HASH_CHUNK_BYTES) return hasher->chunk_digest;
    return tsr_hasher_finish(&hasher->range);
}

tsr_digest tsr_hash(const void *bytes, size_t size_bytes) {
    tsr_hasher hasher;
    tsr_hasher_init(&hasher);
    if (size_bytes) tsr_hasher_update(&hasher, bytes, size_bytes);
    return tsr_hasher_finish(&hasher);
}

tsr_digest tsr_hash_tree(const void *bytes, size_t size_bytes) {
    tsr_tree_hasher hasher;
    tsr_tree_hasher_init(&hasher);
    tsr_tree_hasher_update(&hasher, bytes, size_bytes);
    return tsr_tree_hasher_finish(&hasher);
}

void tsr_digest_format(const tsr_digest *digest, char out_hex[TSR_DIGEST_HEX + 1]) {
    for (size_t i = 0; i < TSR_DIGEST_BYTES; i++) {
        out_hex[2 * i] = "0123456789abcdef"[digest->bytes[i] >> 4];
        out_hex[2 * i + 1] = "0123456789abcdef"[digest->bytes[i] & 15];
    }
    out_hex[TSR_DIGEST_HEX] = 0;
}

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return -1;
}

bool tsr_digest_parse(const char *hex, size_t length, tsr_digest *out_digest) {
    tsr_digest digest;
    if (length != TSR_DIGEST_HEX) return false;
    for (size_t i = 0; i < TSR_DIGEST_BYTES; i++) {
        int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        digest.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *out_digest = digest;
    return true;
}

bool tsr_digest_equal(const tsr_digest *a, const tsr_digest *b) {
    return memcmp(a->bytes, b->bytes, TSR_DIGEST_BYTES) == 0;
}
