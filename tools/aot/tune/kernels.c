/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that a search tunes, from the schedule of a bundle.
 */
#include "runtime/base/array.h"
#include "runtime/base/io/json.h"
#include "tools/aot/tune/search.h"

#include <cjson/cJSON.h>
#include <string.h>

static const tsr_json_options form = {.subject = "schedule", .code = TSR_CORRUPT};

static tsr_result read_sizes(tsr_ctx *ctx, const struct cJSON *array, size_t count,
                             int64_t *out_sizes) {
    const struct cJSON *size = NULL;
    size_t index = 0;
    if ((size_t)cJSON_GetArraySize(array) != count)
        FAIL(ctx, TSR_CORRUPT, "schedule: a kernel with %zu sizes has a candidate of %d", count,
             cJSON_GetArraySize(array));
    cJSON_ArrayForEach(size, array) out_sizes[index++] = (int64_t)cJSON_GetNumberValue(size);
    return TSR_SUCCESS;
}

static tsr_tune_kernel *find(tsr_tune_search *search, const char *signature) {
    for (size_t i = 0; i < search->kernel_count; i++)
        if (strcmp(search->kernels[i].signature, signature) == 0) return &search->kernels[i];
    return NULL;
}

static tsr_result read_candidates(tsr_ctx *ctx, const struct cJSON *object, tsr_arena *arena,
                                  tsr_tune_kernel *kernel) {
    const struct cJSON *chosen = NULL, *candidates = NULL, *candidate = NULL;
    size_t count = 0;
    TRY(ctx, tsr_json_get_array(ctx, object, "chosen", &form, &chosen, &kernel->size_count));
    if (!kernel->size_count || kernel->size_count > TSR_MEASURED_SIZES_MAX)
        FAIL(ctx, TSR_CORRUPT, "schedule: a kernel has %zu sizes; expected 1 to %d",
             kernel->size_count, TSR_MEASURED_SIZES_MAX);
    TRY(ctx, read_sizes(ctx, chosen, kernel->size_count, kernel->safe));
    TRY(ctx, tsr_json_get_array(ctx, object, "candidates", &form, &candidates, &count));
    kernel->candidates = TSR_NEW(arena, tsr_tune_candidate, count + 1);
    if (!kernel->candidates) FAIL(ctx, TSR_MEMORY, "no memory for %zu candidates", count);
    cJSON_ArrayForEach(candidate, candidates) {
        tsr_tune_candidate *to = &kernel->candidates[kernel->candidate_count];
        *to = (tsr_tune_candidate){0};
        TRY(ctx, read_sizes(ctx, candidate, kernel->size_count, to->sizes));
        kernel->candidate_count += memcmp(to->sizes, kernel->safe, sizeof kernel->safe) != 0;
    }
    return TSR_SUCCESS;
}

static tsr_result read_kernel(tsr_ctx *ctx, const struct cJSON *object, size_t name_limit,
                              tsr_tune_search *search) {
    const char *name = NULL, *signature = NULL;
    TRY(ctx, tsr_json_get_string(ctx, object, "kernel", &form, &name));
    TRY(ctx, tsr_json_get_string(ctx, object, "signature", &form, &signature));
    tsr_tune_kernel *kernel = find(search, signature);
    if (!kernel) {
        kernel = &search->kernels[search->kernel_count++];
        *kernel = (tsr_tune_kernel){.signature = tsr_arena_strdup(search->arena, signature),
                                    .names = TSR_NEW(search->arena, const char *, name_limit)};
        if (!kernel->signature || !kernel->names)
            FAIL(ctx, TSR_MEMORY, "no memory for the kernels of '%s'", search->target);
        TRY(ctx, read_candidates(ctx, object, search->arena, kernel));
    }
    name = tsr_arena_strdup(search->arena, name);
    if (!name) FAIL(ctx, TSR_MEMORY, "no memory for the kernels of '%s'", search->target);
    kernel->names[kernel->name_count++] = name;
    return TSR_SUCCESS;
}

tsr_result tsr_tune_read_kernels(tsr_ctx *ctx, const struct cJSON *schedule,
                                 tsr_tune_search *search) {
    const struct cJSON *target = NULL, *kernels = NULL, *kernel = NULL;
    size_t count = 0;
    cJSON_ArrayForEach(target, tsr_json_find(schedule, "targets")) {
        const char *name = NULL;
        TRY(ctx, tsr_json_get_string(ctx, target, "name", &form, &name));
        if (strcmp(name, search->target) != 0) continue;
        TRY(ctx, tsr_json_get_array(ctx, target, "kernels", &form, &kernels, &count));
    }
    search->kernels = TSR_NEW(search->arena, tsr_tune_kernel, count + 1);
    if (!search->kernels) FAIL(ctx, TSR_MEMORY, "no memory for %zu kernels", count);
    cJSON_ArrayForEach(kernel, kernels) TRY(ctx, read_kernel(ctx, kernel, count, search));
    return TSR_SUCCESS;
}
