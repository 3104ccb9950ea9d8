/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle/provenance.h"

#include "bundle/trust/statement.h"
#include "runtime/base/io/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

static const char predicate_type[] = "https://slsa.dev/provenance/v1";
static const char build_type[] = "https://tessera.dev/build/v1";
static const char builder_id[] = "https://tessera.dev/tessera-aot";
static const char builder_name[] = "tessera", compressor_name[] = "zstd";

enum { ENTRIES_MAX = 1024 }; /* limit of each list */

/* ---- writing ---- */

/* Writes "name":"value". */
static void put_pair(tsr_buffer *out, const char *before, const char *name, const char *value) {
    tsr_buffer_text(out, before);
    tsr_buffer_json_string(out, name);
    tsr_buffer_text(out, ":");
    tsr_buffer_json_string(out, value);
}

static void put_input(tsr_buffer *out, const tsr_provenance_input *input) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&input->digest, hex);
    put_pair(out, "{", "name", input->name);
    tsr_buffer_printf(out, ",\"digest\":{\"sha256\":\"%s\"}}", hex);
}

static void put_definition(tsr_buffer *out, const tsr_provenance *p) {
    put_pair(out, "{\"buildDefinition\":{", "buildType", build_type);
    put_pair(out, ",\"externalParameters\":{", "source", p->inputs[0].name);
    tsr_buffer_text(out, ",\"targets\":[");
    for (size_t i = 0; i < p->target_count; i++) {
        tsr_buffer_text(out, i ? "," : "");
        tsr_buffer_json_string(out, p->targets[i]);
    }
    tsr_buffer_text(out, "],\"options\":{");
    for (size_t i = 0; i < p->option_count; i++)
        put_pair(out, i ? "," : "", p->options[i].name, p->options[i].value);
    tsr_buffer_text(out, "}},\"internalParameters\":{},\"resolvedDependencies\":[");
    for (size_t i = 0; i < p->input_count; i++) {
        tsr_buffer_text(out, i ? "," : "");
        put_input(out, &p->inputs[i]);
    }
    tsr_buffer_text(out, "]}");
}

static void put_run(tsr_buffer *out, const tsr_provenance *p) {
    put_pair(out, ",\"runDetails\":{\"builder\":{", "id", builder_id);
    put_pair(out, ",\"version\":{", builder_name, p->builder_version);
    for (size_t i = 0; i < p->library_count; i++)
        if (strcmp(p->libraries[i].name, builder_name) != 0 &&
            strcmp(p->libraries[i].name, compressor_name) != 0)
            put_pair(out, ",", p->libraries[i].name, p->libraries[i].value);
    put_pair(out, ",", compressor_name, ZSTD_versionString());
    tsr_buffer_text(out, "}}");
    if (p->started_on) {
        put_pair(out, ",\"metadata\":{", "startedOn", p->started_on);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "}}");
}

tsr_result tsr_provenance_encode(tsr_ctx *ctx, const tsr_provenance *provenance, tsr_arena *arena,
                                 char **out_json, size_t *out_size_bytes) {
    tsr_buffer json = {0};
    TSR_ASSERT(provenance->size_bytes == sizeof *provenance && provenance->input_count > 0);
    put_definition(&json, provenance);
    put_run(&json, provenance);
    char *copy = json.failed ? NULL : tsr_arena_strndup(arena, json.bytes, json.size_bytes);
    size_t size = json.size_bytes;
    tsr_buffer_finish(&json);
    if (!copy) FAIL(ctx, TSR_MEMORY, "no memory for the provenance");
    *out_json = copy;
    *out_size_bytes = size;
    return TSR_SUCCESS;
}

/* ---- reading ---- */

typedef struct reader {
    tsr_ctx *ctx;
    tsr_json_options options;
    tsr_arena *arena;
} reader;

static tsr_result find(const reader *r, const struct cJSON *root, const char *const *path,
                       const struct cJSON **out_object) {
    for (; *path; path++) TRY(r->ctx, tsr_json_get_object(r->ctx, root, *path, &r->options, &root));
    *out_object = root;
    return TSR_SUCCESS;
}

static tsr_result copy_text(const reader *r, const char *text, const char **out_text) {
    *out_text = tsr_arena_strdup(r->arena, text);
    if (!*out_text) FAIL(r->ctx, TSR_MEMORY, "no memory for %s", r->options.subject);
    return TSR_SUCCESS;
}

static tsr_result get_text(const reader *r, const struct cJSON *object, const char *key,
                           const char **out_text) {
    const char *text = NULL;
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, key, &r->options, &text));
    return copy_text(r, text, out_text);
}

/* Returns the length of a list or object, and checks it before memory is allocated. */
static tsr_result get_count(const reader *r, const struct cJSON *list, const char *key,
                            size_t *out_count) {
    size_t count = (size_t)cJSON_GetArraySize(list);
    if (count > ENTRIES_MAX)
        FAIL(r->ctx, TSR_CORRUPT, "%s: member '%s': expected at most %d entries, got %zu",
             r->options.subject, key, ENTRIES_MAX, count);
    *out_count = count;
    return TSR_SUCCESS;
}

