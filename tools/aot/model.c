/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/model.h"

#include "runtime/base/arena.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 18, SIZES_MAX = 64 };

static bool ends_with(const char *path, const char *end) {
    size_t length = strlen(path), size = strlen(end);
    return length > size && strcmp(path + length - size, end) == 0;
}

bool tsr_aot_is_onnx(const char *path) { return ends_with(path, ".onnx"); }

tsr_result tsr_aot_check_source(tsr_ctx *ctx, const char *command,
                                const tsr_compile_options *options) {
    const char *source = options->source_path, *flag = NULL;
    if (ends_with(source, ".tsb"))
        FAIL(ctx, TSR_USAGE,
             "%s: '%s' is a bundle; expected a program or a model (tessera-aot verify checks "
             "bundles)",
             command, source);
    bool is_hlo = ends_with(source, ".stablehlo.mlir") || ends_with(source, ".stablehlo");
    if (options->carry_count && !is_hlo)
        FAIL(ctx, TSR_USAGE,
             "%s: --carry is for modules of StableHLO, whose names end in .stablehlo.mlir; '%s' "
             "does "
             "not",
             command, source);
    if (!is_hlo && !ends_with(source, ".py")) return TSR_SUCCESS;
    if (options->links.link_count) flag = "--link";
    if (options->dim_count && is_hlo) flag = "--dim";
    if (flag)
        FAIL(ctx, TSR_USAGE, "%s: %s does not apply to %s, as '%s'", command, flag,
             is_hlo ? "modules of StableHLO" : "programs in Python syntax", source);
    return TSR_SUCCESS;
}

/* Reads "1..64". */
static bool read_range(const char *text, int64_t *out_low, int64_t *out_high) {
    size_t digits = strspn(text, "0123456789");
    const char *high = text + digits + 2;
    if (!digits || digits > DIGITS_MAX || strncmp(text + digits, "..", 2) != 0) return false;
    size_t rest = strspn(high, "0123456789");
    *out_low = (int64_t)strtoull(text, NULL, 10);
    *out_high = (int64_t)strtoull(high, NULL, 10);
    return rest && rest <= DIGITS_MAX && !high[rest];
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
        int64_t low = 0, high = 0;
        if (!sizes) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
        bool is_open = equals && read_range(equals + 1, &low, &high);
        if (!equals || equals == text || (!is_open && !read_sizes(equals + 1, sizes, &count)))
            FAIL(ctx, TSR_USAGE,
                 "%s: --dim is '%s'; expected NAME=SIZE, as N=64, or NAME=SIZE,SIZE,… with at most "
                 "%d sizes, or NAME=LOW..HIGH",
                 command, text, SIZES_MAX);
        for (size_t k = 1; k < count; k++)
            if (sizes[k] <= sizes[k - 1])
                FAIL(ctx, TSR_USAGE,
                     "%s: --dim is '%s'; expected sizes in ascending order, got %" PRId64
                     " after %" PRId64,
                     command, text, sizes[k], sizes[k - 1]);
        if (is_open && (low < 1 || high <= low))
            FAIL(ctx, TSR_USAGE,
                 "%s: --dim is '%s'; expected a size from 1 on and a larger one, got %" PRId64
                 " and %" PRId64,
                 command, text, low, high);
        if (is_open) sizes[count++] = high;
        const char *symbol = tsr_arena_strndup(arena, text, (size_t)(equals - text));
        if (!symbol) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
        for (size_t k = 0; k < i; k++)
            if (strcmp(out_dims[k].symbol, symbol) == 0)
                FAIL(ctx, TSR_USAGE, "%s: --dim %s is given twice", command, symbol);
        out_dims[i] = (tsr_dim_binding){.symbol = symbol,
                                        .size = (uint64_t)sizes[0],
                                        .sizes = sizes,
                                        .size_count = count,
                                        .low = is_open ? (uint64_t)low : 0};
    }
    return TSR_SUCCESS;
}

