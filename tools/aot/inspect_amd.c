/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot inspect --kernels: what the kernels of an AMD GPU need, and a roofline of each: the
 * least time in which one GPU with the vendor's figures (manifests/amd.def) can compute the
 * operations and move the bytes of all arguments once. Nothing of it was measured.
 */
#include "manifests/amd.h"
#include "runtime/base/io/json.h"
#include "tools/aot/inspect.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { BLOCK = 16 /* rows and columns of a product of matrix units */ };

/* Returns the row of the array whose member has that text; NULL: none. */
static const struct cJSON *find_row(const struct cJSON *rows, const char *member,
                                    const char *text) {
    const struct cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows) {
        const struct cJSON *value = tsr_json_find(row, member);
        if (cJSON_IsString(value) && strcmp(value->valuestring, text) == 0) return row;
    }
    return NULL;
}

static double number_of(const struct cJSON *row, const char *member) {
    const struct cJSON *value = tsr_json_find(row, member);
    return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

/* The chosen size with that name of a kernel on matrix units; 0: it is none. */
static double size_of(const struct cJSON *kernel, const char *name) {
    const struct cJSON *kind = tsr_json_find(kernel, "kind");
    const struct cJSON *names = tsr_json_find(kernel, "sizes");
    if (!cJSON_IsString(kind) || strcmp(kind->valuestring, "matrix_product") != 0) return 0;
    for (int i = 0; i < cJSON_GetArraySize(names); i++) {
        const struct cJSON *own = cJSON_GetArrayItem(names, i);
        const struct cJSON *size = cJSON_GetArrayItem(tsr_json_find(kernel, "chosen"), i);
        if (cJSON_IsString(own) && strcmp(own->valuestring, name) == 0 && cJSON_IsNumber(size))
            return size->valuedouble;
    }
    return 0;
}

/* A step of K is 128 bytes of a row. */
static double element_bytes(const struct cJSON *kernel) {
    double depth = size_of(kernel, "depth");
    return depth > 0 ? 128 / depth : 0;
}

uint32_t inspect_amd_products(const inspect_view *v, size_t target, uint32_t number) {
    const tsr_fatbin *code = &v->codes[target];
    const char *name = tsr_bundle_get_target_name(v->bundle, target);
    const struct cJSON *row = find_row(tsr_json_find(v->schedule.root, "targets"), "name", name);
    const struct cJSON *kernel =
        find_row(tsr_json_find(row, "kernels"), "kernel", v->programs[target].kernels[number]);
    const tsr_amd *gpu = tsr_amd_get(code->images[0].arch);
    double all = size_of(kernel, "rows") * size_of(kernel, "columns") * size_of(kernel, "depth");
    if (!gpu || all <= 0) return 0;
    bool is_wide = element_bytes(kernel) > 2;
    double waves = (double)code->kernels[number].threads / gpu->wave_lanes;
    double depth = is_wide ? gpu->depth_f32 : gpu->depth_16;
    return waves > 0 && depth > 0 ? (uint32_t)(all / (BLOCK * BLOCK * depth * waves)) : 0;
}

/* Returns the FLOP per cycle of a compute unit for the kernel. */
static double rate_of(const tsr_amd *gpu, const struct cJSON *kernel) {
    double bytes = element_bytes(kernel);
    if (bytes > 2) return gpu->matrix_f32;
    return bytes > 0 ? gpu->matrix_16 : gpu->vector_f32;
}

static void text_roof(const inspect_view *v, size_t target, uint32_t number, tsr_buffer *out) {
    const tsr_amd *gpu = tsr_amd_get(v->codes[target].images[0].arch);
    const char *kernel_name = v->programs[target].kernels[number];
    const char *name = tsr_bundle_get_target_name(v->bundle, target);
    const struct cJSON *row = find_row(tsr_json_find(v->schedule.root, "targets"), "name", name);
    const struct cJSON *kernel = find_row(tsr_json_find(row, "kernels"), "kernel", kernel_name);
    const struct cJSON *group =
        find_row(tsr_json_find(v->schedule.root, "groups"), "name", kernel_name);
    double flops = number_of(group, "flops"), bytes = number_of(group, "bytes");
    double rate = rate_of(gpu, kernel) * gpu->units * gpu->mhz * 1e6;
    if (!group || rate <= 0) {
        tsr_buffer_printf(out, "  %-32s %14s\n", kernel_name, "?");
        return;
    }
    double compute = flops / rate * 1e6, memory = bytes / (gpu->memory_gbs * 1e9) * 1e6;
    tsr_buffer_printf(out, "  %-32s %14.0f %12.0f %8u %11.3f %11.3f  %s\n", kernel_name, flops,
                      bytes, inspect_amd_products(v, target, number), compute, memory,
                      compute > memory ? "computing" : "memory");
}

static void text_roofs(const inspect_view *v, size_t target, tsr_buffer *out) {
    const tsr_fatbin *code = &v->codes[target];
    const tsr_amd *gpu = tsr_amd_get(code->images[0].arch);
    if (!gpu || !gpu->units || !v->schedule.root) return;
    tsr_buffer_printf(out,
                      "  modelled, not measured: the least time on %u compute units at %u MHz with "
                      "%u GB/s, by the vendor's figures\n",
                      gpu->units, gpu->mhz, gpu->memory_gbs);
    tsr_buffer_printf(out, "  %-32s %14s %12s %8s %11s %11s  %s\n", "kernel", "FLOP", "bytes",
                      "products", "compute us", "memory us", "the limit");
    for (uint32_t i = 0; i < code->kernel_count; i++) text_roof(v, target, i, out);
}

void inspect_show_amd_kernels(const inspect_view *v, size_t target, tsr_buffer *out) {
    const tsr_fatbin *code = &v->codes[target];
    tsr_buffer_printf(out, "  %-32s %7s %5s %5s %5s %8s %7s %8s %5s  %s\n", "kernel", "threads",
                      "VGPRs", "AGPRs", "SGPRs", "LDS", "scratch", "spilt", "waves", "of a SIMD");
    for (uint32_t i = 0; i < code->kernel_count; i++) {
        const tsr_fatbin_kernel *k = &code->kernels[i];
        uint32_t waves = inspect_warps(code, i);
        tsr_buffer_printf(out, "  %-32s %7u %5u %5u %5u %8u %7u %8u ",
                          v->programs[target].kernels[i], k->threads, k->registers, k->accumulators,
                          k->scalar_registers, k->shared_bytes + k->static_bytes, k->scratch_bytes,
                          k->spill_bytes);
        if (waves)
            tsr_buffer_printf(out, "%5u\n", waves);
        else
            tsr_buffer_printf(out, "%5s\n", "?");
    }
    text_roofs(v, target, out);
}
