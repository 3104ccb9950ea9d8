/* SPDX-License-Identifier: Apache-2.0
 *
 * The name that was probably meant: the one with the least edit distance, if it is near enough.
 */
#ifndef TSR_COMPILER_SUGGEST_H
#define TSR_COMPILER_SUGGEST_H

#include <stddef.h>

/* Begin with {.wrong = "tessera.matmull"}, offer every name there is, then read `best`. */
typedef struct tsr_suggestion {
    const char *wrong;
    const char *best; /* borrowed; NULL where no name is near */
    size_t distance;
} tsr_suggestion;

void tsr_suggest(tsr_suggestion *suggestion, const char *name);

/* Insertions, deletions, substitutions and exchanges of neighbours that make `b` of `a` (optimal
 * string alignment: Damerau, "A technique for computer detection and correction of spelling
 * errors", 1964), or `limit` if there are more. At most 127 bytes of each are compared. */
size_t tsr_edit_distance(const char *a, const char *b, size_t limit);

#endif
