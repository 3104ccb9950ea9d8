/* SPDX-License-Identifier: Apache-2.0
 *
 * What a target of the store's fuzzing program is.
 */
#ifndef TSR_TESTS_STORE_FUZZ_FUZZ_H
#define TSR_TESTS_STORE_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name;
    /* Writes valid inputs to begin with. */
    void (*seed)(const char *folder);
    /* Whatever the bytes, it returns; what is promised is required. */
    void (*run)(const uint8_t *bytes, size_t size_bytes);
    /* Do magic, stated size and own hash hold? Computed here, not asked of the decoder. */
    bool (*passes)(const uint8_t *bytes, size_t size_bytes);
    /* A change that knows the structure; returns the new size, at most size_max. */
    size_t (*change)(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *random);
    /* Makes magic, sizes and all digests right, as far as the bytes allow; returns the new size. */
    size_t (*mend)(uint8_t *bytes, size_t size_bytes, size_t size_max);
} fuzz_target;

extern const fuzz_target fuzz_manifest, fuzz_token, fuzz_base, fuzz_message;

/* Ends the program: what was promised does not hold. */
void fuzz_require(bool holds, const char *promise);
void fuzz_put(const char *folder, unsigned number, const void *bytes, size_t size_bytes);
uint32_t fuzz_random(uint32_t *state);
uint64_t fuzz_take(const uint8_t *at, unsigned width); /* little-endian */
void fuzz_give(uint8_t *at, uint64_t value, unsigned width);
/* SHA-256 of the bytes before the last 32, into or beside these. */
void fuzz_seal(uint8_t *bytes, size_t size_bytes);
bool fuzz_is_sealed(const uint8_t *bytes, size_t size_bytes);
/* A number as a decoder may not expect it. */
uint64_t fuzz_number(uint32_t *random);

#endif
