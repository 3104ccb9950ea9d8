/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: element types · tensors of the caller · tensors that the library makes.
 */
#include "loader/calls/dlpack.h"

#include "runtime/base/array.h"
#include "runtime/base/kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(tsr_dlpack_tensor) == 48 && sizeof(tsr_dlpack_managed) == 80 &&
                  offsetof(tsr_dlpack_managed, tensor) == 32 &&
                  offsetof(tsr_dlpack_tensor, strides) == 32,
              "the layout of DLPack with pointers of 64 bits");

/* ---- element types ---- */

static const tsr_dlpack_dtype dtypes[] = {
    [TSR_DTYPE_F64] = {TSR_DLPACK_FLOAT, 64, 1},
    [TSR_DTYPE_F32] = {TSR_DLPACK_FLOAT, 32, 1},
    [TSR_DTYPE_F16] = {TSR_DLPACK_FLOAT, 16, 1},
    [TSR_DTYPE_BF16] = {TSR_DLPACK_BFLOAT, 16, 1},
    [TSR_DTYPE_I64] = {TSR_DLPACK_INT, 64, 1},
    [TSR_DTYPE_I32] = {TSR_DLPACK_INT, 32, 1},
    [TSR_DTYPE_I16] = {TSR_DLPACK_INT, 16, 1},
    [TSR_DTYPE_I8] = {TSR_DLPACK_INT, 8, 1},
    [TSR_DTYPE_UI64] = {TSR_DLPACK_UINT, 64, 1},
    [TSR_DTYPE_UI32] = {TSR_DLPACK_UINT, 32, 1},
    [TSR_DTYPE_UI16] = {TSR_DLPACK_UINT, 16, 1},
    [TSR_DTYPE_UI8] = {TSR_DLPACK_UINT, 8, 1},
    [TSR_DTYPE_I1] = {TSR_DLPACK_BOOL, 8, 1},
    [TSR_DTYPE_F8E4M3FN] = {TSR_DLPACK_F8E4M3FN, 8, 1},
    [TSR_DTYPE_F8E5M2] = {TSR_DLPACK_F8E5M2, 8, 1},
    [TSR_DTYPE_F8E8M0FNU] = {TSR_DLPACK_F8E8M0FNU, 8, 1},
};
enum { DTYPE_COUNT = TSR_COUNT(dtypes) };
#define X(name, number, size, kind, type, mlir, safetensors, numpy)                                \
    static_assert(number < DTYPE_COUNT, "a row in dtypes");
#include "tessera/dtype.def"
#undef X

tsr_dtype tsr_dlpack_get_dtype(tsr_dlpack_dtype dtype) {
    for (int i = TSR_DTYPE_NONE + 1; i < DTYPE_COUNT; i++)
        if (dtype.lanes == 1 && dtypes[i].bits == dtype.bits && dtypes[i].code == dtype.code)
            return (tsr_dtype)i;
    return TSR_DTYPE_NONE;
}

tsr_dlpack_dtype tsr_dlpack_make_dtype(tsr_dtype dtype) {
    return (unsigned)dtype < DTYPE_COUNT ? dtypes[dtype] : dtypes[TSR_DTYPE_NONE];
}

/* ---- tensors of the caller ---- */

/* "input 'x'", or "input 0" for a view without name. */
enum { SUBJECT_MAX = TSR_NAME_MAX + 32 };
static const char *subject(const tsr_dlpack_side *side, const tsr_dlpack_view *view, size_t index,
                           char out_text[static SUBJECT_MAX]) {
    if (view->name)
        snprintf(out_text, SUBJECT_MAX, "%s '%s'", side->what, view->name);
    else
        snprintf(out_text, SUBJECT_MAX, "%s %zu", side->what, index);
    return out_text;
}

static const char *const codes[] = {"int",    "uint",    "float", "opaque handle",
                                    "bfloat", "complex", "bool"};

