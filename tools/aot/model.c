/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/model.h"

#include "runtime/base/arena.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 18, SIZES_MAX = 64 };

bool tsr_aot_is_onnx(const char *path) {
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".onnx") == 0;
}

/* Reads "1,8,64". */
static bool read_sizes(const char *text, int64_t *out_sizes, size_t *out_count) {
    size_t count = 0;
    for (;; text++) {
        size_t digits = strspn(text, "0123456789");
        if (!digits || digits > DIGITS_MAX || count == SIZES_MAX) return false;
        out_sizes[count++] = (int64_t)strtoull(text, NULL, 10);
        text += digits;
        if (*text != ',') break;
    }
    *out_count = count;
    return !*text;
}

tsr_result tsr_aot_read_dims(tsr_ctx *ctx, const char *command, const tsr_flag_list *texts,
                             tsr_arena *arena, tsr_dim_binding *out_dims) {
    for (size_t i = 0; i < texts->count; i++) {
        const char *text = texts->texts[i], *equals = strrchr(text, '=');
        int64_t *sizes = tsr_arena_alloc(arena, SIZES_MAX, sizeof *sizes, _Alignof(int64_t));
        size_t count = 0;
        if (!sizes) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
        if (!equals || equals == text || !read_sizes(equals + 1, sizes, &count))
            FAIL(ctx, TSR_USAGE,
                 "%s: --dim is '%s'; expected NAME=SIZE, as N=64, or NAME=SIZE,SIZE,… with at most "
                 "%d sizes",
                 command, text, SIZES_MAX);
        for (size_t k = 1; k < count; k++)
            if (sizes[k] <= sizes[k - 1])
                FAIL(ctx, TSR_USAGE,
                     "%s: --dim is '%s'; expected sizes in ascending order, got %" PRId64
                     " after %" PRId64,
                     command, text, sizes[k], sizes[k - 1]);
        const char *symbol = tsr_arena_strndup(arena, text, (size_t)(equals - text));
        if (!symbol) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
        for (size_t k = 0; k < i; k++)
            if (strcmp(out_dims[k].symbol, symbol) == 0)
                FAIL(ctx, TSR_USAGE, "%s: --dim %s is given twice", command, symbol);
        out_dims[i] = (tsr_dim_binding){
            .symbol = symbol, .size = (uint64_t)sizes[0], .sizes = sizes, .size_count = count};
    }
    return TSR_SUCCESS;
}

bool tsr_aot_names_weights(tsr_ctx *ctx, const char *path) {
    static const char name[] = "tessera.weights_digest";
    tsr_arena arena = {0};
    void *text = NULL;
    size_t size = 0;
    tsr_result result = tsr_io_read_file(ctx, path, TSR_SOURCE_BYTES_MAX, &arena, &text, &size);
    if (result.code) tsr_error_clear(ctx);
    bool found = !result.code && memmem(text, size, name, sizeof name - 1);
    tsr_arena_finish(&arena);
    return found;
}

tsr_result tsr_aot_read_form(tsr_ctx *ctx, const char *command, const char *word, bool *out_json) {
    *out_json = word && strcmp(word, "json") == 0;
    if (word && !*out_json && strcmp(word, "text") != 0)
        FAIL(ctx, TSR_USAGE, "%s: --diagnostics is '%s'; expected text or json", command, word);
    return TSR_SUCCESS;
}

void tsr_aot_print_diag(const tsr_diag *diag, bool json) {
    tsr_buffer text = {0};
    if (json) {
        tsr_diag_format_json(diag, &text);
        tsr_buffer_text(&text, "\n");
    } else
        tsr_diag_format(diag, &text);
    if (text.bytes) fwrite(text.bytes, 1, text.size_bytes, stderr);
    tsr_buffer_finish(&text);
}
