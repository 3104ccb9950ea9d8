/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of a target of the state store's fuzzing program.
 */
#ifndef TSR_TESTS_STORE_FUZZ_FUZZ_H
#define TSR_TESTS_STORE_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name;
    /* Writes valid seed inputs. */
    void (*seed)(const char *folder);
    /* Returns for any bytes, and requires the promises of the decoder. */
    void (*run)(const uint8_t *bytes, size_t size_bytes);
    /* True if the magic, the stated size and the hash in the bytes are right. Computed here, not by
     * the decoder. */
    bool (*passes)(const uint8_t *bytes, size_t size_bytes);
    /* Applies a mutation that knows the structure; returns the new size, at most size_max. */
    size_t (*change)(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *random);
    /* Corrects magic, sizes and all digests as far as the bytes allow; returns the new size. */
    size_t (*mend)(uint8_t *bytes, size_t size_bytes, size_t size_max);
} fuzz_target;

extern const fuzz_target fuzz_manifest, fuzz_token, fuzz_base, fuzz_message;

/* Ends the program if the decoder breaks the promise. */
void fuzz_require(bool holds, const char *promise);
void fuzz_put(const char *folder, unsigned number, const void *bytes, size_t size_bytes);
uint32_t fuzz_random(uint32_t *state);
uint64_t fuzz_take(const uint8_t *at, unsigned width); /* little-endian */
void fuzz_give(uint8_t *at, uint64_t value, unsigned width);
/* Computes the SHA-256 of all but the last 32 bytes: fuzz_seal() stores it in the last 32 bytes,
 * fuzz_is_sealed() compares it with them. */
void fuzz_seal(uint8_t *bytes, size_t size_bytes);
bool fuzz_is_sealed(const uint8_t *bytes, size_t size_bytes);
/* Returns a number that a decoder may not expect. */
uint64_t fuzz_number(uint32_t *random);

#endif
