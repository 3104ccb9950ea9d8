/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of a fuzz target, and functions that targets share. A program is linked from one
 * file of targets/ and either fuzz.c (libFuzzer) or replay.c (a main of its own).
 */
#ifndef TSR_TESTS_FUZZ_FUZZ_H
#define TSR_TESTS_FUZZ_FUZZ_H

#include "runtime/base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name;
    /* Writes valid seed inputs, one per file. */
    void (*seed)(const char *folder);
    /* Returns for any bytes: true if they passed the header checks, which come before any check of
     * their content (checksums, digests, magic, JSON grammar). */
    bool (*run)(const uint8_t *bytes, size_t size_bytes);
    /* Mutates an input in place, knowing its structure, and corrects its checksums; returns the new
     * size, at most size_max. */
    size_t (*mutate)(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed);
} fuzz_target;
extern const fuzz_target fuzz_the_target; /* target of this program */

/* Ends the program with a message if the promise is broken. */
void fuzz_require(bool holds, const char *promise);
void fuzz_put(const char *folder, unsigned number, const void *bytes, size_t size_bytes);

/* Makes the valid input of a seed and returns its size; *out_bytes is in the arena. */
typedef size_t fuzz_encode(uint32_t seed, tsr_arena *arena, const void **out_bytes);
/* Writes the valid inputs of seeds 0 … count - 1. */
void fuzz_put_valid(const char *folder, unsigned count, fuzz_encode *encode);

/* Faults that replay.c injects. A target applies the first one to its reads. */
extern long fuzz_fail_read; /* the n-th read fails, counted from 0; -1: none */
extern bool fuzz_faults;    /* a fault is injected: TSR_IO and TSR_MEMORY are correct results */
extern bool fuzz_armed;     /* allocations may fail now; false while a target makes its subject */

uint32_t fuzz_random(uint32_t *state); /* never 0 */
static inline bool fuzz_one_in(uint32_t *state, uint32_t n) { return fuzz_random(state) % n == 0; }

/* libFuzzer's own mutation; the result has 0 … size_max bytes. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size_bytes, size_t size_max);
/* Once in 16 times, replaces the input by the valid input of a random seed, if it fits; returns the
 * size. */
size_t fuzz_another_valid(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *state,
                          fuzz_encode *encode);
/* Changes one little-endian integer at or after `first`: to a small value, to a limit, or by
 * one. */
void fuzz_change_integer(uint8_t *bytes, size_t size_bytes, size_t first, uint32_t *state);
/* Changes values, members and nesting of a JSON text such that most results are JSON, too. */
size_t fuzz_mutate_json(uint8_t *text, size_t size_bytes, size_t size_max, uint32_t *state);

#endif
