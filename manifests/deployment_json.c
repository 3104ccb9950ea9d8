/* SPDX-License-Identifier: Apache-2.0
 *
 * tsr_deployment <-> JSON.
 */
#include "manifests/deployment.h"
#include "manifests/json_write.h"
#include "runtime/base/json.h"

#include <cjson/cJSON.h>
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
    for (size_t i = 0; name && i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i].name, name) == 0) return parts[i].part;
    return 0;
}

/* ---- writing ---- */

static void write_text(tsr_buffer *out, const char *key, const char *text) {
    tsr_buffer_printf(out, "\"%s\":", key);
    tsr_buffer_json_string(out, text);
}

static void write_number(tsr_buffer *out, const char *key, uint64_t number) {
    tsr_buffer_printf(out, ",\"%s\":%llu", key, (unsigned long long)number);
}

static void write_shard(tsr_buffer *out, const tsr_deployment_shard *shard) {
    write_text(out, "tensor", shard->tensor);
    tsr_buffer_text(out, ",");
    write_text(out, "axis", shard->axis);
    tsr_buffer_text(out, ",\"ends\":[");
    for (size_t i = 0; i < shard->position_count; i++)
        tsr_buffer_printf(out, "%s%llu", i ? "," : "", (unsigned long long)shard->end[i]);
    tsr_buffer_text(out, "]");
}

static void write_collective(tsr_buffer *out, const tsr_deployment_collective *collective) {
    write_text(out, "entry", collective->entry);
    tsr_buffer_text(out, ",");
    write_text(out, "kind", collective->kind);
    tsr_buffer_text(out, ",");
    write_text(out, "axis", collective->axis);
    tsr_buffer_text(out, ",");
    write_text(out, "tensor", collective->tensor);
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
    });
    LIST(&out, "shards", d->shard_count, write_shard(&out, &d->shards[i]));
    LIST(&out, "collectives", d->collective_count, write_collective(&out, &d->collectives[i]));
    LIST(&out, "recomputes", d->recompute_count, write_recompute(&out, &d->recomputes[i]));
    tsr_buffer_text(&out, "}");
    tsr_result result = tsr_json_take(ctx, &out, "deployment", arena, out_json, out_size_bytes);
    tsr_buffer_finish(&out);
    return result;
}

/* ---- reading ---- */

static const tsr_json_options options = {.subject = "deployment", .code = TSR_CORRUPT};

static TSR_RESULT read_text(tsr_ctx *ctx, const cJSON *object, const char *key, tsr_arena *arena,
                            const char **out_text) {
    const char *text = NULL;
    TRY(ctx, tsr_json_get_string(ctx, object, key, &options, &text));
    if (!tsr_name_valid(text))
        FAIL(ctx, TSR_CORRUPT, "deployment: %s: expected a name, got another text", key);
    *out_text = tsr_arena_strdup(arena, text);
    if (!*out_text) FAIL(ctx, TSR_MEMORY, "no memory for a deployment");
    return TSR_SUCCESS;
}

static TSR_RESULT read_u64(tsr_ctx *ctx, const cJSON *object, const char *key,
                           uint64_t *out_number) {
    return tsr_json_get_u64(ctx, object, key, &options, out_number);
}

static TSR_RESULT read_axis(tsr_ctx *ctx, const cJSON *object, tsr_arena *arena,
                            tsr_deployment_axis *axis) {
    TRY(ctx, read_text(ctx, object, "name", arena, &axis->name));
    TRY(ctx, read_u64(ctx, object, "size", &axis->size));
    if (axis->size < 1 || axis->size > TSR_CONFIG_VIRTUAL_RANKS_MAX)
        FAIL(ctx, TSR_CORRUPT, "deployment: axis '%s': expected a size of 1 ... %d, got %llu",
             axis->name, TSR_CONFIG_VIRTUAL_RANKS_MAX, (unsigned long long)axis->size);
    return TSR_SUCCESS;
}

