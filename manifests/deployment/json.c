/* SPDX-License-Identifier: Apache-2.0
 *
 * tsr_deployment <-> JSON.
 */
#include "manifests/deployment/read.h"
#include "manifests/json_write.h"
#include "runtime/base/array.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned part;
} parts[] = {{"mesh", TSR_PART_MESH},
             {"pipeline", TSR_PART_PIPELINE},
             {"optimizer", TSR_PART_OPTIMIZER},
             {"checkpoint", TSR_PART_CHECKPOINT},
             {"collectives", TSR_PART_COLLECTIVES},
             {"stages", TSR_PART_STAGES}};

unsigned tsr_deployment_part_parse(const char *name) {
    for (size_t i = 0; name && i < TSR_COUNT(parts); i++)
        if (strcmp(parts[i].name, name) == 0) return parts[i].part;
    return 0;
}

/* ---- writing ---- */

static void write_text(tsr_buffer *out, const char *key, const char *text) {
    tsr_buffer_printf(out, "\"%s\":", key);
    tsr_buffer_json_string(out, text);
}

static void write_number(tsr_buffer *out, const char *key, uint64_t number) {
    tsr_buffer_printf(out, ",\"%s\":%" PRIu64, key, number);
}

static void write_shard(tsr_buffer *out, const tsr_deployment_shard *shard) {
    write_text(out, "tensor", shard->tensor);
    tsr_buffer_text(out, ",");
    write_text(out, "axis", shard->axis);
    tsr_buffer_text(out, ",\"ends\":[");
    for (size_t i = 0; i < shard->position_count; i++)
        tsr_buffer_printf(out, "%s%" PRIu64, i ? "," : "", shard->end[i]);
    tsr_buffer_text(out, "]");
}

static void write_collective(tsr_buffer *out, const tsr_deployment_collective *collective) {
    write_text(out, "entry", collective->entry);
    tsr_buffer_text(out, ",");
    write_text(out, "kind", collective->kind);
    tsr_buffer_text(out, ",");
    write_text(out, "axis", collective->axis);
    if (collective->tensor) {
        tsr_buffer_text(out, ",");
        write_text(out, "tensor", collective->tensor);
    }
    write_number(out, "positions", collective->positions);
    write_number(out, "bytes", collective->bytes);
}

static void write_recompute(tsr_buffer *out, const tsr_deployment_recompute *recompute) {
    write_text(out, "entry", recompute->entry);
    write_number(out, "bytesBefore", recompute->bytes_before);
    write_number(out, "bytesSaved", recompute->bytes_saved);
    write_number(out, "ops", recompute->ops);
    write_number(out, "operations", recompute->operations);
}

#define LIST(out, key, count, write)                                                               \
    do {                                                                                           \
        tsr_buffer_text(out, ",\"" key "\":[");                                                    \
        for (size_t i = 0; i < (count); i++) {                                                     \
            tsr_buffer_text(out, i ? ",{" : "{");                                                  \
            write;                                                                                 \
            tsr_buffer_text(out, "}");                                                             \
        }                                                                                          \
        tsr_buffer_text(out, "]");                                                                 \
    } while (0)

tsr_result tsr_deployment_write(tsr_ctx *ctx, const tsr_deployment *d, tsr_arena *arena,
                                char **out_json, size_t *out_size_bytes) {
    tsr_buffer out = {0};
    tsr_buffer_printf(&out, "{\"include\":%u", d->include);
    if (d->path) {
        tsr_buffer_text(&out, ",");
        write_text(&out, "path", d->path);
    }
    LIST(&out, "axes", d->axis_count, {
        write_text(&out, "name", d->axes[i].name);
        write_number(&out, "size", d->axes[i].size);
        tsr_buffer_printf(&out, ",\"batch\":%s", d->axes[i].batch ? "true" : "false");
    });
    LIST(&out, "shards", d->shard_count, write_shard(&out, &d->shards[i]));
    LIST(&out, "collectives", d->collective_count, write_collective(&out, &d->collectives[i]));
    LIST(&out, "recomputes", d->recompute_count, write_recompute(&out, &d->recomputes[i]));
    LIST(&out, "steps", d->step_count, {
        write_text(&out, "entry", d->steps[i].entry);
        tsr_buffer_text(&out, ",");
        write_text(&out, "tensor", d->steps[i].tensor);
    });
    tsr_deployment_write_pipelines(d, "pipelines", &out);
    tsr_buffer_text(&out, "}");
    tsr_result result = tsr_json_take(ctx, &out, "deployment", arena, out_json, out_size_bytes);
    tsr_buffer_finish(&out);
    return result;
}

/* ---- reading ---- */

static TSR_RESULT read_u64(tsr_json_reader *r, const cJSON *object, const char *key,
                           uint64_t *out_number) {
    return tsr_json_get_u64(r->ctx, object, key, &r->options, out_number);
}

tsr_result tsr_deployment_read_axis(tsr_json_reader *r, const cJSON *object,
                                    tsr_deployment_axis *axis) {
    TRY(r->ctx, tsr_json_read_name(r, object, "name", &axis->name));
    TRY(r->ctx, read_u64(r, object, "size", &axis->size));
    if (axis->size < 1 || axis->size > TSR_CONFIG_VIRTUAL_RANKS_MAX)
        FAIL(r->ctx, TSR_CORRUPT,
             "deployment: axis '%s': expected a size of 1 ... %d, got %" PRIu64, axis->name,
             TSR_CONFIG_VIRTUAL_RANKS_MAX, axis->size);
    axis->batch = cJSON_IsTrue(tsr_json_find(object, "batch"));
    return TSR_SUCCESS;
}

