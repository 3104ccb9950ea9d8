/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot inspect: what a bundle holds, for people or as one JSON object. Everything shown is
 * verified first.
 */
#include "bundle/bundle.h"
#include "manifests/program.h"
#include "runtime/base/buffer.h"
#include "tools/aot/aot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct view {
    tsr_bundle *bundle;
    tsr_arena arena;
    tsr_config config;
    tsr_program *programs; /* one per target; kernel_count 0 where a target has none */
    size_t target_count;
} view;

static tsr_result view_read(tsr_ctx *ctx, view *v) {
    const char *json = NULL;
    size_t size_bytes = 0;
    v->target_count = tsr_bundle_get_target_count(v->bundle);
    v->programs = TSR_NEW(&v->arena, tsr_program, v->target_count + 1);
    if (!v->programs) FAIL(ctx, TSR_MEMORY, "no memory for %zu programs", v->target_count);
    tsr_bundle_get_config(v->bundle, 0, &json, &size_bytes);
    TRY(ctx, tsr_config_decode(ctx, json, size_bytes, &v->arena, &v->config));
    for (size_t i = 0; i < v->target_count; i++) {
        tsr_bundle_layer layer;
        void *bytes = NULL;
        if (!tsr_bundle_find_layer(v->bundle, i, TSR_MEDIA_PROGRAM, &layer)) continue;
        TRY(ctx, tsr_bundle_read_layer(ctx, v->bundle, &layer, &v->arena, &bytes, &size_bytes));
        TRY(ctx,
            tsr_program_decode(ctx, bytes, size_bytes, &v->config, &v->arena, &v->programs[i]));
    }
    return TSR_SUCCESS;
}

static uint64_t ports_bytes(const tsr_config_port *ports, size_t count) {
    uint64_t sum = 0, size;
    for (size_t i = 0; i < count; i++)
        if (tsr_shape_size(&ports[i].shape, ports[i].dtype, &size)) sum += size;
    return sum;
}

static uint64_t tensor_bytes(const tsr_config_tensor *tensor) {
    uint64_t size = 0;
    return tsr_shape_size(&tensor->shape, tensor->dtype, &size) ? size : 0;
}

static uint64_t tensors_bytes(const tsr_config *config) {
    uint64_t sum = 0;
    for (size_t i = 0; i < config->tensor_count; i++) sum += tensor_bytes(&config->tensors[i]);
    return sum;
}

/* Programs of all targets have one plan; a target without a program has none to show. */
static const tsr_program_entry *planned(const view *v, size_t entry) {
    for (size_t i = 0; i < v->target_count; i++)
        if (v->programs[i].entry_count) return &v->programs[i].entries[entry];
    return NULL;
}

/* ---- for people ---- */

static void text_ports(const char *word, const tsr_config_port *ports, size_t count, bool inputs,
                       tsr_buffer *out) {
    char type[TSR_TYPE_TEXT_MAX];
    for (size_t i = 0; i < count; i++) {
        const char *source = inputs ? tsr_port_source_name(ports[i].source) : "";
        tsr_buffer_printf(out, "    %-6s %-24s %-16s %s\n", word, ports[i].name,
                          tsr_type_format(ports[i].dtype, &ports[i].shape, type), source);
    }
}

static void text_entries(const view *v, tsr_buffer *out) {
    tsr_buffer_printf(out, "entries\n");
    for (size_t i = 0; i < v->config.entry_count; i++) {
        const tsr_config_entry *entry = &v->config.entries[i];
        const tsr_program_entry *plan = planned(v, i);
        tsr_buffer_printf(out, "  @%s  %s", entry->name, tsr_entry_kind_name(entry->kind));
        if (entry->batch) tsr_buffer_printf(out, ", batch %" PRIu64, entry->batch);
        if (entry->rows_independent) tsr_buffer_text(out, ", rows independent");
        if (plan)
            tsr_buffer_printf(out,
                              "; memory: tensors %" PRIu64 ", workspace %" PRIu64
                              ", inputs %" PRIu64 ", outputs %" PRIu64 " bytes; %u commands",
                              tensors_bytes(&v->config), plan->workspace_bytes,
                              ports_bytes(entry->inputs, entry->input_count),
                              ports_bytes(entry->outputs, entry->output_count),
                              plan->command_count);
        tsr_buffer_text(out, "\n");
        text_ports("input", entry->inputs, entry->input_count, true, out);
        text_ports("output", entry->outputs, entry->output_count, false, out);
    }
}

static void text_init(const tsr_config_tensor *tensor, tsr_buffer *out) {
    switch (tensor->init) {
    case TSR_INIT_DATA:
        tsr_buffer_text(out, "stored");
        break;
    case TSR_INIT_CONSTANT:
        tsr_buffer_printf(out, "all %.9g", tensor->init_a);
        break;
    case TSR_INIT_UNIFORM:
        tsr_buffer_printf(out, "uniform [%.9g, %.9g)", tensor->init_a, tensor->init_b);
        break;
    case TSR_INIT_NORMAL:
        tsr_buffer_printf(out, "normal mean %.9g deviation %.9g", tensor->init_a, tensor->init_b);
        break;
    }
}

