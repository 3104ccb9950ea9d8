/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/suggest.h"

#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = 127 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

size_t tsr_edit_distance(const char *a, const char *b, size_t limit) {
    size_t n = strnlen(a, NAME_BYTES_MAX), m = strnlen(b, NAME_BYTES_MAX);
    size_t rows[3][NAME_BYTES_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    if ((n > m ? n - m : m - n) >= limit) return limit;
    for (size_t k = 0; k <= m; k++) last[k] = k;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t k = 1; k <= m; k++) {
            row[k] = least(least(last[k], row[k - 1]) + 1, last[k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = least(row[k], before[k - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return least(last[m], limit);
}

/* The number of bytes of the longest common prefix of both names that ends with a dot. */
static size_t shared_prefix(const char *a, const char *b) {
    size_t prefix = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '.') prefix = i + 1;
    return prefix;
}

static const struct {
    const char *wrong, *right;
} aliases[] = {
#define X(NAME, RIGHT) {NAME, RIGHT},
#include "runtime/base/aliases.def"
#undef X
};

static void search(tsr_suggestion *s) {
    for (size_t i = 0; i < TSR_COUNT(aliases) && !s->has_aliases; i++)
        s->has_aliases = strcmp(aliases[i].wrong, s->wrong) == 0;
    s->searched = true;
}

static bool is_alias(const char *wrong, const char *name) {
    for (size_t i = 0; i < TSR_COUNT(aliases); i++)
        if (strcmp(aliases[i].wrong, wrong) == 0 && strcmp(aliases[i].right, name) == 0)
            return true;
    return false;
}

/* A name that continues the wrong one, "softmax_safe" for "softmax", counts as one wrong letter. */
void tsr_suggest(tsr_suggestion *s, const char *name) {
    enum { DISTANCE_MAX = 3, SHORT = 4 };
    if (!s->searched) search(s);
    if (s->has_aliases && is_alias(s->wrong, name)) {
        s->best = name;
        s->distance = 0;
        return;
    }
    size_t prefix = shared_prefix(s->wrong, name);
    const char *wrong = s->wrong + prefix, *right = name + prefix;
    size_t length = strlen(wrong), limit = least(length / 3, DISTANCE_MAX) + 1;
    if (s->best) limit = s->distance;
    if (length <= SHORT && wrong[0] != right[0]) return;
    size_t distance = tsr_edit_distance(wrong, right, limit);
    if (length >= SHORT && strncmp(wrong, right, length) == 0) distance = least(distance, 1);
    if (distance >= limit) return;
    s->best = name;
    s->distance = distance;
}

const char *tsr_suggestion_text(const tsr_suggestion *s,
                                char out_text[static TSR_SUGGESTION_TEXT_MAX]) {
    out_text[0] = '\0';
    if (s->best)
        snprintf(out_text, TSR_SUGGESTION_TEXT_MAX, "; did you mean '%.*s'?", NAME_BYTES_MAX,
                 s->best);
    return out_text;
}
