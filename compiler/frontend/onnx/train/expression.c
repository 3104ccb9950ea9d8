/* SPDX-License-Identifier: Apache-2.0
 *
 * A parser by recursive descent, one function for each rule of the grammar in the header.
 */
#include "compiler/frontend/onnx/train/expression.h"

#include "compiler/ir/mlir.h"
#include "compiler/process/guard.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    const tsr_expression_source *source;
    tsr_arena *arena;
    const char *at;
    size_t depth;
} parser;

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
static const char name_bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.";

/* ---- errors ---------------------------------------------------------------------------------- */

MlirLocation tsr_expression_location(const tsr_expression_source *source, size_t at) {
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = source->text[i] == '\n' ? 1 : column + 1;
        line += source->text[i] == '\n';
    }
    return mlirLocationFileLineColGet(source->context, tsr_ref(source->flag), line, column);
}

bool tsr_expression_fail(const tsr_expression_source *source, size_t at, const char *format, ...) {
    char text[768];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tsr_diag_error(tsr_expression_location(source, at), TSR_DIAG_TRAIN_EXPRESSION, "%s", text);
    return false;
}

static size_t position(const parser *p) { return (size_t)(p->at - p->source->text); }

/* "'x'", or the end. */
static tsr_expression *refuse(const parser *p, const char *expected) {
    char found[16] = "the end";
    size_t length = 1; /* of the character, which can have several bytes */
    while (*p->at && ((unsigned char)p->at[length] & 0xc0) == 0x80 && length < 4) length++;
    if (*p->at) snprintf(found, sizeof found, "'%.*s'", (int)length, p->at);
    tsr_expression_fail(p->source, position(p), "expected %s, got %s", expected, found);
    return NULL;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static char peek(parser *p) {
    p->at += strspn(p->at, " \t\r\n");
    return *p->at;
}

static bool take(parser *p, char wanted) {
    if (peek(p) != wanted) return false;
    p->at++;
    return true;
}

static tsr_expression *make(parser *p, tsr_expression_kind kind, size_t at) {
    tsr_expression *e = TSR_NEW(p->arena, tsr_expression, 1);
    TSR_NEED(e);
    e->kind = kind;
    e->at = at;
    return e;
}

static tsr_expression *make_name(parser *p, const char *begin, size_t length, size_t at) {
    tsr_expression *e = make(p, TSR_EXPRESSION_NAME, at);
    e->name = tsr_arena_strndup(p->arena, begin, length);
    TSR_NEED(e->name);
    return e;
}

static void add(tsr_expression *list, tsr_expression *item) {
    tsr_expression **last = &list->first;
    while (*last) last = &(*last)->next;
    *last = item;
    list->count++;
    if (list->depth <= item->depth) list->depth = item->depth + 1;
}

/* Later steps walk the tree by calls. */
static tsr_expression *check_depth(const parser *p, tsr_expression *e) {
    if (e->depth <= TSR_EXPRESSION_TREE_MAX) return e;
    tsr_expression_fail(p->source, e->at, "more than %d operations are nested",
                        TSR_EXPRESSION_TREE_MAX);
    return NULL;
}

static tsr_expression *read_number(parser *p) {
    char *end = NULL, *integer_end = NULL;
    tsr_expression *e = make(p, TSR_EXPRESSION_NUMBER, position(p));
    size_t length = strspn(p->at, "0123456789.eE+-"); /* no "0x", "inf" or "nan" */
    e->number = strtod(p->at, &end);
    errno = 0;
    e->integer = strtoll(p->at, &integer_end, 10);
    e->is_integer = integer_end == end && errno == 0;
    if (end == p->at || (size_t)(end - p->at) > length || !isfinite(e->number))
        return refuse(p, "a finite decimal number");
    p->at = end;
    return e;
}

static tsr_expression *read_text(parser *p) {
    size_t at = position(p);
    const char *begin = p->at + 1, *end = strchr(begin, '"');
    if (!end) {
        tsr_expression_fail(p->source, at, "the text has no closing '\"'");
        return NULL;
    }
    p->at = end + 1;
    tsr_expression *e = make_name(p, begin, (size_t)(end - begin), at);
    e->is_text = true;
    return e;
}

/* ---- the grammar ----------------------------------------------------------------------------- */

static tsr_expression *read_sum(parser *p);

/* Reads "NAME =" of an argument. Returns NULL and reads nothing if the argument has no name. */
static const char *read_key(parser *p, size_t *out_at) {
    bool is_name = peek(p) && strchr(letters, *p->at);
    const char *begin = p->at;
    size_t length = is_name ? strspn(begin, name_bytes) : 0;
    *out_at = position(p);
    p->at += length;
    if (length && take(p, '=')) {
        const char *key = tsr_arena_strndup(p->arena, begin, length);
        TSR_NEED(key);
        return key;
    }
    p->at = begin;
    return NULL;
}

/* Reads items up to the closing bracket, which is read, too. */
static tsr_expression *read_items(parser *p, tsr_expression *list, char closing) {
    bool is_call = list->kind == TSR_EXPRESSION_CALL;
    if (take(p, closing)) return list;
    do {
        size_t key_at = 0;
        const char *key = is_call ? read_key(p, &key_at) : NULL;
        tsr_expression *item = read_sum(p);
        if (!item) return NULL;
        item->key = key;
        item->key_at = key_at;
        add(list, item);
    } while (take(p, ','));
    if (take(p, closing)) return check_depth(p, list);
    return refuse(p, closing == ')' ? "',' or ')'" : "',' or ']'");
}

static tsr_expression *make_call(parser *p, const char *name, size_t at, tsr_expression *a,
                                 tsr_expression *b) {
    tsr_expression *e = make(p, TSR_EXPRESSION_CALL, at);
    e->name = name;
    add(e, a);
    if (b) add(e, b);
    return check_depth(p, e);
}

static tsr_expression *read_factor(parser *p);

/* A number with a sign is a number. */
static tsr_expression *read_negative(parser *p) {
    size_t at = position(p);
    p->at++;
    tsr_expression *e = read_factor(p);
    if (!e) return NULL;
    if (e->kind != TSR_EXPRESSION_NUMBER) return make_call(p, "neg", at, e, NULL);
    e->at = at;
    e->number = -e->number;
    e->integer = -e->integer;
    return e;
}

static tsr_expression *read_name(parser *p) {
    size_t length = strspn(p->at, name_bytes);
    tsr_expression *e = make_name(p, p->at, length, position(p));
    p->at += length;
    if (!take(p, '(')) return e;
    e->kind = TSR_EXPRESSION_CALL;
    return read_items(p, e, ')');
}

static tsr_expression *read_group(parser *p) {
    p->at++;
    tsr_expression *e = read_sum(p);
    if (!e || take(p, ')')) return e;
    return refuse(p, "an operator or ')'");
}

static tsr_expression *read_any_factor(parser *p) {
    char next = peek(p);
    if (next == '-') return read_negative(p);
    if (next == '(') return read_group(p);
    if (next == '"') return read_text(p);
    if (next == '[') {
        tsr_expression *list = make(p, TSR_EXPRESSION_LIST, position(p));
        p->at++;
        return read_items(p, list, ']');
    }
    if (next && strchr(letters, next)) return read_name(p);
    if (next && strchr("0123456789.", next)) return read_number(p);
    return refuse(p, "a name, a number or '('");
}

static tsr_expression *read_factor(parser *p) {
    if (p->depth == TSR_EXPRESSION_DEPTH_MAX) {
        tsr_expression_fail(p->source, position(p), "the expression is nested more than %d deep",
                            TSR_EXPRESSION_DEPTH_MAX);
        return NULL;
    }
    p->depth++;
    tsr_expression *e = read_any_factor(p);
    p->depth--;
    return e;
}

/* Operands of two operators of one rank, which group from the left. */
static tsr_expression *read_row(parser *p, tsr_expression *(*read)(parser *), const char *operators,
                                const char *const *names) {
    tsr_expression *left = read(p);
    size_t count = 0;
    while (left && peek(p) && strchr(operators, *p->at)) {
        size_t which = (size_t)(strchr(operators, *p->at) - operators), at = position(p);
        if (++count == TSR_EXPRESSION_DEPTH_MAX) {
            tsr_expression_fail(p->source, at, "more than %d operators in a row",
                                TSR_EXPRESSION_DEPTH_MAX - 1);
            return NULL;
        }
        p->at++;
        tsr_expression *right = read(p);
        left = right ? make_call(p, names[which], at, left, right) : NULL;
    }
    return left;
}

static tsr_expression *read_term(parser *p) {
    static const char *const names[] = {"mul", "div"};
    return read_row(p, read_factor, "*/", names);
}

static tsr_expression *read_sum(parser *p) {
    static const char *const names[] = {"add", "sub"};
    return read_row(p, read_term, "+-", names);
}

tsr_expression *tsr_expression_parse(const tsr_expression_source *source, tsr_arena *arena) {
    parser p = {.source = source, .arena = arena, .at = source->text};
    if (strlen(source->text) > TSR_EXPRESSION_BYTES_MAX) {
        tsr_expression_fail(source, 0, "the expression has %zu bytes; at most %d can be read",
                            strlen(source->text), TSR_EXPRESSION_BYTES_MAX);
        return NULL;
    }
    tsr_expression *e = read_sum(&p);
    if (!e || !peek(&p)) return e;
    return refuse(&p, "an operator or the end");
}
