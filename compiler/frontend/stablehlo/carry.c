/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/stablehlo/carry.h"

#include "runtime/base/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 6 };

typedef struct range {
    size_t first, last;
    bool single; /* written as one number */
} range;

static bool read_number(const char **at, size_t *out_number) {
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX) return false;
    *out_number = (size_t)strtoul(*at, NULL, 10);
    *at += digits;
    return true;
}

/* "in 0..13" or "in 14". */
static bool read_range(const char **at, const char *word, range *out_range) {
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0) return false;
    *at += length;
    *at += strspn(*at, " ");
    if (!read_number(at, &out_range->first)) return false;
    out_range->last = out_range->first;
    out_range->single = strncmp(*at, "..", 2) != 0;
    if (out_range->single) return true;
    *at += 2;
    return read_number(at, &out_range->last) && out_range->last >= out_range->first;
}

static TSR_RESULT check_range(tsr_ctx *ctx, const char *text, const char *what, const range *r,
                              size_t count) {
    if (r->last >= count)
        FAIL(ctx, TSR_USAGE, "--carry '%s' names %s %zu; the program has %zu, counted from 0", text,
             what, r->last, count);
    return TSR_SUCCESS;
}

static TSR_RESULT bind(tsr_ctx *ctx, const char *text, const char *what, size_t index, size_t other,
                       const char *name, tsr_hlo_carry *port) {
    if (port->name)
        FAIL(ctx, TSR_USAGE, "--carry '%s' names %s %zu, which '%s' has already", text, what, index,
             port->name);
    *port = (tsr_hlo_carry){.name = name, .partner = other};
    return TSR_SUCCESS;
}

static TSR_RESULT check_name(tsr_ctx *ctx, const char *text, const char *name, size_t input_count,
                             const tsr_hlo_carry *inputs) {
    if (strlen(name) > TSR_NAME_MAX)
        FAIL(ctx, TSR_USAGE, "--carry '%s' has a name of %zu bytes; at most %d are accepted", text,
             strlen(name), TSR_NAME_MAX);
    for (size_t i = 0; i < input_count; i++)
        if (inputs[i].name && strcmp(inputs[i].name, name) == 0)
            FAIL(ctx, TSR_USAGE, "--carry '%s' gives the name '%s', which input %zu has already",
                 text, name, i);
    return TSR_SUCCESS;
}

static TSR_RESULT read_text(tsr_ctx *ctx, tsr_arena *arena, const char *text, size_t input_count,
                            size_t output_count, tsr_hlo_carry *inputs, tsr_hlo_carry *outputs) {
    const char *equals = strrchr(text, '='), *at = equals ? equals + 1 : text;
    range in, out;
    if (!equals || equals == text || !read_range(&at, "in", &in) || *at++ != ':' ||
        !read_range(&at, "out", &out) || *at)
        FAIL(ctx, TSR_USAGE,
             "--carry is '%s'; expected NAME=in FIRST..LAST:out FIRST..LAST, or NAME=in INPUT:out "
             "OUTPUT",
             text);
    if (in.last - in.first != out.last - out.first)
        FAIL(ctx, TSR_USAGE, "--carry '%s' names %zu inputs and %zu outputs; expected as many",
             text, in.last - in.first + 1, out.last - out.first + 1);
    TRY(ctx, check_range(ctx, text, "input", &in, input_count));
    TRY(ctx, check_range(ctx, text, "output", &out, output_count));
    for (size_t i = 0; in.first + i <= in.last; i++) {
        int length = (int)(equals - text);
        const char *name = in.single ? tsr_arena_strndup(arena, text, (size_t)length)
                                     : tsr_arena_printf(arena, "%.*s.%zu", length, text, i);
        if (!name) FAIL(ctx, TSR_MEMORY, "no memory for a name");
        TRY(ctx, check_name(ctx, text, name, input_count, inputs));
        TRY(ctx,
            bind(ctx, text, "input", in.first + i, out.first + i, name, &inputs[in.first + i]));
        TRY(ctx,
            bind(ctx, text, "output", out.first + i, in.first + i, name, &outputs[out.first + i]));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_hlo_read_carry(tsr_ctx *ctx, tsr_arena *arena, size_t count,
                              const char *const *texts, size_t input_count, size_t output_count,
                              tsr_hlo_carry *out_inputs, tsr_hlo_carry *out_outputs) {
    memset(out_inputs, 0, input_count * sizeof *out_inputs);
    memset(out_outputs, 0, output_count * sizeof *out_outputs);
    for (size_t i = 0; i < count; i++)
        for (const char *at = texts[i];; at++) {
            size_t length = strcspn(at, ";");
            const char *text = tsr_arena_strndup(arena, at, length);
            if (!text) FAIL(ctx, TSR_MEMORY, "no memory for a name");
            TRY(ctx,
                read_text(ctx, arena, text, input_count, output_count, out_inputs, out_outputs));
            at += length;
            if (!*at) break;
        }
    return TSR_SUCCESS;
}
