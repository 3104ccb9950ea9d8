/* SPDX-License-Identifier: Apache-2.0
 *
 * Requires that a program that breaks a rule is refused before it is written and after it is read.
 */
#ifndef TSR_TESTS_MANIFESTS_REFUSED_H
#define TSR_TESTS_MANIFESTS_REFUSED_H

#include "manifests/program.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Decodes a copy of exactly this size, so that a sanitizer detects reads past its end. */
static inline tsr_result decode_copy(tsr_ctx *ctx, const void *bytes, size_t size,
                                     const tsr_config *of, tsr_arena *arena, tsr_program *program) {
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    tsr_result result = tsr_program_decode(ctx, copy, size, of, arena, program);
    free(copy);
    return result;
}

/* `change` describes the change to the program. `message` is the whole expected message, or, if it
 * does not begin with "program: ", a part. */
static inline void check_program_refused(const tsr_program *program, const tsr_config *of,
                                         const char *change, const char *message) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_program again;
    void *bytes;
    size_t size;
    tsr_code codes[] = {TSR_INTERNAL, TSR_CORRUPT};
    for (int read = 0; read < 2; read++) {
        tsr_result result = {TSR_OK};
        if (read) {
            cr_assert_eq(tsr_program_encode(&ctx, program, &arena, &bytes, &size).code, TSR_OK);
            result = decode_copy(&ctx, bytes, size, of, &arena, &again);
        } else {
            result = tsr_program_verify(&ctx, program, of, TSR_INTERNAL);
        }
        const char *text = ctx.error.text;
        bool whole = strncmp(message, "program: ", strlen("program: ")) == 0;
        cr_expect_eq(result.code, codes[read], "%s", change);
        cr_expect(whole ? strcmp(text, message) == 0 : strstr(text, message) != NULL, "%s: %s",
                  change, text);
    }
    tsr_arena_finish(&arena);
}

/* Refuses a file with `config` and one example, whose commands are called `c` in the change. */
#define EXAMPLE_REFUSED(change, message)                                                           \
    do {                                                                                           \
        example e;                                                                                 \
        make_example(&e);                                                                          \
        tsr_program_command *c = e.commands;                                                       \
        (void)c;                                                                                   \
        change;                                                                                    \
        check_program_refused(&e.program, &config, #change, message);                              \
    } while (0)

#endif
