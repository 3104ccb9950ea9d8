/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/tune/artifact.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/io.h"
#include "runtime/base/io/json.h"
#include "tools/aot/tune/host.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { FORMAT_VERSION = 1, BYTES_MAX = 1 << 30 };

static const struct {
    const char *name;
    size_t offset;
} texts[] = {
    {"op_kind", offsetof(tsr_store_entry, op_kind)},
    {"shape_sig", offsetof(tsr_store_entry, shape_sig)},
    {"dtype", offsetof(tsr_store_entry, dtype)},
    {"mesh_sig", offsetof(tsr_store_entry, mesh_sig)},
    {"arch", offsetof(tsr_store_entry, arch)},
    {"policy_hash", offsetof(tsr_store_entry, policy_hash)},
    {"machine", offsetof(tsr_store_entry, machine)},
    {"compiler", offsetof(tsr_store_entry, compiler)},
    {"driver", offsetof(tsr_store_entry, driver)},
    {"runtime", offsetof(tsr_store_entry, runtime)},
};

static const char **text_of(tsr_store_entry *entry, size_t index) {
    return (const char **)(void *)((char *)entry + texts[index].offset);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void format(tsr_store_entry entry, tsr_buffer *out) {
    tsr_buffer_text(out, "{");
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        tsr_buffer_printf(out, "\"%s\":", texts[i].name);
        tsr_buffer_json_string(out, *text_of(&entry, i));
        tsr_buffer_text(out, ",");
    }
    tsr_buffer_text(out, "\"sizes\":[");
    for (size_t i = 0; i < entry.plan.count; i++)
        tsr_buffer_printf(out, "%s%" PRId64, i ? "," : "", entry.plan.sizes[i]);
    tsr_buffer_printf(
        out, "],\"safe_ns\":%" PRIu64 ",\"measured_ns\":%" PRIu64 ",\"trials\":%" PRIu64 "}",
        entry.plan.safe_ns, entry.plan.measured_ns, entry.trials);
}

tsr_result tsr_artifact_write(tsr_ctx *ctx, const char *path, const tsr_store_entry *entries,
                              size_t count) {
    tsr_buffer out = {0};
    tsr_buffer_printf(&out, "{\"formatVersion\":%d,\"producer\":\"tessera %s\",\"plans\":[",
                      FORMAT_VERSION, TSR_VERSION_TEXT);
    for (size_t i = 0; i < count; i++) {
        tsr_buffer_text(&out, i ? ",\n" : "\n");
        format(entries[i], &out);
    }
    tsr_buffer_text(&out, "]}\n");
    tsr_result result = out.failed ? tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__,
                                               "no memory to write '%s'", path)
                                   : tsr_io_atomic_write(ctx, path, out.bytes, out.size_bytes);
    tsr_buffer_finish(&out);
    return result;
}

/* ---- reading --------------------------------------------------------------------------------- */

static tsr_result read_sizes(tsr_ctx *ctx, const struct cJSON *object,
                             const tsr_json_options *options, tsr_measured *plan) {
    const struct cJSON *sizes = NULL, *size = NULL;
    size_t count = 0;
    TRY(ctx, tsr_json_get_array(ctx, object, "sizes", options, &sizes, &count));
    if (!count || count > TSR_MEASURED_SIZES_MAX)
        FAIL(ctx, TSR_DATA, "%s: 'sizes' has %zu elements; expected 1 to %d", options->subject,
             count, TSR_MEASURED_SIZES_MAX);
    cJSON_ArrayForEach(size, sizes) {
        if (!cJSON_IsNumber(size))
            FAIL(ctx, TSR_DATA, "%s: an element of 'sizes' is not a number", options->subject);
        plan->sizes[plan->count++] = (int64_t)size->valuedouble;
    }
    return TSR_SUCCESS;
}

static tsr_result read_entry(tsr_ctx *ctx, const struct cJSON *object,
                             const tsr_json_options *options, tsr_arena *arena,
                             tsr_store_entry *entry) {
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        const char *text = NULL;
        TRY(ctx, tsr_json_get_string(ctx, object, texts[i].name, options, &text));
        text = tsr_arena_strdup(arena, text);
        if (!text) FAIL(ctx, TSR_MEMORY, "no memory for the plans of '%s'", options->subject);
        *text_of(entry, i) = text;
    }
    TRY(ctx, read_sizes(ctx, object, options, &entry->plan));
    TRY(ctx, tsr_json_get_u64(ctx, object, "safe_ns", options, &entry->plan.safe_ns));
    TRY(ctx, tsr_json_get_u64(ctx, object, "measured_ns", options, &entry->plan.measured_ns));
    TRY(ctx, tsr_json_get_u64(ctx, object, "trials", options, &entry->trials));
    entry->plan.target = entry->arch;
    entry->plan.signature = tsr_arena_printf(arena, "%s %s", entry->op_kind, entry->shape_sig);
    if (!entry->plan.signature)
        FAIL(ctx, TSR_MEMORY, "no memory for the plans of '%s'", options->subject);
    return TSR_SUCCESS;
}

