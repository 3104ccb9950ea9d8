/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot diff: prints the differences between two bundles, section by section, kernel by
 * kernel, tensor by tensor. All compared data is verified first.
 */
#include "tools/aot/diff/diff.h"

#include "bundle/provenance.h"
#include "runtime/base/array.h"
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"
#include "tools/aot/aot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const changes[] = {"changed", "removed", "added"};

/* ---- output ---- */

static void put_number(tsr_buffer *out, const char *key, double value) {
    if (isfinite(value))
        tsr_buffer_printf(out, ",\"%s\":%.17g", key, value);
    else /* JSON has no infinities */
        tsr_buffer_printf(out, ",\"%s\":\"%g\"", key, value);
}

static void put_elements(tsr_buffer *out, const diff_elements *e) {
    tsr_buffer_printf(
        out, ",\"elements\":{\"count\":%" PRIu64 ",\"differing\":%" PRIu64 ",\"first\":%" PRIu64,
        e->count, e->differing, e->first);
    put_number(out, "firstA", e->first_a);
    put_number(out, "firstB", e->first_b);
    put_number(out, "maxAbs", e->max_abs);
    tsr_buffer_printf(out, ",\"maxUlp\":%" PRIu64 ",\"hasNan\":%s}", e->max_ulp,
                      e->has_nan ? "true" : "false");
}

static void note_json(diff *d, const char *section, const char *target, const char *name,
                      diff_change change, const diff_elements *elements, const char *text) {
    tsr_buffer *out = &d->out;
    tsr_buffer_printf(out, "%s{\"section\":\"%s\",\"target\":", d->count ? "," : "", section);
    if (target)
        tsr_buffer_json_string(out, target);
    else
        tsr_buffer_text(out, "null");
    tsr_buffer_text(out, ",\"name\":");
    tsr_buffer_json_string(out, name);
    tsr_buffer_printf(out, ",\"change\":\"%s\",\"text\":", changes[change]);
    tsr_buffer_json_string(out, text);
    if (elements) put_elements(out, elements);
    tsr_buffer_text(out, "}");
}

void diff_note(diff *d, const char *section, const char *target, const char *name,
               diff_change change, const diff_elements *elements, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* Do not cut inside a character: the result would not be UTF-8. */
    for (size_t size = strlen(text); size && !tsr_utf8_valid(text, size);) text[--size] = 0;
    if (d->json)
        note_json(d, section, target, name, change, elements, text);
    else
        tsr_buffer_printf(&d->out, "%-11s %s%s%s %s: %s\n", section, target ? target : "",
                          target ? " " : "", name, changes[change], text);
    d->count++;
}

/* ---- layers ---- */

static bool is_text(const char *media_type) {
    return strcmp(media_type, TSR_MEDIA_IR) == 0 || strcmp(media_type, TSR_MEDIA_SCHEDULE) == 0 ||
           strcmp(media_type, TSR_MEDIA_DEPLOYMENT) == 0 ||
           strcmp(media_type, TSR_MEDIA_PROVENANCE) == 0;
}

static bool is_tensors(const char *media_type) {
    return strcmp(media_type, TSR_MEDIA_WEIGHTS) == 0 || strcmp(media_type, TSR_MEDIA_STATE) == 0;
}

/* Prints the position of the first byte that differs, and the text there. */
static tsr_result diff_text(diff *d, const char *target, const tsr_bundle_layer *a,
                            const tsr_bundle_layer *b, const char *name) {
    enum { AROUND = 24 };
    void *left = NULL, *right = NULL;
    size_t left_size = 0, right_size = 0, at = 0, line = 1, start = 0;
    TRY(d->ctx, tsr_bundle_read_layer(d->ctx, d->sides[0].bundle, a, &d->arena, &left, &left_size));
    TRY(d->ctx,
        tsr_bundle_read_layer(d->ctx, d->sides[1].bundle, b, &d->arena, &right, &right_size));
    const char *x = left, *y = right;
    while (at < left_size && at < right_size && x[at] == y[at]) {
        if (x[at++] != '\n') continue;
        line++;
        start = at;
    }
    size_t from = at - start > AROUND ? at - AROUND : start;
    size_t x_end = at, y_end = at;
    while (x_end < left_size && x_end - at < AROUND && x[x_end] != '\n') x_end++;
    while (y_end < right_size && y_end - at < AROUND && y[y_end] != '\n') y_end++;
    diff_note(d, "text", target, name, DIFF_CHANGED, NULL,
              "the texts first differ at line %zu, byte %zu: '%.*s' became '%.*s'", line,
              at - start + 1, (int)(x_end - from), x + from, (int)(y_end - from), y + from);
    return TSR_SUCCESS;
}