static void text_tensors(const view *v, tsr_buffer *out) {
    char type[TSR_TYPE_TEXT_MAX];
    tsr_buffer_printf(out, "tensors\n");
    for (size_t i = 0; i < v->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &v->config.tensors[i];
        tsr_buffer_printf(out, "  %-8s %-28s %-16s ", tsr_tensor_role_name(tensor->role),
                          tensor->name, tsr_type_format(tensor->dtype, &tensor->shape, type));
        text_init(tensor, out);
        tsr_buffer_text(out, "\n");
    }
}

static void text_layers(const view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    for (size_t i = 0; i < v->target_count; i++) {
        tsr_buffer_printf(out, "target %s", tsr_bundle_get_target_name(v->bundle, i));
        tsr_buffer_printf(out, "  %u kernels\n", v->programs[i].kernel_count);
        for (size_t k = 0; k < tsr_bundle_get_layer_count(v->bundle, i); k++) {
            tsr_bundle_layer layer = tsr_bundle_get_layer(v->bundle, i, k);
            tsr_digest_format(&layer.digest, hex);
            tsr_buffer_printf(out, "  %12" PRIu64 "  sha256:%.16s  %-20s %s\n", layer.size_bytes,
                              hex, layer.title ? layer.title : "", layer.media_type);
        }
    }
}

static void show_text(const view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_bundle_get_digest(v->bundle);
    tsr_digest_format(&digest, hex);
    tsr_buffer_printf(out, "%s  %s, %s numerics, %" PRIu64 " virtual rank%s\n", v->config.name,
                      v->config.producer, v->config.numerics, v->config.virtual_ranks,
                      v->config.virtual_ranks == 1 ? "" : "s");
    tsr_buffer_printf(out, "bundle sha256:%s, format %u.%u, ", hex, v->config.version_major,
                      v->config.version_minor);
    uint64_t size = tsr_bundle_get_file_size(v->bundle);
    if (size)
        tsr_buffer_printf(out, "%" PRIu64 " bytes\n", size);
    else
        tsr_buffer_text(out, "unpacked\n");
    text_entries(v, out);
    text_tensors(v, out);
    text_layers(v, out);
}

/* ---- for programs ---- */

static void json_text(tsr_buffer *out, const char *key, const char *text) {
    tsr_buffer_printf(out, "\"%s\":", key);
    tsr_buffer_json_string(out, text);
}

/* JSON has no infinities. */
static void json_number(tsr_buffer *out, const char *key, double value) {
    if (isfinite(value))
        tsr_buffer_printf(out, ",\"%s\":%.17g", key, value);
    else
        tsr_buffer_printf(out, ",\"%s\":\"%g\"", key, value);
}

static void json_type(tsr_buffer *out, tsr_dtype dtype, const tsr_shape *shape) {
    tsr_buffer_printf(out, ",\"dtype\":\"%s\",\"shape\":[", tsr_dtype_name(dtype));
    for (uint32_t i = 0; i < shape->rank; i++)
        tsr_buffer_printf(out, "%s%" PRIu64, i ? "," : "", shape->dims[i]);
    tsr_buffer_text(out, "]");
}

static void json_ports(tsr_buffer *out, const char *key, const tsr_config_port *ports, size_t count,
                       bool inputs) {
    tsr_buffer_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", ports[i].name);
        json_type(out, ports[i].dtype, &ports[i].shape);
        if (inputs)
            tsr_buffer_printf(out, ",\"source\":\"%s\"", tsr_port_source_name(ports[i].source));
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "]");
}

static void json_entries(const view *v, tsr_buffer *out) {
    tsr_buffer_text(out, ",\"entries\":[");
    for (size_t i = 0; i < v->config.entry_count; i++) {
        const tsr_config_entry *entry = &v->config.entries[i];
        const tsr_program_entry *plan = planned(v, i);
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", entry->name);
        tsr_buffer_printf(out, ",\"kind\":\"%s\",\"batch\":%" PRIu64 ",\"rowsIndependent\":%s",
                          tsr_entry_kind_name(entry->kind), entry->batch,
                          entry->rows_independent ? "true" : "false");
        json_ports(out, "inputs", entry->inputs, entry->input_count, true);
        json_ports(out, "outputs", entry->outputs, entry->output_count, false);
        if (plan)
            tsr_buffer_printf(out, ",\"workspaceBytes\":%" PRIu64 ",\"commands\":%u",
                              plan->workspace_bytes, plan->command_count);
        tsr_buffer_printf(out, ",\"inputBytes\":%" PRIu64 ",\"outputBytes\":%" PRIu64 "}",
                          ports_bytes(entry->inputs, entry->input_count),
                          ports_bytes(entry->outputs, entry->output_count));
    }
    tsr_buffer_text(out, "]");
}

