/* SPDX-License-Identifier: Apache-2.0
 *
 * What a sanitizer's report says of a death.
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

/* Fills in `where` and `ours`: a death is upstream's if no function of ours stands on the stack but
 * those that only call MLIR's parser or pass manager. */
void death_classify(const char *log, death *out_death);
/* Tells one stack from another without naming functions; 0 where the log has none. */
uint64_t death_key(const char *log);

#endif
