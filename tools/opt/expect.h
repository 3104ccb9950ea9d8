/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics that a text expects of itself, in comments of the form mlir-opt takes:
 *
 *     // expected-error@+1 {{words of the message}}
 *
 * error, warning, remark or note; @+N and @-N are lines from here, @above and @below 1; without a
 * place it is this line; @unknown is no place. The message with its number, "[TSR-0102] …", must
 * hold the words. Each expectation stands for one diagnostic, and every diagnostic but notes must
 * be expected.
 */
#ifndef TSR_TOOLS_OPT_EXPECT_H
#define TSR_TOOLS_OPT_EXPECT_H

#include "compiler/mlir.h"

typedef struct tsr_expectation {
    const char *words;
    tsr_severity severity;
    uint32_t written; /* the line the comment stands on */
    uint32_t line;    /* 0 for @unknown */
    bool met;
} tsr_expectation;

typedef struct tsr_expectations {
    tsr_expectation *items; /* in the arena */
    size_t count;
    const char *name; /* of the text; borrowed */
    size_t wrong;     /* what was printed by tsr_expect_meet and tsr_expect_finish */
    tsr_arena arena;
} tsr_expectations;

/* Reads the comments of a text. TSR_USAGE for one that cannot be read. */
TSR_RESULT tsr_expect_read(tsr_ctx *ctx, const char *name, const char *text,
                           tsr_expectations *out_expectations);
/* Marks what a diagnostic and its notes meet; prints one that is not expected. */
void tsr_expect_meet(tsr_expectations *expectations, const tsr_diag *diag);
/* Prints what was not met, and frees; whether all was well. */
bool tsr_expect_finish(tsr_expectations *expectations);

#endif