/* The numbers are those of text_init. */
static void json_init(const tsr_config_tensor *tensor, tsr_buffer *out) {
    tsr_buffer_printf(out, ",\"init\":{\"kind\":\"%s\"", tsr_init_kind_name(tensor->init));
    switch (tensor->init) {
    case TSR_INIT_DATA:
        break;
    case TSR_INIT_CONSTANT:
        json_number(out, "value", tensor->init_a);
        break;
    case TSR_INIT_UNIFORM:
        json_number(out, "low", tensor->init_a);
        json_number(out, "high", tensor->init_b);
        break;
    case TSR_INIT_NORMAL:
        json_number(out, "mean", tensor->init_a);
        json_number(out, "deviation", tensor->init_b);
        break;
    }
    tsr_buffer_text(out, "}");
}

static void json_tensors(const view *v, tsr_buffer *out) {
    tsr_buffer_text(out, ",\"tensors\":[");
    for (size_t i = 0; i < v->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &v->config.tensors[i];
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", tensor->name);
        tsr_buffer_printf(out, ",\"role\":\"%s\"", tsr_tensor_role_name(tensor->role));
        json_type(out, tensor->dtype, &tensor->shape);
        json_init(tensor, out);
        tsr_buffer_printf(out, ",\"sizeBytes\":%" PRIu64 "}", tensor_bytes(tensor));
    }
    tsr_buffer_printf(out, "],\"tensorBytes\":%" PRIu64, tensors_bytes(&v->config));
}

static void json_targets(const view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_buffer_text(out, ",\"targets\":[");
    for (size_t i = 0; i < v->target_count; i++) {
        tsr_buffer_text(out, i ? ",{" : "{");
        json_text(out, "name", tsr_bundle_get_target_name(v->bundle, i));
        tsr_buffer_printf(out, ",\"kernels\":%u,\"layers\":[", v->programs[i].kernel_count);
        for (size_t k = 0; k < tsr_bundle_get_layer_count(v->bundle, i); k++) {
            tsr_bundle_layer layer = tsr_bundle_get_layer(v->bundle, i, k);
            tsr_digest_format(&layer.digest, hex);
            tsr_buffer_text(out, k ? ",{" : "{");
            json_text(out, "mediaType", layer.media_type);
            tsr_buffer_text(out, ",");
            json_text(out, "title", layer.title ? layer.title : "");
            tsr_buffer_printf(out, ",\"sizeBytes\":%" PRIu64 ",\"digest\":\"sha256:%s\"}",
                              layer.size_bytes, hex);
        }
        tsr_buffer_text(out, "]}");
    }
    tsr_buffer_text(out, "]");
}

static void show_json(const view *v, tsr_buffer *out) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_bundle_get_digest(v->bundle);
    tsr_digest_format(&digest, hex);
    tsr_buffer_text(out, "{");
    json_text(out, "name", v->config.name);
    tsr_buffer_text(out, ",");
    json_text(out, "producer", v->config.producer);
    tsr_buffer_text(out, ",");
    json_text(out, "numerics", v->config.numerics);
    tsr_buffer_printf(out,
                      ",\"formatVersion\":\"%u.%u\",\"virtualRanks\":%" PRIu64
                      ",\"digest\":\"sha256:%s\",\"fileBytes\":%" PRIu64,
                      v->config.version_major, v->config.version_minor, v->config.virtual_ranks,
                      hex, tsr_bundle_get_file_size(v->bundle));
    json_entries(v, out);
    json_tensors(v, out);
    json_targets(v, out);
    tsr_buffer_text(out, "}\n");
}

tsr_result tsr_aot_inspect(tsr_ctx *ctx, int argc, char **argv) {
    const char *path = NULL;
    bool done = false, json = false;
    view v = {0};
    tsr_buffer out = {0};
    tsr_result result;
    tsr_flag flags[] = {{"--json", TSR_FLAG_SWITCH, &json, NULL, "one JSON object", 0, 0, false}};
    const char *const positional[] = {"FILE", NULL};
    const tsr_aot_command_line line = {.name = "inspect",
                                       .flags = flags,
                                       .flag_count = sizeof flags / sizeof flags[0],
                                       .positional = positional,
                                       .out_words = &path};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_bundle_open(ctx, path, NULL, &v.bundle));
    TRY_GOTO(ctx, result, view_read(ctx, &v));
    if (json)
        show_json(&v, &out);
    else
        show_text(&v, &out);
    if (out.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to show '%s'", path);
    fwrite(out.bytes, 1, out.size_bytes, stdout);
done:
    tsr_buffer_finish(&out);
    tsr_bundle_close(ctx, v.bundle);
    tsr_arena_finish(&v.arena);
    return result;
}