tsr_result tsr_aot_read_training(tsr_ctx *ctx, const char *command, tsr_aot_training *training,
                                 const char *source, const tsr_onnx_training **out_options) {
    const struct {
        const char *flag;
        bool given;
    } needs[] = {{"--optimizer", training->optimizer != NULL},
                 {"--data-type", training->data_types.count > 0}};
    *out_options = NULL;
    for (size_t i = 0; i < TSR_COUNT(needs) && !training->loss; i++)
        if (needs[i].given)
            FAIL(ctx, TSR_USAGE, "%s: %s needs --train, the loss", command, needs[i].flag);
    if (!training->loss) return TSR_SUCCESS;
    if (!training->optimizer)
        FAIL(ctx, TSR_USAGE, "%s: --train needs --optimizer, as 'adamw(lr=1e-3)'", command);
    if (!tsr_aot_is_onnx(source))
        FAIL(
            ctx, TSR_USAGE,
            "%s: --train is for ONNX models, whose names end in .onnx; '%s' has its train entry in "
            "its text",
            command, source);
    training->options = (tsr_onnx_training){.loss = training->loss,
                                            .optimizer = training->optimizer,
                                            .freeze = training->freeze.texts,
                                            .freeze_count = training->freeze.count,
                                            .data_types = training->data_types.texts,
                                            .data_type_count = training->data_types.count};
    *out_options = &training->options;
    return TSR_SUCCESS;
}

bool tsr_aot_links_model(const tsr_aot_links *links) {
    for (size_t i = 0; i < links->files.count; i++)
        if (tsr_aot_is_onnx(links->files.pairs[i].value)) return true;
    return false;
}

/* Reads "DOMAIN:NAME=@FUNCTION". */
static tsr_result read_op(tsr_ctx *ctx, const char *command, const char *text, tsr_arena *arena,
                          tsr_custom_op *out) {
    const char *equals = strstr(text, "=@"), *colon = strchr(text, ':');
    if (!equals || !colon || colon > equals || colon + 1 == equals || !equals[2])
        FAIL(ctx, TSR_USAGE,
             "%s: --op is '%s'; expected DOMAIN:NAME=@FUNCTION, as com.me:Scale=@scale", command,
             text);
    out->domain = tsr_arena_strndup(arena, text, (size_t)(colon - text));
    out->op = tsr_arena_strndup(arena, colon + 1, (size_t)(equals - colon - 1));
    out->function = equals + 2;
    if (!out->domain || !out->op) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
    return TSR_SUCCESS;
}

tsr_result tsr_aot_read_links(tsr_ctx *ctx, const char *command, const tsr_aot_links *links,
                              const tsr_aot_training *training, tsr_arena *arena,
                              tsr_compile_options *options) {
    size_t count = links->files.count, op_count = links->ops.count;
    tsr_link *files = TSR_NEW(arena, tsr_link, count + 1);
    tsr_custom_op *ops = TSR_NEW(arena, tsr_custom_op, op_count + 1);
    bool has_model = tsr_aot_links_model(links);
    if (!files || !ops) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
    if (training->freeze.count && !training->loss && !has_model)
        FAIL(ctx, TSR_USAGE, "%s: --freeze needs --train, or --link with a model", command);
    if (op_count && !has_model && !tsr_aot_is_onnx(options->source_path))
        FAIL(ctx, TSR_USAGE,
             "%s: --op needs an ONNX model; '%s' is not one, and no model is linked", command,
             options->source_path);
    for (size_t i = 0; i < count; i++)
        files[i] =
            (tsr_link){.name = links->files.pairs[i].name, .path = links->files.pairs[i].value};
    for (size_t i = 0; i < op_count; i++) {
        TRY(ctx, read_op(ctx, command, links->ops.texts[i], arena, &ops[i]));
        for (size_t k = 0; k < i; k++)
            if (strcmp(ops[k].op, ops[i].op) == 0 && strcmp(ops[k].domain, ops[i].domain) == 0)
                FAIL(ctx, TSR_USAGE, "%s: --op %s:%s is given twice", command, ops[i].domain,
                     ops[i].op);
    }
    options->links =
        (tsr_links){.links = files, .link_count = count, .ops = ops, .op_count = op_count};
    options->freeze = training->freeze.texts;
    options->freeze_count = training->freeze.count;
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