static void note_layer(diff *d, const char *target, const tsr_bundle_layer *a,
                       const tsr_bundle_layer *b, const char *name) {
    char hex[2][TSR_DIGEST_HEX + 1];
    tsr_digest_format(&a->digest, hex[0]);
    tsr_digest_format(&b->digest, hex[1]);
    diff_note(d, "layer", target, name, DIFF_CHANGED, NULL,
              "%" PRIu64 " byte%s sha256:%.16s became %" PRIu64 " byte%s sha256:%.16s",
              a->size_bytes, TSR_PLURAL(a->size_bytes), hex[0], b->size_bytes,
              TSR_PLURAL(b->size_bytes), hex[1]);
}

static const char *layer_name(const tsr_bundle_layer *layer) {
    return layer->title ? layer->title : layer->media_type;
}

static bool find_same(const tsr_bundle *bundle, size_t target, const tsr_bundle_layer *like,
                      tsr_bundle_layer *out) {
    for (size_t i = 0; i < tsr_bundle_get_layer_count(bundle, target); i++) {
        *out = tsr_bundle_get_layer(bundle, target, i);
        if (strcmp(out->media_type, like->media_type) == 0 &&
            strcmp(layer_name(out), layer_name(like)) == 0)
            return true;
    }
    return false;
}

/* Returns true for a layer that an earlier target has too, because it was shown there. */
static bool shown_before(const diff_side *side, size_t target, const tsr_bundle_layer *layer) {
    tsr_bundle_layer other;
    for (size_t t = 0; t < target; t++)
        if (find_same(side->bundle, t, layer, &other) &&
            tsr_digest_equal(&other.digest, &layer->digest))
            return true;
    return false;
}

/* Returns true if every target has the layer. */
static bool is_shared(const diff_side *side, const tsr_bundle_layer *layer) {
    tsr_bundle_layer other;
    for (size_t t = 0; t < tsr_bundle_get_target_count(side->bundle); t++)
        if (!find_same(side->bundle, t, layer, &other) ||
            !tsr_digest_equal(&other.digest, &layer->digest))
            return false;
    return true;
}

static tsr_result diff_layer(diff *d, size_t target, const char *name, const tsr_bundle_layer *a,
                             const tsr_bundle_layer *b) {
    if (tsr_digest_equal(&a->digest, &b->digest) || shown_before(&d->sides[0], target, a))
        return TSR_SUCCESS;
    if (is_shared(&d->sides[0], a) && is_shared(&d->sides[1], b)) name = NULL;
    note_layer(d, name, a, b, layer_name(a));
    if (is_text(a->media_type)) return diff_text(d, name, a, b, layer_name(a));
    return is_tensors(a->media_type) ? diff_tensors(d, a, b) : TSR_SUCCESS;
}

static tsr_result diff_target(diff *d, size_t target_a, size_t target_b) {
    const diff_side *a = &d->sides[0], *b = &d->sides[1];
    const char *name = tsr_bundle_get_target_name(a->bundle, target_a);
    tsr_bundle_layer layer, other;
    for (size_t i = 0; i < tsr_bundle_get_layer_count(a->bundle, target_a); i++) {
        layer = tsr_bundle_get_layer(a->bundle, target_a, i);
        /* it is derived from the others */
        if (strcmp(layer.media_type, TSR_MEDIA_CHUNKS) == 0) continue;
        if (find_same(b->bundle, target_b, &layer, &other))
            TRY(d->ctx, diff_layer(d, target_a, name, &layer, &other));
        else if (!shown_before(a, target_a, &layer))
            diff_note(d, "layer", name, layer_name(&layer), DIFF_REMOVED, NULL,
                      "%" PRIu64 " byte%s", layer.size_bytes, TSR_PLURAL(layer.size_bytes));
    }
    for (size_t i = 0; i < tsr_bundle_get_layer_count(b->bundle, target_b); i++) {
        layer = tsr_bundle_get_layer(b->bundle, target_b, i);
        if (!find_same(a->bundle, target_a, &layer, &other) && !shown_before(b, target_b, &layer))
            diff_note(d, "layer", name, layer_name(&layer), DIFF_ADDED, NULL, "%" PRIu64 " byte%s",
                      layer.size_bytes, TSR_PLURAL(layer.size_bytes));
    }
    return diff_kernels(d, target_a, target_b);
}

static bool find_target(const diff_side *side, const char *name, size_t *out_target) {
    for (size_t i = 0; i < tsr_bundle_get_target_count(side->bundle); i++) {
        if (strcmp(tsr_bundle_get_target_name(side->bundle, i), name) != 0) continue;
        *out_target = i;
        return true;
    }
    return false;
}

