/* SPDX-License-Identifier: Apache-2.0
 *
 * Classifies the death of a process from the sanitizer's report.
 */
#ifndef TSR_TESTS_COMPILER_FUZZ_DEATH_H
#define TSR_TESTS_COMPILER_FUZZ_DEATH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct death {
    char where[256]; /* innermost function */
    bool ours;
    uint64_t count, first;
} death;

/* Fills in `where` and `ours`. A death is upstream's if the stack contains no function of ours,
 * apart from those that only call MLIR's parser or pass manager. */
void death_classify(const char *log, death *out_death);
/* A key that identifies a stack without symbolizing it; 0 if the log has no stack. */
uint64_t death_key(const char *log);

#endif
