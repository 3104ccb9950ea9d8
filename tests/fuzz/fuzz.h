/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fuzz target is, and what targets share. A program is linked from one file of targets/ and
 * either fuzz.c (libFuzzer) or replay.c (a main of its own).
 */
#ifndef TSR_TESTS_FUZZ_FUZZ_H
#define TSR_TESTS_FUZZ_FUZZ_H

#include "runtime/base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name;
    /* Writes valid inputs to begin with, one a file. */
    void (*seed)(const char *folder);
    /* Whatever the bytes, it returns: true when they passed the header checks, which is what
     * stands before the first look at their content (checksums, digests, magic, JSON grammar). */
    bool (*run)(const uint8_t *bytes, size_t size_bytes);
    /* Changes an input in place, knowing its structure, and makes its checksums right again;
     * returns the new size, at most size_max. */
    size_t (*mutate)(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed);
} fuzz_target;
extern const fuzz_target fuzz_the_target; /* of this program */

/* Ends the program with a message: what was promised does not hold. */
void fuzz_require(bool holds, const char *promise);
void fuzz_put(const char *folder, unsigned number, const void *bytes, size_t size_bytes);

/* Makes the valid input of a seed: its size; *out_bytes is in the arena. */
typedef size_t fuzz_encode(uint32_t seed, tsr_arena *arena, const void **out_bytes);
/* Writes those of seeds 0 … count - 1. */
void fuzz_put_valid(const char *folder, unsigned count, fuzz_encode *encode);

/* Faults that replay.c injects; a target gives the first one to its reads. */
extern long fuzz_fail_read; /* the n-th read fails, from 0; -1: none */
extern bool fuzz_faults;    /* some fault is injected: TSR_IO and TSR_MEMORY are right answers */
extern bool fuzz_armed;     /* allocations may fail now; cleared while a target makes its subject */

uint32_t fuzz_random(uint32_t *state); /* never 0 */
static inline bool fuzz_one_in(uint32_t *state, uint32_t n) { return fuzz_random(state) % n == 0; }

/* libFuzzer's own mutations; 0 … size_max bytes. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size_bytes, size_t size_max);
/* Instead of the input, once in 16 times, that of a random seed, if it fits; the size. */
size_t fuzz_another_valid(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *state,
                          fuzz_encode *encode);
/* One little-endian integer from `first` on: small, at a limit, or off by one. */
void fuzz_change_integer(uint8_t *bytes, size_t size_bytes, size_t first, uint32_t *state);
/* Changes values, members and nesting of a JSON text, so that most results are JSON too. */
size_t fuzz_mutate_json(uint8_t *text, size_t size_bytes, size_t size_max, uint32_t *state);

#endif