static tsr_result diff_targets(diff *d) {
    const diff_side *a = &d->sides[0], *b = &d->sides[1];
    size_t other = 0;
    for (size_t i = 0; i < tsr_bundle_get_target_count(a->bundle); i++) {
        const char *name = tsr_bundle_get_target_name(a->bundle, i);
        if (find_target(b, name, &other))
            TRY(d->ctx, diff_target(d, i, other));
        else
            diff_note(d, "target", name, name, DIFF_REMOVED, NULL, "target");
    }
    for (size_t i = 0; i < tsr_bundle_get_target_count(b->bundle); i++) {
        const char *name = tsr_bundle_get_target_name(b->bundle, i);
        if (!find_target(a, name, &other))
            diff_note(d, "target", name, name, DIFF_ADDED, NULL, "target");
    }
    return TSR_SUCCESS;
}

/* Slices of a bundle have its digest, whichever targets they leave out. */
static bool same_targets(const diff *d) {
    const diff_side *a = &d->sides[0], *b = &d->sides[1];
    size_t count = tsr_bundle_get_target_count(a->bundle), other = 0;
    bool same = tsr_bundle_get_target_count(b->bundle) == count;
    for (size_t i = 0; i < count && same; i++)
        same = find_target(b, tsr_bundle_get_target_name(a->bundle, i), &other);
    return same;
}

/* ---- the command ---- */

static tsr_result open_side(diff *d, diff_side *side) {
    const char *json = NULL;
    size_t size = 0;
    TRY(d->ctx, tsr_bundle_open(d->ctx, side->path, NULL, &side->bundle));
    tsr_bundle_get_config(side->bundle, 0, &json, &size);
    return tsr_config_decode(d->ctx, json, size, &d->arena, &side->config);
}

static void begin_json(diff *d, bool identical) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_buffer_text(&d->out, "{");
    for (int i = 0; i < 2; i++) {
        tsr_digest digest = tsr_bundle_get_digest(d->sides[i].bundle);
        tsr_digest_format(&digest, hex);
        tsr_buffer_printf(&d->out, "\"%c\":{\"path\":", "ab"[i]);
        tsr_buffer_json_string(&d->out, d->sides[i].path);
        tsr_buffer_printf(&d->out, ",\"digest\":\"sha256:%s\"},", hex);
    }
    tsr_buffer_printf(&d->out, "\"identical\":%s,\"differences\":[", identical ? "true" : "false");
}

static tsr_result compare(diff *d) {
    char hex[TSR_DIGEST_HEX + 1];
    TRY(d->ctx, open_side(d, &d->sides[0]));
    TRY(d->ctx, open_side(d, &d->sides[1]));
    tsr_digest a = tsr_bundle_get_digest(d->sides[0].bundle);
    tsr_digest b = tsr_bundle_get_digest(d->sides[1].bundle);
    bool identical = tsr_digest_equal(&a, &b) && same_targets(d);
    tsr_digest_format(&a, hex);
    if (d->json) begin_json(d, identical);
    if (!identical) {
        diff_config(d);
        TRY(d->ctx, diff_targets(d));
        /* Members of the config, annotations or order that no section above shows. */
        if (!d->count)
            diff_note(d, "index", NULL, "index", DIFF_CHANGED, NULL,
                      "the digests differ, but the contents are the same");
    }
    if (d->json)
        tsr_buffer_text(&d->out, "]}\n");
    else if (identical)
        tsr_buffer_printf(&d->out, "identical: sha256:%s\n", hex);
    if (d->out.failed) FAIL(d->ctx, TSR_MEMORY, "no memory to compare");
    fwrite(d->out.bytes, 1, d->out.size_bytes, stdout);
    if (identical) return TSR_SUCCESS;
    FAIL(d->ctx, TSR_DIFFERENT, "'%s' and '%s' differ: %zu difference%s", d->sides[0].path,
         d->sides[1].path, d->count, TSR_PLURAL(d->count));
}

tsr_result tsr_aot_diff(tsr_ctx *ctx, int argc, char **argv) {
    const char *paths[2] = {NULL, NULL};
    bool done = false;
    diff d = {.ctx = ctx};
    tsr_flag flags[] = {TSR_FLAG("--json", SWITCH, NONE, &d.json, NULL, "one JSON object", 0, 0)};
    const tsr_aot_word positional[] = {
        {"A", TSR_FILE_BUNDLE}, {"B", TSR_FILE_BUNDLE}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {
        .name = "diff",
        .notes = "Exit code 0: the same; 21: something differs. Form of the JSON: "
                 "schemas/diff.schema.json.\n",
        .flags = flags,
        .flag_count = TSR_COUNT(flags),
        .positional = positional,
        .out_words = paths};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    d.sides[0].path = paths[0];
    d.sides[1].path = paths[1];
    tsr_result result = compare(&d);
    for (int i = 0; i < 2; i++) tsr_bundle_close(ctx, d.sides[i].bundle);
    tsr_buffer_finish(&d.out);
    tsr_arena_finish(&d.arena);
    return result;
}
