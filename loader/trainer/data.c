/* SPDX-License-Identifier: Apache-2.0
 *
 * What a caller that brings the batches needs to know about data: its digest, the order of samples.
 */
#include "runtime/base/result.h"
#include "runtime/data/fingerprint.h"
#include "runtime/data/shuffle.h"
#include "tessera/trainer.h"

#include <inttypes.h>
#include <string.h>

static tsr_result check_array(tsr_ctx *ctx, const tsr_tensor *arrays, size_t index,
                              uint64_t *out_size_bytes) {
    const tsr_tensor *array = &arrays[index];
    if (!array->name || !array->name[0]) FAIL(ctx, TSR_USAGE, "array %zu has no name", index);
    for (size_t i = 0; i < index; i++)
        if (strcmp(arrays[i].name, array->name) == 0)
            FAIL(ctx, TSR_USAGE, "array '%s' is given twice", array->name);
    if (tsr_dtype_size(array->dtype) == 0 ||
        !tsr_shape_size(&array->shape, array->dtype, out_size_bytes))
        FAIL(ctx, TSR_USAGE, "array '%s' has an unknown dtype, or 2^63 bytes or more", array->name);
    if (*out_size_bytes && !array->data)
        FAIL(ctx, TSR_USAGE, "array '%s' has no memory; expected %" PRIu64 " bytes", array->name,
             *out_size_bytes);
    return TSR_SUCCESS;
}

tsr_result tsr_data_digest(tsr_ctx *ctx, const tsr_tensor *arrays, size_t count,
                           tsr_digest *out_digest) {
    tsr_named_digest named[TSR_FINGERPRINT_ARRAYS_MAX];
    if (count == 0 || count > TSR_FINGERPRINT_ARRAYS_MAX)
        FAIL(ctx, TSR_USAGE, "%zu arrays; expected 1 to %d", count, TSR_FINGERPRINT_ARRAYS_MAX);
    for (size_t i = 0; i < count; i++) {
        uint64_t size_bytes = 0;
        TRY(ctx, check_array(ctx, arrays, i, &size_bytes));
        named[i] =
            (tsr_named_digest){arrays[i].name, tsr_hash_tree(arrays[i].data, (size_t)size_bytes)};
    }
    *out_digest = tsr_fingerprint_combine(named, count);
    return TSR_SUCCESS;
}

uint64_t tsr_position_get_row(const tsr_position *position, uint64_t index) {
    TSR_ASSERT(position->rows > 0);
    uint64_t offset = position->epoch_base * position->rows - position->epoch_base_sample;
    return tsr_shuffle_index((uint32_t)position->seed, position->rows,
                             offset + position->sample + index);
}