static tsr_result read_pairs(const reader *r, const struct cJSON *object, const char *key,
                             const tsr_provenance_pair **out_pairs, size_t *out_count) {
    const struct cJSON *list = NULL;
    size_t count = 0;
    TRY(r->ctx, tsr_json_get_object(r->ctx, object, key, &r->options, &list));
    TRY(r->ctx, get_count(r, list, key, &count));
    tsr_provenance_pair *pairs = TSR_NEW(r->arena, tsr_provenance_pair, count + 1);
    if (!pairs) FAIL(r->ctx, TSR_MEMORY, "no memory for %s", r->options.subject);
    count = 0;
    for (const struct cJSON *item = list->child; item; item = item->next, count++) {
        TRY(r->ctx, get_text(r, list, item->string, &pairs[count].value));
        TRY(r->ctx, copy_text(r, item->string, &pairs[count].name));
    }
    *out_pairs = pairs;
    *out_count = count;
    return TSR_SUCCESS;
}

static tsr_result read_inputs(const reader *r, const struct cJSON *definition,
                              tsr_provenance *out) {
    static const char key[] = "resolvedDependencies";
    const struct cJSON *list = NULL, *digest = NULL;
    const char *hex = NULL;
    size_t count = 0;
    TRY(r->ctx, tsr_json_get_array(r->ctx, definition, key, &r->options, &list, &count));
    TRY(r->ctx, get_count(r, list, key, &count));
    tsr_provenance_input *inputs = TSR_NEW(r->arena, tsr_provenance_input, count + 1);
    if (!inputs) FAIL(r->ctx, TSR_MEMORY, "no memory for %s", r->options.subject);
    for (const struct cJSON *item = list->child; item; item = item->next) {
        tsr_provenance_input *input = &inputs[out->input_count++];
        TRY(r->ctx, get_text(r, item, "name", &input->name));
        TRY(r->ctx, tsr_json_get_object(r->ctx, item, "digest", &r->options, &digest));
        TRY(r->ctx, tsr_json_get_string(r->ctx, digest, "sha256", &r->options, &hex));
        if (!tsr_digest_parse(hex, strlen(hex), &input->digest))
            FAIL(r->ctx, TSR_CORRUPT, "%s: member 'sha256': expected 64 digits, got '%.80s'",
                 r->options.subject, hex);
    }
    out->inputs = inputs;
    return TSR_SUCCESS;
}

static tsr_result read_targets(const reader *r, const struct cJSON *parameters,
                               tsr_provenance *out) {
    const struct cJSON *list = NULL;
    size_t count = 0;
    TRY(r->ctx, tsr_json_get_array(r->ctx, parameters, "targets", &r->options, &list, &count));
    TRY(r->ctx, get_count(r, list, "targets", &count));
    const char **targets = TSR_NEW(r->arena, const char *, count + 1);
    if (!targets) FAIL(r->ctx, TSR_MEMORY, "no memory for %s", r->options.subject);
    for (const struct cJSON *item = list->child; item; item = item->next) {
        if (!cJSON_IsString(item))
            FAIL(r->ctx, TSR_CORRUPT, "%s: member 'targets': expected strings, got another value",
                 r->options.subject);
        TRY(r->ctx, copy_text(r, item->valuestring, &targets[out->target_count++]));
    }
    out->targets = targets;
    return TSR_SUCCESS;
}

static tsr_result read_predicate(const reader *r, const struct cJSON *root, tsr_provenance *out) {
    static const char *const to_definition[] = {"buildDefinition", NULL},
                             *const to_parameters[] = {"buildDefinition", "externalParameters",
                                                       NULL},
                             *const to_builder[] = {"runDetails", "builder", NULL},
                             *const to_run[] = {"runDetails", NULL};
    const struct cJSON *object = NULL;
    *out = (tsr_provenance){.size_bytes = sizeof *out};
    TRY(r->ctx, find(r, root, to_definition, &object));
    TRY(r->ctx, read_inputs(r, object, out));
    TRY(r->ctx, find(r, root, to_parameters, &object));
    TRY(r->ctx, read_targets(r, object, out));
    TRY(r->ctx, read_pairs(r, object, "options", &out->options, &out->option_count));
    TRY(r->ctx, find(r, root, to_builder, &object));
    TRY(r->ctx, read_pairs(r, object, "version", &out->libraries, &out->library_count));
    for (size_t i = 0; i < out->library_count; i++)
        if (strcmp(out->libraries[i].name, builder_name) == 0)
            out->builder_version = out->libraries[i].value;
    TRY(r->ctx, find(r, root, to_run, &object));
    if (!tsr_json_find(object, "metadata")) return TSR_SUCCESS;
    TRY(r->ctx, tsr_json_get_object(r->ctx, object, "metadata", &r->options, &object));
    if (!tsr_json_find(object, "startedOn")) return TSR_SUCCESS;
    return get_text(r, object, "startedOn", &out->started_on);
}

