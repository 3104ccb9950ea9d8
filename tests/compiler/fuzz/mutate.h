/* SPDX-License-Identifier: Apache-2.0
 *
 * Token-level mutations of a module's text: half of them keep most modules valid (one dim or one
 * element type changed everywhere, an op replaced by another of its form), the others rarely do.
 */
#ifndef TSR_TESTS_COMPILER_FUZZ_MUTATE_H
#define TSR_TESTS_COMPILER_FUZZ_MUTATE_H

#include "runtime/base/buffer.h"

typedef enum token_kind {
    TOKEN_WORD,   /* tensor, tessera.add, axis */
    TOKEN_SHAPE,  /* 4x?xf32 */
    TOKEN_INT,    /* also -1 */
    TOKEN_FLOAT,  /* 1.5e-3 */
    TOKEN_STRING, /* "w" */
    TOKEN_VALUE,  /* %x */
    TOKEN_NAME,   /* @f, #tessera.adamw, !t, ^next */
    TOKEN_MARK,   /* any other single byte */
    TOKEN_KINDS
} token_kind;

typedef struct token {
    const char *text;
    size_t size_bytes;
    token_kind kind;
} token;

typedef struct tokens {
    token *items; /* owned */
    size_t count, capacity;
} tokens;

/* Appends the tokens of a text; comments and blanks are left out. They point into the text. */
void tokens_read(tokens *list, const char *text, size_t size_bytes);
void tokens_finish(tokens *list);

/* The sources of all mutations: texts to start from and to splice, and their tokens by kind. */
typedef struct seeds {
    struct seed {
        const char *text;
        size_t size_bytes;
    } * items; /* owned, with their texts */
    size_t count, capacity;
    tokens of_kind[TOKEN_KINDS];
} seeds;

void seeds_add(seeds *all, const char *text, size_t size_bytes); /* copied */
void seeds_finish(seeds *all);

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t draw(uint64_t *state);
size_t draw_below(uint64_t *state, size_t count); /* returns 0 if count is 0 */

/* Appends a mutant of one of the seeds. */
void mutate(const seeds *all, uint64_t *state, tsr_buffer *out);
/* Changes a few bytes in place. */
void mutate_bytes(uint64_t *state, char *bytes, size_t size_bytes);

#endif
