/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot inspect --schedule: the sizes of each kernel. The form belongs to the compiler: what
 * is not of that form is left out.
 */
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"
#include "tools/aot/inspect.h"

#include <cjson/cJSON.h>

static const char *text_of(const struct cJSON *object, const char *name) {
    const struct cJSON *value = tsr_json_find(object, name);
    return cJSON_IsString(value) ? value->valuestring : "";
}

/* "rows 6, width 16" */
static void text_sizes(const struct cJSON *kernel, tsr_buffer *out) {
    const struct cJSON *names = tsr_json_find(kernel, "sizes");
    const struct cJSON *chosen = tsr_json_find(kernel, "chosen");
    for (int i = 0; i < cJSON_GetArraySize(names); i++) {
        const struct cJSON *name = cJSON_GetArrayItem(names, i);
        const struct cJSON *value = cJSON_GetArrayItem(chosen, i);
        if (cJSON_IsString(name) && cJSON_IsNumber(value))
            tsr_buffer_printf(out, "%s%s %.0f", i ? ", " : "", name->valuestring,
                              value->valuedouble);
    }
}

static void text_time(const struct cJSON *kernel, const char *name, const char *label,
                      tsr_buffer *out) {
    const struct cJSON *time = tsr_json_find(kernel, name);
    if (cJSON_IsNumber(time))
        tsr_buffer_printf(out, "; %s %.3f us", label, 1e-3 * time->valuedouble);
}

static void text_candidates(const struct cJSON *kernel, tsr_buffer *out) {
    const struct cJSON *candidates = tsr_json_find(kernel, "candidates"), *sizes = NULL;
    cJSON_ArrayForEach(sizes, candidates) {
        const struct cJSON *size = NULL;
        tsr_buffer_text(out, sizes == candidates->child ? "      [" : " [");
        cJSON_ArrayForEach(size, sizes) if (cJSON_IsNumber(size))
            tsr_buffer_printf(out, "%s%.0f", size == sizes->child ? "" : " ", size->valuedouble);
        tsr_buffer_text(out, "]");
    }
    tsr_buffer_text(out, "\n");
}

static void text_kernel(const struct cJSON *kernel, tsr_buffer *out) {
    int candidates = cJSON_GetArraySize(tsr_json_find(kernel, "candidates"));
    tsr_buffer_printf(out, "    %s  %s: ", text_of(kernel, "kernel"), text_of(kernel, "kind"));
    text_sizes(kernel, out);
    tsr_buffer_printf(out, "; source: %s", text_of(kernel, "source"));
    text_time(kernel, "model_ns", "model", out);
    text_time(kernel, "measured_ns", "measured", out);
    text_time(kernel, "safe_ns", "safe plan", out);
    tsr_buffer_printf(out, "; %d candidate%s\n", candidates, TSR_PLURAL(candidates));
    text_candidates(kernel, out);
}

void inspect_show_kernel_sizes(const inspect_view *v, tsr_buffer *out) {
    const struct cJSON *target = NULL, *kernel = NULL;
    if (!v->kernel_sizes || !v->schedule.root) return;
    tsr_buffer_text(out, "kernel sizes\n");
    cJSON_ArrayForEach(target, tsr_json_find(v->schedule.root, "targets")) {
        tsr_buffer_printf(out, "  %s\n", text_of(target, "name"));
        cJSON_ArrayForEach(kernel, tsr_json_find(target, "kernels")) text_kernel(kernel, out);
    }
}
