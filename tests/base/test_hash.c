/* SPDX-License-Identifier: Apache-2.0
 *
 * The references are OpenSSL's EVP interface and a direct implementation of the definition of the
 * tree.
 */
#include "runtime/base/array.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/hash/sha256_pair.h"
#include "tests/base/random.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static tsr_digest evp(const void *bytes, size_t size) {
    tsr_digest digest;
    unsigned length = 0;
    cr_assert_eq(EVP_Digest(bytes, size, digest.bytes, &length, EVP_sha256(), NULL), 1);
    cr_assert_eq(length, TSR_DIGEST_BYTES);
    return digest;
}

/* Returns the digest of the concatenated digests of parts of `part` bytes. */
static tsr_digest evp_parts(const unsigned char *bytes, size_t size, size_t part,
                            tsr_digest (*digest)(const void *, size_t)) {
    size_t count = (size + part - 1) / part;
    tsr_digest *parts = calloc(count + 1, sizeof *parts);
    for (size_t i = 0; i < count; i++)
        parts[i] = digest(bytes + i * part, i + 1 < count ? part : size - i * part);
    tsr_digest all = evp(parts, count * sizeof *parts);
    free(parts);
    return all;
}
static tsr_digest evp_chunk(const void *bytes, size_t size) {
    return evp_parts(bytes, size, TSR_HASH_LEAF_BYTES, evp);
}
static tsr_digest evp_tree(const unsigned char *bytes, size_t size) {
    return size > TSR_HASH_CHUNK_BYTES ? evp_parts(bytes, size, TSR_HASH_CHUNK_BYTES, evp_chunk)
                                       : evp_chunk(bytes, size);
}

static unsigned char *random_bytes(size_t size, uint64_t seed) {
    unsigned char *bytes = malloc(size + 8);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = random_u64(&seed);
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

Test(hash, flat_equals_evp) {
    unsigned char *bytes = random_bytes(5000, 7);
    for (size_t size = 0; size < 300; size++) {
        tsr_digest got = tsr_hash(bytes, size), want = evp(bytes, size);
        cr_assert(tsr_digest_equal(&got, &want), "%zu bytes", size);
    }
    tsr_hasher hasher;
    uint64_t seed = 2;
    size_t at = 0;
    tsr_hasher_init(&hasher);
    for (size_t part; at < 5000; at += part) {
        part = random_below(&seed, 200);
        if (part > 5000 - at) part = 5000 - at;
        tsr_hasher_update(&hasher, bytes + at, part);
    }
    tsr_digest got = tsr_hasher_finish(&hasher), want = evp(bytes, 5000);
    cr_assert(tsr_digest_equal(&got, &want));
    free(bytes);
}

Test(hash, known_answer) { /* FIPS 180-2, appendix B.1 */
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_hash("abc", 3);
    tsr_digest_format(&digest, hex);
    cr_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

Test(hash, tree_equals_its_definition) {
    static const size_t sizes[] = {1,
                                   TSR_HASH_LEAF_BYTES - 1,
                                   TSR_HASH_LEAF_BYTES,
                                   TSR_HASH_LEAF_BYTES + 1,
                                   TSR_HASH_CHUNK_BYTES - 1,
                                   TSR_HASH_CHUNK_BYTES,
                                   TSR_HASH_CHUNK_BYTES + 1,
                                   2 * TSR_HASH_CHUNK_BYTES,
                                   2 * TSR_HASH_CHUNK_BYTES + 3 * TSR_HASH_LEAF_BYTES + 5};
    unsigned char *bytes = random_bytes(3 * TSR_HASH_CHUNK_BYTES, 3);
    for (size_t i = 0; i < TSR_COUNT(sizes); i++) {
        tsr_digest got = tsr_hash_tree(bytes, sizes[i]), want = evp_tree(bytes, sizes[i]);
        cr_assert(tsr_digest_equal(&got, &want), "%zu bytes", sizes[i]);
    }
    tsr_digest empty = tsr_hash_tree(NULL, 0), nothing = evp("", 0);
    cr_assert(tsr_digest_equal(&empty, &nothing));
    free(bytes);
}

Test(hash, tree_does_not_depend_on_the_pieces) {
    size_t size = TSR_HASH_CHUNK_BYTES + 100000;
    unsigned char *bytes = random_bytes(size, 4);
    tsr_digest want = evp_tree(bytes, size);
    for (uint64_t seed = 1; seed < 6; seed++) {
        uint64_t state = seed;
        tsr_tree_hasher hasher;
        tsr_tree_hasher_init(&hasher);
        for (size_t at = 0, part; at < size; at += part) {
            part = random_below(&state, seed == 1 ? 50 : 60000);
            if (part > size - at) part = size - at;
            tsr_tree_hasher_update(&hasher, bytes + at, part);
        }
        tsr_digest got = tsr_tree_hasher_finish(&hasher);
        cr_assert(tsr_digest_equal(&got, &want), "seed %" PRIu64, seed);
    }
    free(bytes);
}

Test(hash, a_pair_is_two_hashes) {
    unsigned char *bytes = random_bytes(64 * 1024, 9);
    if (!tsr_sha256_pair_available()) cr_skip("this CPU has no SHA extensions");
    for (size_t size = 0; size <= TSR_HASH_LEAF_BYTES; size += size < 1024 ? 64 : 1024) {
        const unsigned char *second = bytes + size / 3 + 1; /* not aligned, overlapping */
        tsr_digest got[2], first = evp(bytes, size), other = evp(second, size);
        tsr_sha256_pair(bytes, second, size, got);
        cr_assert(tsr_digest_equal(&got[0], &first), "first of %zu bytes", size);
        cr_assert(tsr_digest_equal(&got[1], &other), "second of %zu bytes", size);
    }
    free(bytes);
}

Test(hash, hexadecimal_both_ways) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_hash("x", 1), again = {{0}}, saved;
    tsr_digest_format(&digest, hex);
    cr_assert(tsr_digest_parse(hex, TSR_DIGEST_HEX, &again));
    cr_assert(tsr_digest_equal(&digest, &again));
    saved = again;
    cr_assert_not(tsr_digest_parse(hex, TSR_DIGEST_HEX - 1, &again));
    cr_assert_not(tsr_digest_parse(hex, TSR_DIGEST_HEX + 1, &again));
    for (size_t i = 0; i < TSR_DIGEST_HEX; i++) {
        for (const char *bad = "/:`gGAF \xff"; *bad; bad++) {
            char right = hex[i];
            hex[i] = *bad;
            cr_assert_not(tsr_digest_parse(hex, TSR_DIGEST_HEX, &again), "'%c' at %zu", *bad, i);
            hex[i] = right;
        }
    }
    cr_assert(tsr_digest_equal(&saved, &again), "written only on success");
    digest.bytes[31] ^= 1;
    cr_assert_not(tsr_digest_equal(&digest, &again));
}