static tsr_result read_root(tsr_ctx *ctx, const struct cJSON *root, const tsr_json_options *options,
                            tsr_arena *arena, tsr_store_entry **out_entries, size_t *out_count) {
    const struct cJSON *plans = NULL, *object = NULL;
    uint64_t version = 0;
    size_t count = 0, index = 0;
    TRY(ctx, tsr_json_get_u64(ctx, root, "formatVersion", options, &version));
    if (version != FORMAT_VERSION)
        FAIL(ctx, TSR_VERSION, "%s: formatVersion is %" PRIu64 "; expected %d", options->subject,
             version, FORMAT_VERSION);
    TRY(ctx, tsr_json_get_array(ctx, root, "plans", options, &plans, &count));
    tsr_store_entry *entries = TSR_NEW(arena, tsr_store_entry, count + 1);
    if (!entries) FAIL(ctx, TSR_MEMORY, "no memory for %zu plans", count);
    cJSON_ArrayForEach(object, plans) {
        entries[index] = (tsr_store_entry){0};
        TRY(ctx, read_entry(ctx, object, options, arena, &entries[index++]));
    }
    *out_entries = entries;
    *out_count = count;
    return TSR_SUCCESS;
}

tsr_result tsr_artifact_read(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                             tsr_store_entry **out_entries, size_t *out_count) {
    const tsr_json_options options = {.subject = path, .code = TSR_DATA};
    struct cJSON *root = NULL;
    void *bytes = NULL;
    size_t size_bytes = 0;
    TRY(ctx, tsr_io_read_file(ctx, path, BYTES_MAX, arena, &bytes, &size_bytes));
    TRY(ctx, tsr_json_parse(ctx, bytes, size_bytes, &options, &root));
    tsr_result result = read_root(ctx, root, &options, arena, out_entries, out_count);
    tsr_json_destroy(root);
    return result;
}

/* ---- plans for a build ----------------------------------------------------------------------- */

static tsr_result read_any(tsr_ctx *ctx, const char *path, bool is_store, tsr_arena *arena,
                           tsr_store_entry **out_entries, size_t *out_count) {
    tsr_schedule_store *store = NULL;
    if (!is_store) return tsr_artifact_read(ctx, path, arena, out_entries, out_count);
    TRY(ctx, tsr_schedule_store_open(ctx, path, false, &store));
    tsr_result result = tsr_schedule_store_read(ctx, store, arena, out_entries, out_count);
    tsr_schedule_store_close(store);
    return result;
}

tsr_result tsr_schedules_load(tsr_ctx *ctx, const char *path, const char *numerics,
                              tsr_arena *arena, tsr_measured **out_plans, size_t *out_count) {
    bool is_store = tsr_schedule_store_is_store(path);
    tsr_store_entry *entries = NULL;
    size_t count = 0, used = 0;
    tsr_tune_host host;
    char policy[64];
    snprintf(policy, sizeof policy, "%s/latency", numerics);
    TRY(ctx, tsr_tune_host_read(ctx, 0, arena, &host));
    TRY(ctx, read_any(ctx, path, is_store, arena, &entries, &count));
    tsr_measured *plans = TSR_NEW(arena, tsr_measured, count + 1);
    if (!plans) FAIL(ctx, TSR_MEMORY, "no memory for %zu plans", count);
    for (int own = 1; own >= 0; own--) /* the first of equal ones is used */
        for (size_t i = 0; i < count; i++) {
            const tsr_store_entry *entry = &entries[i];
            bool is_current = strcmp(entry->compiler, host.compiler) == 0 &&
                              strcmp(entry->runtime, host.runtime) == 0;
            if ((strcmp(entry->machine, host.machine) == 0) == own &&
                strcmp(entry->policy_hash, policy) == 0 && (!is_store || is_current))
                plans[used++] = entry->plan;
        }
    *out_plans = plans;
    *out_count = used;
    return TSR_SUCCESS;
}