/* Checks that there are inputs and a version of the builder, which encode needs. */
static tsr_result check_whole(const reader *r, const tsr_provenance *p) {
    if (p->input_count == 0 || !p->builder_version)
        FAIL(r->ctx, TSR_CORRUPT, "%s: expected an input and a version of '%s', got no %s",
             r->options.subject, builder_name, p->input_count ? "version" : "input");
    return TSR_SUCCESS;
}

static tsr_result parse(tsr_ctx *ctx, const char *path, const char *json, size_t size,
                        tsr_arena *arena, tsr_provenance *out_provenance) {
    struct cJSON *root = NULL;
    tsr_provenance provenance;
    const char *subject = tsr_arena_printf(arena, "tsb: %s: provenance", path);
    if (!subject) FAIL(ctx, TSR_MEMORY, "no memory for the provenance");
    const reader r = {ctx, {.subject = subject, .code = TSR_CORRUPT}, arena};
    TRY(ctx, tsr_json_parse(ctx, json, size, &r.options, &root));
    tsr_result result = read_predicate(&r, root, &provenance);
    tsr_json_destroy(root);
    TRY(ctx, result);
    TRY(ctx, check_whole(&r, &provenance));
    *out_provenance = provenance;
    return TSR_SUCCESS;
}

/* out_json stays NULL if there is no provenance. */
static tsr_result load(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *arena, char **out_json,
                       size_t *out_size) {
    tsr_bundle_layer layer;
    void *bytes = NULL;
    if (!tsr_bundle_get_target_count(bundle) ||
        !tsr_bundle_find_layer(bundle, 0, TSR_MEDIA_PROVENANCE, &layer))
        return TSR_SUCCESS;
    TRY(ctx, tsr_bundle_read_layer(ctx, bundle, &layer, arena, &bytes, out_size));
    *out_json = bytes;
    return TSR_SUCCESS;
}

tsr_result tsr_provenance_read(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *arena,
                               tsr_provenance *out_provenance, bool *out_found) {
    char *json = NULL;
    size_t size = 0;
    *out_found = false;
    TRY(ctx, load(ctx, bundle, arena, &json, &size));
    if (!json) return TSR_SUCCESS;
    TRY(ctx, parse(ctx, tsr_bundle_get_path(bundle), json, size, arena, out_provenance));
    *out_found = true;
    return TSR_SUCCESS;
}

tsr_result tsr_provenance_extend(tsr_ctx *ctx, const char *subject, const char *json,
                                 size_t size_bytes, const tsr_provenance_input *inputs,
                                 size_t input_count, tsr_arena *arena, char **out_json,
                                 size_t *out_size_bytes) {
    tsr_provenance provenance;
    TRY(ctx, parse(ctx, subject, json, size_bytes, arena, &provenance));
    size_t count = provenance.input_count + input_count;
    tsr_provenance_input *all = TSR_NEW(arena, tsr_provenance_input, count);
    if (!all) FAIL(ctx, TSR_MEMORY, "no memory for the provenance");
    memcpy(all, provenance.inputs, provenance.input_count * sizeof *all);
    if (input_count) memcpy(all + provenance.input_count, inputs, input_count * sizeof *all);
    provenance.inputs = all;
    provenance.input_count = count;
    return tsr_provenance_encode(ctx, &provenance, arena, out_json, out_size_bytes);
}

/* ---- the statement ---- */

static tsr_result make_statement(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *arena,
                                 tsr_buffer *out_json) {
    tsr_provenance provenance;
    bool found = false;
    char *json = NULL;
    size_t size = 0;
    TRY(ctx, tsr_provenance_read(ctx, bundle, arena, &provenance, &found));
    if (!found)
        FAIL(ctx, TSR_DATA, "'%s' holds no provenance: it was not built by tessera-aot build",
             tsr_bundle_get_path(bundle));
    TRY(ctx, load(ctx, bundle, arena, &json, &size));
    tsr_statement_format(bundle, predicate_type, json, size, out_json);
    if (out_json->failed) FAIL(ctx, TSR_MEMORY, "no memory for the provenance");
    return TSR_SUCCESS;
}

tsr_result tsr_provenance_statement(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *arena,
                                    char **out_json, size_t *out_size_bytes) {
    tsr_buffer json = {0};
    tsr_result result = make_statement(ctx, bundle, arena, &json);
    if (!result.code) {
        *out_json = tsr_arena_strndup(arena, json.bytes, json.size_bytes);
        *out_size_bytes = json.size_bytes;
        if (!*out_json)
            result = tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for a statement");
    }
    tsr_buffer_finish(&json);
    return result;
}

tsr_result tsr_provenance_write(tsr_ctx *ctx, tsr_bundle *bundle, const char *path,
                                const char *private_path, tsr_digest *out_key_id) {
    tsr_arena arena = {0};
    tsr_buffer json = {0};
    tsr_result result = make_statement(ctx, bundle, &arena, &json);
    if (!result.code) result = tsr_statement_write(ctx, path, &json, private_path, out_key_id);
    tsr_buffer_finish(&json);
    tsr_arena_finish(&arena);
    return result;
}