static tsr_result read_type(tsr_ctx *ctx, const char *of, const tsr_dlpack_tensor *from,
                            tsr_strided *out) {
    out->dtype = tsr_dlpack_get_dtype(from->dtype);
    if (out->dtype == TSR_DTYPE_NONE) {
        bool is_known = from->dtype.code < TSR_COUNT(codes);
        FAIL(ctx, TSR_DATA,
             "%s has DLPack's type code %u (%s) with %u bits and %u lanes, which no dtype of "
             "Tessera has",
             of, from->dtype.code, is_known ? codes[from->dtype.code] : "a small float or newer",
             from->dtype.bits, from->dtype.lanes);
    }
    if (from->rank < 0 || from->rank > TSR_RANK_MAX)
        FAIL(ctx, TSR_DATA, "%s has %" PRId32 " dims; expected 0 to %d", of, from->rank,
             TSR_RANK_MAX);
    if (from->rank && !from->dims) FAIL(ctx, TSR_DATA, "%s has no dims", of);
    out->shape.rank = (uint32_t)from->rank;
    for (int32_t d = 0; d < from->rank; d++) {
        if (from->dims[d] < 0)
            FAIL(ctx, TSR_DATA, "dim %" PRId32 " of %s is %" PRId64 "; expected at least 0", d, of,
                 from->dims[d]);
        out->shape.dims[d] = (uint64_t)from->dims[d];
    }
    return TSR_SUCCESS;
}

static tsr_result read_device(tsr_ctx *ctx, const tsr_model *model, const char *of,
                              tsr_dlpack_device device, tsr_location *out_location) {
    *out_location = TSR_LOCATION_HOST;
    if (device.type == TSR_DLPACK_CPU || device.type == TSR_DLPACK_CUDA_HOST) return TSR_SUCCESS;
    if (device.type != TSR_DLPACK_CUDA)
        FAIL(ctx, TSR_USAGE,
             "%s is in memory of DLPack's device type %" PRId32
             "; expected the CPU (%d), CUDA (%d) or page-locked memory (%d)",
             of, device.type, TSR_DLPACK_CPU, TSR_DLPACK_CUDA, TSR_DLPACK_CUDA_HOST);
    if (!model->device->type->read_caller)
        FAIL(ctx, TSR_USAGE, "%s is in memory of GPU %" PRId32 "; the model runs on '%s'", of,
             device.number, tsr_bundle_get_target_name(model->bundle, model->target));
    int32_t number = model->device->type->get_number(model->device);
    if (device.number != number)
        FAIL(ctx, TSR_USAGE, "%s is in memory of GPU %" PRId32 "; the model runs on GPU %" PRId32,
             of, device.number, number);
    *out_location = TSR_LOCATION_DEVICE;
    return TSR_SUCCESS;
}

tsr_result tsr_dlpack_read(tsr_ctx *ctx, const tsr_model *model, const tsr_dlpack_side *side,
                           const tsr_dlpack_view *view, size_t index, tsr_strided *out_tensor) {
    char of[SUBJECT_MAX];
    const tsr_dlpack_managed *managed = view->tensor;
    *out_tensor = (tsr_strided){.name = view->name, .by_index = !view->name};
    subject(side, view, index, of);
    if (!managed) FAIL(ctx, TSR_USAGE, "%s has no tensor", of);
    if (managed->version.major != TSR_DLPACK_MAJOR)
        FAIL(ctx, TSR_VERSION, "%s is a tensor of DLPack %" PRIu32 ".%" PRIu32 "; expected %d.x",
             of, managed->version.major, managed->version.minor, TSR_DLPACK_MAJOR);
    if (side->is_written && (managed->flags & TSR_DLPACK_READ_ONLY))
        FAIL(ctx, TSR_USAGE, "%s is read-only", of);
    const tsr_dlpack_tensor *tensor = &managed->tensor;
    TRY(ctx, read_type(ctx, of, tensor, out_tensor));
    TRY(ctx, read_device(ctx, model, of, tensor->device, &out_tensor->location));
    if (!tsr_strided_set(out_tensor, tensor->strides))
        FAIL(ctx, TSR_DATA, "the dims and strides of %s reach beyond 2^63 bytes", of);
    if (tensor->data) out_tensor->data = (char *)tensor->data + tensor->offset_bytes;
    if (!side->is_written) return TSR_SUCCESS;
    if (tsr_strided_folds(out_tensor))
        FAIL(ctx, TSR_DATA, "elements of %s share memory: its strides are too small for its dims",
             of);
    if (out_tensor->location == TSR_LOCATION_DEVICE && !out_tensor->is_dense)
        FAIL(ctx, TSR_DATA, "%s is in memory of a GPU and has gaps; expected a dense tensor", of);
    return TSR_SUCCESS;
}

