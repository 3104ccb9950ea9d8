/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/train/data_type.h"

#include "compiler/process/guard.h"
#include "runtime/base/suggest.h"
#include "runtime/base/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t";

static size_t offset(const tsr_expression_source *source, const char *at) {
    return (size_t)(at - source->text);
}

/* Reads an integer or a name up to ',' or ']'. */
static bool read_dim(const tsr_expression_source *source, const tsr_dim_binding *bindings,
                     size_t binding_count, tsr_arena *arena, const char **at, uint64_t *out_dim) {
    enum { DIGITS_MAX = 18 };
    const char *begin = *at;
    size_t length = strcspn(begin, ",] \t"), digits = strspn(begin, "0123456789");
    *at = begin + length;
    if (length && digits == length && digits <= DIGITS_MAX) {
        *out_dim = strtoull(begin, NULL, 10);
        return true;
    }
    const char *name = tsr_arena_strndup(arena, begin, length);
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = name};
    TSR_NEED(name);
    for (size_t i = 0; i < binding_count; i++) {
        tsr_suggest(&likely, bindings[i].symbol);
        if (strcmp(bindings[i].symbol, name) != 0) continue;
        *out_dim = bindings[i].size;
        return true;
    }
    if (!length) return tsr_expression_fail(source, offset(source, begin), "expected a size");
    return tsr_expression_fail(source, offset(source, begin),
                               "dim '%s' has no size; give a number, or its size with --dim%s",
                               name, tsr_suggestion_text(&likely, meant));
}

/* Reads "[4, N]". */
static bool read_shape(const tsr_expression_source *source, const tsr_dim_binding *bindings,
                       size_t binding_count, tsr_arena *arena, const char **io_at,
                       tsr_shape *out_shape) {
    const char *at = *io_at + 1;
    uint64_t count = 0;
    at += strspn(at, blanks);
    while (*at != ']') {
        if (out_shape->rank == TSR_RANK_MAX)
            return tsr_expression_fail(source, offset(source, at), "more than %d dims",
                                       TSR_RANK_MAX);
        if (!read_dim(source, bindings, binding_count, arena, &at,
                      &out_shape->dims[out_shape->rank]))
            return false;
        out_shape->rank++;
        at += strspn(at, blanks);
        if (*at == ']') break;
        if (*at != ',')
            return tsr_expression_fail(source, offset(source, at), "expected ',' or ']'");
        at += 1 + strspn(at + 1, blanks);
    }
    if (!tsr_shape_count(out_shape, &count))
        return tsr_expression_fail(source, offset(source, *io_at), "more than 2^63 elements");
    *io_at = at + 1;
    return true;
}

bool tsr_data_type_read(const tsr_expression_source *source, const tsr_dim_binding *bindings,
                        size_t binding_count, tsr_arena *arena, const char **out_name,
                        tsr_type *out_type) {
    const char *equals = strchr(source->text, '=');
    if (!equals || equals == source->text)
        return tsr_expression_fail(source, 0, "expected NAME=TYPE[DIMS], as labels=i64[N]");
    const char *name = tsr_arena_strndup(arena, source->text, (size_t)(equals - source->text));
    const char *at = equals + 1;
    size_t length = strcspn(at, "[");
    const char *word = tsr_arena_strndup(arena, at, length);
    TSR_NEED(name && word ? name : NULL);
    tsr_type type = {.dtype = tsr_dtype_from_name(word)};
    if (type.dtype == TSR_DTYPE_NONE)
        return tsr_expression_fail(source, offset(source, at),
                                   "'%s' is not an element type; known are %s", word,
                                   tsr_dtype_names());
    at += length;
    if (*at != '[')
        return tsr_expression_fail(source, offset(source, at), "expected the dims, as [N]");
    if (!read_shape(source, bindings, binding_count, arena, &at, &type.shape)) return false;
    if (*at)
        return tsr_expression_fail(source, offset(source, at), "expected the end, got '%s'", at);
    *out_name = name;
    *out_type = type;
    return true;
}
