/* SPDX-License-Identifier: Apache-2.0
 *
 * A flat file: elements and nothing else, little-endian, one dimension.
 */
#include "runtime/data/array_source.h"

#include <string.h>

tsr_result tsr_flat_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat) {
    static const struct {
        const char *magic, *name, *extension;
    } known[] = {{"\x93NUMPY", "a NumPy array", ".npy"}, {"PK\3\4", "a zip archive", ".npz"}};
    const unsigned long long size = array->size_bytes, element = tsr_dtype_size(flat);
    char head[8] = {0};
    TSR_ASSERT(!member);
    if (!element)
        FAIL(ctx, TSR_DATA, "'%s' has none of the extensions .npy, .npz, .safetensors",
             array->spec);
    TRY(ctx, tsr_array_fetch(ctx, array, 0, head, size < sizeof head ? (size_t)size : sizeof head));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (memcmp(head, known[i].magic, strlen(known[i].magic)) == 0)
            FAIL(ctx, TSR_DATA, "'%s' is %s; give it the extension %s", array->spec, known[i].name,
                 known[i].extension);
    if (size % element)
        FAIL(ctx, TSR_DATA, "'%s' has %llu bytes; expected a multiple of %llu (flat file of %s)",
             array->spec, size, element, tsr_dtype_name(flat));
    array->is_flat = true;
    array->dtype = flat;
    array->shape = (tsr_shape){.rank = 1, .dims = {size / element}};
    return TSR_SUCCESS;
}