static TSR_RESULT read_shard(tsr_ctx *ctx, const cJSON *object, tsr_arena *arena,
                             tsr_deployment_shard *shard) {
    const cJSON *ends = NULL;
    TRY(ctx, read_text(ctx, object, "tensor", arena, &shard->tensor));
    TRY(ctx, read_text(ctx, object, "axis", arena, &shard->axis));
    TRY(ctx, tsr_json_get_array(ctx, object, "ends", &options, &ends, &shard->position_count));
    if (shard->position_count < 1 || shard->position_count > TSR_DEPLOYMENT_POSITIONS_MAX)
        FAIL(ctx, TSR_CORRUPT, "deployment: shards of '%s': expected 1 ... %d positions, got %zu",
             shard->tensor, TSR_DEPLOYMENT_POSITIONS_MAX, shard->position_count);
    shard->begin = TSR_NEW(arena, uint64_t, shard->position_count);
    shard->end = TSR_NEW(arena, uint64_t, shard->position_count);
    if (!shard->begin || !shard->end) FAIL(ctx, TSR_MEMORY, "no memory for a deployment");
    size_t i = 0;
    for (const cJSON *item = ends->child; item; item = item->next, i++) {
        shard->begin[i] = i ? shard->end[i - 1] : 0;
        if (!cJSON_IsNumber(item) || item->valuedouble < (double)shard->begin[i])
            FAIL(ctx, TSR_CORRUPT, "deployment: shards of '%s': expected ends that ascend",
                 shard->tensor);
        shard->end[i] = (uint64_t)item->valuedouble;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT read_collective(tsr_ctx *ctx, const cJSON *object, tsr_arena *arena,
                                  tsr_deployment_collective *collective) {
    TRY(ctx, read_text(ctx, object, "entry", arena, &collective->entry));
    TRY(ctx, read_text(ctx, object, "kind", arena, &collective->kind));
    TRY(ctx, read_text(ctx, object, "axis", arena, &collective->axis));
    TRY(ctx, read_text(ctx, object, "tensor", arena, &collective->tensor));
    TRY(ctx, read_u64(ctx, object, "positions", &collective->positions));
    return read_u64(ctx, object, "bytes", &collective->bytes);
}

static TSR_RESULT read_recompute(tsr_ctx *ctx, const cJSON *object, tsr_arena *arena,
                                 tsr_deployment_recompute *recompute) {
    TRY(ctx, read_text(ctx, object, "entry", arena, &recompute->entry));
    TRY(ctx, read_u64(ctx, object, "bytesBefore", &recompute->bytes_before));
    TRY(ctx, read_u64(ctx, object, "bytesSaved", &recompute->bytes_saved));
    TRY(ctx, read_u64(ctx, object, "ops", &recompute->ops));
    return read_u64(ctx, object, "operations", &recompute->operations);
}

#define READ_LIST(key, type, items, item_count, read)                                              \
    do {                                                                                           \
        const cJSON *list_ = NULL;                                                                 \
        size_t at_ = 0;                                                                            \
        TRY(ctx, tsr_json_get_array(ctx, root, key, &options, &list_, &d->item_count));            \
        d->items = TSR_NEW(arena, type, d->item_count + 1);                                        \
        if (!d->items) FAIL(ctx, TSR_MEMORY, "no memory for a deployment");                        \
        for (const cJSON *item_ = list_->child; item_; item_ = item_->next)                        \
            TRY(ctx, read(ctx, item_, arena, &d->items[at_++]));                                   \
    } while (0)

static TSR_RESULT read_all(tsr_ctx *ctx, const cJSON *root, tsr_arena *arena, tsr_deployment *d) {
    uint64_t include = 0;
    TRY(ctx, read_u64(ctx, root, "include", &include));
    if (include > TSR_PART_ALL)
        FAIL(ctx, TSR_CORRUPT, "deployment: include: expected 0 ... %d, got %llu", TSR_PART_ALL,
             (unsigned long long)include);
    d->include = (unsigned)include;
    if (tsr_json_find(root, "path")) TRY(ctx, read_text(ctx, root, "path", arena, &d->path));
    READ_LIST("axes", tsr_deployment_axis, axes, axis_count, read_axis);
    READ_LIST("shards", tsr_deployment_shard, shards, shard_count, read_shard);
    READ_LIST("collectives", tsr_deployment_collective, collectives, collective_count,
              read_collective);
    READ_LIST("recomputes", tsr_deployment_recompute, recomputes, recompute_count, read_recompute);
    return TSR_SUCCESS;
}

tsr_result tsr_deployment_read(tsr_ctx *ctx, const char *json, size_t size_bytes, tsr_arena *arena,
                               tsr_deployment *out_deployment) {
    cJSON *root = NULL;
    tsr_deployment deployment = {0};
    TRY(ctx, tsr_json_parse(ctx, json, size_bytes, &options, &root));
    tsr_result result = read_all(ctx, root, arena, &deployment);
    tsr_json_destroy(root);
    if (!result.code) *out_deployment = deployment;
    return result;
}
