/* SPDX-License-Identifier: Apache-2.0
 *
 * A parser's error is where the parser stopped: in the op's text, or at the next word after it. So
 * the op is the last name "dialect.op" of that line or of an earlier one.
 */
#include "compiler/diag/form.h"

#include "compiler/shim/shim.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* The text of an op is seldom longer, except for regions and constants. */
enum { LINES_MAX = 64 };

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

typedef struct name {
    const char *begin;
    size_t length;
} name;

/* Names with a sigil are values, symbols, types or attributes; a name before "=" is an attribute's.
 */
static bool is_op(const char *line, const name *n) {
    const char *end = n->begin + n->length;
    bool dotted = memchr(n->begin, '.', n->length) != NULL;
    if (!dotted || isdigit((unsigned char)n->begin[0])) return false;
    if (n->begin > line && strchr("#!@%^\"", n->begin[-1])) return false;
    while (*end == ' ') end++;
    return *end != '=';
}

/* The last op of the line that begins before `limit`. */
static name find_last(const char *line, const char *limit) {
    name last = {NULL, 0};
    for (const char *at = line; at <= limit && *at && *at != '\n';) {
        if (at[0] == '/' && at[1] == '/') break;
        if (*at == '"') {
            for (at++; *at && *at != '"' && *at != '\n'; at++)
                if (at[0] == '\\' && at[1]) at++;
            if (*at == '"') at++;
            continue;
        }
        name n = {at, 0};
        while (in_name(at[n.length])) n.length++;
        if (n.length && is_op(line, &n)) last = n;
        at += n.length ? n.length : 1;
    }
    return last;
}

const char *tsr_form_find(const char *text, size_t position) {
    const char *limit = text + position, *line = limit;
    for (int i = 0; i < LINES_MAX; i++) {
        while (line > text && line[-1] != '\n') line--;
        name found = find_last(line, limit);
        if (found.begin) return tsr_shim_op_form(mlirStringRefCreate(found.begin, found.length));
        if (line == text) return NULL;
        limit = --line;
    }
    return NULL;
}