static TSR_RESULT read_shard(tsr_json_reader *r, const cJSON *object, tsr_deployment_shard *shard) {
    const cJSON *ends = NULL;
    TRY(r->ctx, tsr_json_read_name(r, object, "tensor", &shard->tensor));
    TRY(r->ctx, tsr_json_read_name(r, object, "axis", &shard->axis));
    TRY(r->ctx,
        tsr_json_get_array(r->ctx, object, "ends", &r->options, &ends, &shard->position_count));
    if (shard->position_count < 1 || shard->position_count > TSR_DEPLOYMENT_POSITIONS_MAX)
        FAIL(r->ctx, TSR_CORRUPT,
             "deployment: shards of '%s': expected 1 ... %d positions, got %zu", shard->tensor,
             TSR_DEPLOYMENT_POSITIONS_MAX, shard->position_count);
    shard->begin = TSR_NEW(r->arena, uint64_t, shard->position_count);
    shard->end = TSR_NEW(r->arena, uint64_t, shard->position_count);
    if (!shard->begin || !shard->end) FAIL(r->ctx, TSR_MEMORY, "no memory for a deployment");
    size_t i = 0;
    for (const cJSON *item = ends->child; item; item = item->next, i++) {
        shard->begin[i] = i ? shard->end[i - 1] : 0;
        if (!cJSON_IsNumber(item) || item->valuedouble < (double)shard->begin[i])
            FAIL(r->ctx, TSR_CORRUPT, "deployment: shards of '%s': expected ends that ascend",
                 shard->tensor);
        shard->end[i] = (uint64_t)item->valuedouble;
    }
    return TSR_SUCCESS;
}

/* slice sends nothing. */
static bool is_collective(const char *kind) {
    const tsr_collective_row *row = tsr_collective_find(kind);
    return row && row->kind != TSR_COLLECTIVE_SLICE;
}

tsr_result tsr_deployment_read_collective(tsr_json_reader *r, const cJSON *object,
                                          tsr_deployment_collective *collective) {
    TRY(r->ctx, tsr_json_read_name(r, object, "entry", &collective->entry));
    TRY(r->ctx, tsr_json_read_name(r, object, "kind", &collective->kind));
    if (!is_collective(collective->kind))
        TSR_JSON_READ_FAIL(r, "kind", "a collective that sends", collective->kind);
    TRY(r->ctx, tsr_json_read_name(r, object, "axis", &collective->axis));
    if (tsr_json_find(object, "tensor"))
        TRY(r->ctx, tsr_json_read_name(r, object, "tensor", &collective->tensor));
    TRY(r->ctx, read_u64(r, object, "positions", &collective->positions));
    return read_u64(r, object, "bytes", &collective->bytes);
}

tsr_result tsr_deployment_read_recompute(tsr_json_reader *r, const cJSON *object,
                                         tsr_deployment_recompute *recompute) {
    TRY(r->ctx, tsr_json_read_name(r, object, "entry", &recompute->entry));
    TRY(r->ctx, read_u64(r, object, "bytesBefore", &recompute->bytes_before));
    TRY(r->ctx, read_u64(r, object, "bytesSaved", &recompute->bytes_saved));
    TRY(r->ctx, read_u64(r, object, "ops", &recompute->ops));
    return read_u64(r, object, "operations", &recompute->operations);
}

static TSR_RESULT read_step(tsr_json_reader *r, const cJSON *object, tsr_deployment_step *step) {
    TRY(r->ctx, tsr_json_read_name(r, object, "entry", &step->entry));
    return tsr_json_read_name(r, object, "tensor", &step->tensor);
}

#define READ_LIST(key, items, item_count, read)                                                    \
    do {                                                                                           \
        const cJSON *list_, *item_;                                                                \
        size_t at_ = 0;                                                                            \
        TRY(r->ctx, tsr_json_read_table(r, root, key, TSR_JSON_TOKENS_MAX, sizeof *d->items,       \
                                        &list_, &d->item_count, &d->items));                       \
        cJSON_ArrayForEach(item_, list_) TRY(r->ctx, read(r, item_, &d->items[at_++]));            \
    } while (0)

static TSR_RESULT read_all(tsr_json_reader *r, const cJSON *root, tsr_deployment *d) {
    uint64_t include = 0;
    TRY(r->ctx, read_u64(r, root, "include", &include));
    if (include > TSR_PART_ALL)
        FAIL(r->ctx, TSR_CORRUPT, "deployment: include: expected 0 ... %d, got %" PRIu64,
             TSR_PART_ALL, include);
    d->include = (unsigned)include;
    if (tsr_json_find(root, "path")) TRY(r->ctx, tsr_json_read_name(r, root, "path", &d->path));
    READ_LIST("axes", axes, axis_count, tsr_deployment_read_axis);
    READ_LIST("shards", shards, shard_count, read_shard);
    READ_LIST("collectives", collectives, collective_count, tsr_deployment_read_collective);
    READ_LIST("recomputes", recomputes, recompute_count, tsr_deployment_read_recompute);
    READ_LIST("steps", steps, step_count, read_step);
    return tsr_deployment_read_pipelines(r, root, "pipelines", d);
}

tsr_result tsr_deployment_read(tsr_ctx *ctx, const char *json, size_t size_bytes, tsr_arena *arena,
                               tsr_deployment *out_deployment) {
    tsr_json_reader r = {.ctx = ctx, .arena = arena};
    cJSON *root = NULL;
    tsr_deployment deployment = {0};
    tsr_json_at(&r, "deployment");
    TRY(ctx, tsr_json_parse(ctx, json, size_bytes, &r.options, &root));
    tsr_result result = read_all(&r, root, &deployment);
    tsr_json_destroy(root);
    if (!result.code) *out_deployment = deployment;
    return result;
}
