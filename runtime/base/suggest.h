/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the name that was probably meant: the one that aliases.def has for it, else the one with
 * the smallest edit distance, if it is close enough. Two names that begin with the same "dialect."
 * are compared only by the rest. At most a third of the letters, and at most three letters, may be
 * wrong; a name of up to four letters must also have the right first letter.
 */
#ifndef TSR_BASE_SUGGEST_H
#define TSR_BASE_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

/* Usage: start with {.wrong = "tessera.matmull"}, offer every existing name, then read `best`. */
typedef struct tsr_suggestion {
    const char *wrong;
    const char *best; /* borrowed; NULL if no name is close enough */
    size_t distance;
    /* Private: the aliases of `wrong` are looked up once, with the first name offered. */
    bool has_aliases, searched;
} tsr_suggestion;

void tsr_suggest(tsr_suggestion *suggestion, const char *name);

/* The end of a message: "; did you mean 'NAME'?", or "" if no name is close enough. At most 127
 * bytes of the name are written. */
enum { TSR_SUGGESTION_TEXT_MAX = 160 };
const char *tsr_suggestion_text(const tsr_suggestion *suggestion,
                                char out_text[static TSR_SUGGESTION_TEXT_MAX]);

/* Number of insertions, deletions, substitutions and transpositions of adjacent letters that turn
 * `a` into `b` (optimal string alignment: Damerau, "A technique for computer detection and
 * correction of spelling errors", 1964), or `limit` if there are more. At most 127 bytes of each
 * name are compared. */
size_t tsr_edit_distance(const char *a, const char *b, size_t limit);

#endif
