/* SPDX-License-Identifier: Apache-2.0
 *
 * A flat file: only elements, little-endian, one dimension.
 */
#include "runtime/base/plural.h"
#include "runtime/data/foreign.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

tsr_result tsr_flat_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat) {
    const uint64_t size = array->size_bytes, element = tsr_dtype_size(flat);
    TSR_ASSERT(!member);
    if (!element)
        FAIL(ctx, TSR_DATA, "'%s' has none of the extensions .npy, .npz, .safetensors",
             array->spec);
    TRY(ctx, tsr_foreign_check(ctx, array, flat));
    if (size % element)
        FAIL(ctx, TSR_DATA,
             "'%s' has %" PRIu64 " byte%s; expected a multiple of %" PRIu64 " (flat file of %s)",
             array->spec, size, TSR_PLURAL(size), element, tsr_dtype_name(flat));
    array->is_flat = true;
    array->dtype = flat;
    array->shape = (tsr_shape){.rank = 1, .dims = {size / element}};
    return TSR_SUCCESS;
}

void tsr_array_tell_flat(tsr_ctx *ctx, const tsr_array *array, const char *what, const char *name,
                         const tsr_shape *shape) {
    char row_text[TSR_TYPE_TEXT_MAX], rest_text[64] = "";
    const char *dtype = tsr_dtype_name(array->dtype);
    tsr_shape row = {.rank = shape->rank ? shape->rank - 1 : 0};
    uint64_t elements = 0;
    if (!array->is_flat || !shape->rank) return;
    memcpy(row.dims, shape->dims + 1, row.rank * sizeof row.dims[0]);
    tsr_type_format(array->dtype, &row, row_text);
    row_text[row.rank ? strlen(row_text) - strlen(dtype) - 1 : 0] = 0; /* "28x28xui8" */
    if (tsr_shape_count(shape, &elements) && elements < array->count)
        snprintf(rest_text, sizeof rest_text, "; its last %" PRIu64 " element%s %s not fill a row",
                 array->count - elements, TSR_PLURAL(array->count - elements),
                 array->count - elements == 1 ? "does" : "do");
    tsr_log(ctx, TSR_LOG_NOTICE, "%s '%s': '%s' is a flat file of %s, %" PRIu64 " row%s%s%s%s",
            what, name, array->spec, dtype, shape->dims[0], TSR_PLURAL(shape->dims[0]),
            row.rank ? " of " : "", row_text, rest_text);
}
