/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool for the scripts in this folder that compare with other readers and writers.
 *
 *     array_tool read SPEC [FLAT_DTYPE]    prints "TYPE
 * " and the elements
 *     array_tool npy OUT IN                copies IN.npy through tsr_array_open to OUT
 *     array_tool safetensors OUT SPEC …    writes each SPEC "FILE:NAME" as the tensor NAME of OUT
 *     array_tool npz OUT SPEC …            writes each SPEC "FILE:NAME" as the member NAME of OUT
 *     array_tool quantile                  standard normal quantiles of the doubles on stdin
 *
 * The exit code is that of the result; the error text is written to standard error.
 */
#include "runtime/base/random/philox.h"
#include "runtime/data/array_file.h"
#include "runtime/data/array_writer.h"

#include <stdio.h>
#include <string.h>

enum { TENSORS_MAX = 128 };

static tsr_result load(tsr_ctx *ctx, const char *spec, tsr_dtype flat, tsr_arena *arena,
                       tsr_tensor *out) {
    tsr_array *array = NULL;
    uint64_t count = 0;
    TRY(ctx, tsr_array_open(ctx, spec, flat, &array));
    *out = (tsr_tensor){.dtype = tsr_array_get_dtype(array), .shape = *tsr_array_get_shape(array)};
    bool sane = tsr_shape_count(&out->shape, &count);
    TSR_ASSERT(sane);
    out->data = tsr_arena_alloc(arena, (size_t)count, tsr_dtype_size(out->dtype), 64);
    TSR_ASSERT(out->data);
    tsr_result result = tsr_array_read(ctx, array, 0, count, out->data);
    tsr_array_close(ctx, array);
    return result;
}

static tsr_result read_array(tsr_ctx *ctx, const char *spec, const char *flat, tsr_arena *arena) {
    tsr_tensor tensor;
    uint64_t size = 0;
    char type[TSR_TYPE_TEXT_MAX];
    TRY(ctx, load(ctx, spec, flat ? tsr_dtype_from_name(flat) : TSR_DTYPE_NONE, arena, &tensor));
    bool sane = tsr_shape_size(&tensor.shape, tensor.dtype, &size);
    TSR_ASSERT(sane);
    printf("%s\n", tsr_type_format(tensor.dtype, &tensor.shape, type));
    fwrite(tensor.data, 1, (size_t)size, stdout);
    return TSR_SUCCESS;
}

static tsr_result write_npy(tsr_ctx *ctx, const char *out, const char *in, tsr_arena *arena) {
    tsr_tensor tensor;
    TRY(ctx, load(ctx, in, TSR_DTYPE_NONE, arena, &tensor));
    return tsr_npy_write(ctx, out, &tensor);
}

static tsr_result write_safetensors(tsr_ctx *ctx, const char *out, char **specs, int spec_count,
                                    tsr_arena *arena) {
    static const char *const metadata[] = {"format", "np", "note", "two \"words\"", NULL};
    tsr_tensor tensors[TENSORS_MAX] = {0};
    TSR_ASSERT(spec_count <= TENSORS_MAX);
    for (int i = 0; i < spec_count; i++) {
        TRY(ctx, load(ctx, specs[i], TSR_DTYPE_NONE, arena, &tensors[i]));
        tensors[i].name = strrchr(specs[i], ':') + 1;
    }
    return tsr_safetensors_write(ctx, out, tensors, (size_t)spec_count, metadata);
}

/* Appends one element at a time, taking turns between the arrays. */
static tsr_result append_all(tsr_ctx *ctx, tsr_array_writer *writer, const tsr_tensor *tensors,
                             size_t count) {
    bool more = true;
    for (uint64_t at = 0; more; at++) {
        more = false;
        for (size_t i = 0; i < count; i++) {
            uint64_t elements = 0;
            size_t size = tsr_dtype_size(tensors[i].dtype);
            bool sane = tsr_shape_count(&tensors[i].shape, &elements);
            TSR_ASSERT(sane);
            if (at >= elements) continue;
            more = true;
            TRY(ctx, tsr_array_writer_append(ctx, writer, i,
                                             (const char *)tensors[i].data + at * size, size));
        }
    }
    return TSR_SUCCESS;
}

static tsr_result write_npz(tsr_ctx *ctx, const char *out, char **specs, int spec_count,
                            tsr_arena *arena) {
    tsr_tensor tensors[TENSORS_MAX] = {0};
    tsr_array_writer *writer = NULL;
    TSR_ASSERT(spec_count <= TENSORS_MAX);
    for (int i = 0; i < spec_count; i++) {
        TRY(ctx, load(ctx, specs[i], TSR_DTYPE_NONE, arena, &tensors[i]));
        tensors[i].name = strrchr(specs[i], ':') + 1;
    }
    TRY(ctx, tsr_array_writer_create(ctx, out, tensors, (size_t)spec_count, &writer));
    tsr_result result = append_all(ctx, writer, tensors, (size_t)spec_count);
    if (!result.code) result = tsr_array_writer_commit(ctx, writer);
    tsr_array_writer_destroy(ctx, writer);
    return result;
}

static tsr_result print_quantiles(void) {
    for (double u; fread(&u, sizeof u, 1, stdin) == 1;) {
        double value = tsr_normal_quantile(u);
        fwrite(&value, sizeof value, 1, stdout);
    }
    return TSR_SUCCESS;
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_result result = {TSR_USAGE};
    if (argc >= 3 && strcmp(argv[1], "read") == 0)
        result = read_array(&ctx, argv[2], argv[3], &arena);
    else if (argc == 4 && strcmp(argv[1], "npy") == 0)
        result = write_npy(&ctx, argv[2], argv[3], &arena);
    else if (argc >= 3 && strcmp(argv[1], "safetensors") == 0)
        result = write_safetensors(&ctx, argv[2], argv + 3, argc - 3, &arena);
    else if (argc >= 4 && strcmp(argv[1], "npz") == 0)
        result = write_npz(&ctx, argv[2], argv + 3, argc - 3, &arena);
    else if (argc == 2 && strcmp(argv[1], "quantile") == 0)
        result = print_quantiles();
    if (result.code) fprintf(stderr, "%s\n", ctx.error.text);
    tsr_arena_finish(&arena);
    return (int)result.code;
}