tsr_result tsr_dlpack_await(tsr_ctx *ctx, const tsr_model *model, const void *stream,
                            const tsr_strided *tensors, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tensors[i].location == TSR_LOCATION_DEVICE)
            return model->device->type->await_caller(ctx, model->device, stream);
    return TSR_SUCCESS;
}

tsr_result tsr_dlpack_fetch(tsr_ctx *ctx, const tsr_model *model, tsr_arena *arena,
                            tsr_strided *tensor) {
    int64_t low, high;
    if (tensor->location == TSR_LOCATION_HOST || tensor->is_dense) return TSR_SUCCESS;
    tsr_strided_range(tensor, &low, &high);
    uint64_t size = (uint64_t)(high - low);
    char *copy = tsr_arena_alloc(arena, (size_t)size, 1, TSR_BUFFER_ALIGN_BYTES);
    if (!copy) FAIL(ctx, TSR_MEMORY, "no memory for a copy of %" PRIu64 " bytes of a GPU", size);
    TRY(ctx, model->device->type->read_caller(ctx, model->device, tensor->data + low, copy, size));
    tensor->data = copy - low;
    tensor->location = TSR_LOCATION_HOST;
    return TSR_SUCCESS;
}

/* ---- tensors that the library makes ---- */

/* One allocation: this, padding, the elements. */
typedef struct owned {
    tsr_dlpack_managed managed;
    int64_t dims[TSR_RANK_MAX], strides[TSR_RANK_MAX];
} owned;
enum { OWNED_BYTES = 256 };
static_assert(sizeof(owned) <= OWNED_BYTES && OWNED_BYTES % TSR_BUFFER_ALIGN_BYTES == 0,
              "the elements are aligned");

static void delete_owned(tsr_dlpack_managed *self) { free(self); }

tsr_result tsr_dlpack_create(tsr_ctx *ctx, const char *name, tsr_dtype dtype,
                             const tsr_shape *shape, tsr_dlpack_managed **out_tensor) {
    uint64_t size = 0, total = OWNED_BYTES + TSR_BUFFER_ALIGN_BYTES - 1;
    owned *self = NULL;
    bool fits = tsr_shape_size(shape, dtype, &size) && !__builtin_add_overflow(total, size, &total);
    total &= ~(uint64_t)(TSR_BUFFER_ALIGN_BYTES - 1);
    if (fits) self = aligned_alloc(TSR_BUFFER_ALIGN_BYTES, (size_t)total);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for output '%s' of %" PRIu64 " bytes", name, size);
    *self = (owned){.managed = {.version = {TSR_DLPACK_MAJOR, TSR_DLPACK_MINOR},
                                .deleter = delete_owned,
                                .tensor = {.data = (char *)self + OWNED_BYTES,
                                           .device = {TSR_DLPACK_CPU, 0},
                                           .rank = (int32_t)shape->rank,
                                           .dtype = tsr_dlpack_make_dtype(dtype),
                                           .dims = self->dims,
                                           .strides = self->strides}}};
    int64_t stride = 1;
    for (uint32_t d = shape->rank; d-- > 0;) {
        self->dims[d] = (int64_t)shape->dims[d];
        self->strides[d] = stride;
        stride *= shape->dims[d] ? self->dims[d] : 1;
    }
    *out_tensor = &self->managed;
    return TSR_SUCCESS;
}
