/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected diagnostics, written in comments of the source text in the form of mlir-opt:
 *
 *     // expected-error@+1 {{words of the message}}
 *
 * error, warning, remark or note; @+N and @-N are line offsets, @above and @below are offsets of 1;
 * without `@` it is the same line; @unknown is a diagnostic without a location. The message with
 * its number, "[TSR-0102] …", must contain the words. Each expectation matches one diagnostic, and
 * every diagnostic except notes must be expected.
 */
#ifndef TSR_TOOLS_OPT_EXPECT_H
#define TSR_TOOLS_OPT_EXPECT_H

#include "compiler/ir/mlir.h"

typedef struct tsr_expectation {
    const char *words;
    tsr_severity severity;
    uint32_t written; /* the line of the comment */
    uint32_t line;    /* 0 for @unknown */
    bool met;
} tsr_expectation;

typedef struct tsr_expectations {
    tsr_expectation *items; /* allocated in the arena */
    size_t count, capacity;
    const char *name; /* name of the text; borrowed */
    size_t wrong;     /* number of errors printed by tsr_expect_meet and tsr_expect_finish */
    tsr_arena arena;
} tsr_expectations;

/* Reads the comments of a text. Fails with TSR_USAGE if a comment is malformed. */
TSR_RESULT tsr_expect_read(tsr_ctx *ctx, const char *name, const char *text,
                           tsr_expectations *out_expectations);
/* Marks the expectations that a diagnostic and its notes match; prints an unexpected diagnostic. */
void tsr_expect_meet(tsr_expectations *expectations, const tsr_diag *diag);
/* Prints the expectations without a match, and frees; returns true if there were no errors. */
bool tsr_expect_finish(tsr_expectations *expectations);

#endif
