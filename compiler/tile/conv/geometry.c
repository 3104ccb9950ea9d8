/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/conv/conv.h"
#include "compiler/tile/products/words.h"

#include <string.h>

static tsr_result find_operand(tsr_conv *conv, size_t index, MlirValue *out_buffer,
                               const tsr_shape **out_shape) {
    tsr_tile_group *group = conv->group;
    MlirValue operand = tsr_op_operand(group->root, index);
    MlirOperation view = tsr_value_owner(operand);
    bool unpacks = tsr_op_is(view, TSR_SCHED_UNPACK);
    if (unpacks) operand = tsr_op_operand(view, 0);
    if (!mlirValueIsABlockArgument(operand))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu is not an argument", group->name, index);
    intptr_t number = mlirBlockArgumentGetArgNumber(operand);
    const tsr_type *type = &group->types[number];
    if (unpacks) {
        conv->strip = (int64_t)type->shape.dims[2];
        tsr_value_type(tsr_op_result(view, 0), &conv->filter);
        type = &conv->filter;
    }
    if (type->shape.rank != 4 || (!tsr_dtype_is_float(type->dtype) && !conv->words.is))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed convolution", group->name);
    *out_buffer = group->buffers[number];
    *out_shape = &type->shape;
    conv->dtype = type->dtype;
    return TSR_SUCCESS;
}

static tsr_result read_axes(tsr_conv *conv) {
    MlirOperation op = conv->group->root;
    int64_t strides[2], dilation[2], padding[4];
    size_t counts[3] = {0};
    bool known = tsr_op_i64s(op, "strides", 2, strides, &counts[0]) && counts[0] == 2 &&
                 tsr_op_i64s(op, "dilation", 2, dilation, &counts[1]) && counts[1] == 2 &&
                 tsr_op_i64s(op, "padding", 4, padding, &counts[2]) && counts[2] == 4;
    if (!known)
        FAIL(conv->group->ctx, TSR_INTERNAL, "'%s': malformed convolution", conv->group->name);
    for (size_t i = 0; i < 2; i++) {
        conv->axes[i].stride = strides[i];
        conv->axes[i].dilation = dilation[i];
        conv->axes[i].low = padding[2 * i];
    }
    return TSR_SUCCESS;
}

tsr_result tsr_conv_read(tsr_tile_group *group, tsr_conv_kind kind, tsr_conv *out_conv) {
    tsr_conv conv = {.group = group, .groups = 1, .words = tsr_words_of(group->root)};
    const tsr_shape *a = NULL, *b = NULL;
    TRY(group->ctx, find_operand(&conv, 0, &conv.a, &a));
    TRY(group->ctx, find_operand(&conv, 1, &conv.b, &b));
    const tsr_shape *made = &group->types[group->input_count].shape;
    if (group->output_count != 1 || made->rank != 4 ||
        !mlirValueEqual(group->returned[0], tsr_op_result(group->root, 0)))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': the function must return only this result",
             group->name);
    conv.result = group->buffers[group->input_count];
    const tsr_shape *image = kind == TSR_CONV_OF_INPUT ? made : a;
    const tsr_shape *filter = kind == TSR_CONV_OF_FILTER ? made : kind == TSR_CONV_FORWARD ? b : a;
    const tsr_shape *result = kind == TSR_CONV_FORWARD ? made : b;
    TRY(group->ctx, read_axes(&conv));
    tsr_op_i64(group->root, "groups", &conv.groups);
    conv.images = (int64_t)image->dims[0];
    conv.channels = (int64_t)image->dims[3];
    conv.filters = (int64_t)filter->dims[3];
    conv.group_channels = (int64_t)filter->dims[2];
    conv.group_filters = conv.filters / conv.groups;
    for (size_t i = 0; i < 2; i++) {
        conv.axes[i].image = (int64_t)image->dims[i + 1];
        conv.axes[i].result = (int64_t)result->dims[i + 1];
        conv.axes[i].taps = (int64_t)filter->dims[i];
    }
    if (conv.words.is) conv.dtype = TSR_DTYPE_I32;
    conv.compute = tsr_tile_compute_dtype(conv.dtype);
    conv.storage = tsr_tile_storage_type(&group->b, conv.compute);
    if (conv.strip) TRY(group->ctx, tsr_gemm_check_strip(group, conv.strip, conv.compute));
    *out_conv = conv;
    return TSR_SUCCESS;
}

bool tsr_conv_is_empty(const tsr_conv *conv) {
    uint64_t count = 0;
    const tsr_shape *made = &conv->group->types[conv->group->input_count].shape;
    return !tsr_shape_count(made, &count) || count == 0;
}

bool tsr_conv_is_depthwise(const tsr_conv *conv) {
    return conv->groups > 1 && conv->group_channels == 1 && conv->group_filters == 1;
}

bool tsr_conv_is_pointwise(const tsr_conv *conv) {
    for (size_t i = 0; i < 2; i++) {
        const tsr_conv_axis *axis = &conv->axes[i];
        if (axis->taps != 1 || axis->stride != 1 || axis->low || axis->image != axis->result)
            return false;
    }
    return true;
}

void tsr_conv_flatten(tsr_conv *conv) {
    int64_t positions = conv->images * conv->axes[0].image * conv->axes[1].image;
    conv->images = 1;
    conv->axes[0].image = conv->axes[0].result = 1;
    conv->axes[1].image = conv->axes[1].result = positions;
}

static int64_t greatest_divisor(int64_t x, int64_t y) {
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

/* Window o with tap k reads image position i = r + t * stride if o * stride = i + low - k *
 * dilation. The taps of a phase are k0, k0 + stride / g, ...; each tap reads a window that is
 * dilation / g before the window of the previous tap. The taps are walked backwards, so that o
 * ascends. */
static void phase_of_input(const tsr_conv_axis *axis, int64_t r, int64_t *first, int64_t *tap_first,
                           int64_t *count) {
    int64_t g = greatest_divisor(axis->stride, axis->dilation), period = axis->stride / g, k0 = 0;
    while (k0 < period && (r + axis->low - k0 * axis->dilation) % axis->stride) k0++;
    *count = k0 == period || k0 >= axis->taps ? 0 : (axis->taps - 1 - k0) / period + 1;
    *tap_first = *first = 0;
    if (!*count) return;
    *tap_first = k0 + (*count - 1) * period;
    *first =
        (r + axis->low - k0 * axis->dilation) / axis->stride - (*count - 1) * (axis->dilation / g);
}

tsr_result tsr_conv_walk_make(tsr_conv *conv, const tsr_conv_axis *axis, tsr_conv_kind kind,
                              tsr_conv_walk *out_walk) {
    bool forward = kind == TSR_CONV_FORWARD;
    int64_t g = greatest_divisor(axis->stride, axis->dilation);
    int64_t phases = forward ? 1 : axis->stride < axis->image ? axis->stride : axis->image;
    int64_t *tables = TSR_NEW(conv->group->arena, int64_t, 3 * (size_t)phases);
    if (!tables) FAIL(conv->group->ctx, TSR_MEMORY, "no memory to lower '%s'", conv->group->name);
    tsr_conv_walk walk = {.phases = phases,
                          .positions = forward ? axis->result : axis->image,
                          .a_positions = forward ? axis->image : axis->result,
                          .stride = forward ? axis->stride : 1,
                          .step = forward ? axis->dilation : axis->dilation / g,
                          .tap_step = forward ? 1 : -(axis->stride / g),
                          .taps = forward ? axis->taps : 0,
                          .first = tables,
                          .tap_first = tables + phases,
                          .tap_count = tables + 2 * phases};
    for (int64_t r = 0; r < phases; r++) {
        if (forward) {
            tables[r] = -axis->low;
            tables[phases + r] = 0;
            tables[2 * phases + r] = axis->taps;
            continue;
        }
        phase_of_input(axis, r, &tables[r], &tables[phases + r], &tables[2 * phases + r]);
        if (walk.tap_count[r] > walk.taps) walk.taps = walk.tap_count[r];
    }
    *out_walk = walk;
    return TSR_SUCCESS;
}

tsr_result tsr_conv_windows(tsr_conv *conv, const tsr_conv_axis *axis, const int64_t **out_low,
                            const int64_t **out_high) {
    int64_t *tables = TSR_NEW(conv->group->arena, int64_t, 2 * (size_t)axis->taps);
    if (!tables) FAIL(conv->group->ctx, TSR_MEMORY, "no memory to lower '%s'", conv->group->name);
    for (int64_t t = 0; t < axis->taps; t++) {
        int64_t position = t * axis->dilation - axis->low, left = axis->image - position;
        int64_t low = position < 0 ? tsr_divide_up(-position, axis->stride) : 0;
        int64_t high = left > 0 ? tsr_divide_up(left, axis->stride) : 0;
        if (high > axis->result) high = axis->result;
        tables[t] = low < high ? low : high;
        tables[axis->taps + t] = high;
    }
    *out_low = tables;
    *out_high = tables + axis->taps;
    return TSR_SUCCESS;
}

MlirValue tsr_conv_lookup(tsr_conv *conv, const int64_t *table, int64_t phases, MlirValue phase) {
    tsr_tile_builder *b = &conv->group->b;
    int64_t known = 0;
    bool equal = true;
    for (int64_t i = 1; i < phases; i++) equal = equal && table[i] == table[0];
    if (equal) return tsr_tile_index(b, table[0]);
    if (tsr_tile_index_known(phase, &known)) return tsr_tile_index(b, table[known]);
    MlirType type = mlirIntegerTypeGet(b->at.context, 64);
    MlirType tensor = mlirRankedTensorTypeGet(1, &phases, type, mlirAttributeGetNull());
    tsr_attr attrs[] = {
        {"value", mlirDenseElementsAttrRawBufferGet(tensor, (size_t)phases * sizeof *table, table)},
        {NULL, {NULL}}};
    MlirValue buffer = tsr_build_value(&b->at, "tile.constant", NULL, 0,
                                       tsr_tile_buffer_type(type, 1, &phases), attrs);
    MlirValue value = tsr_tile_load(b, TSR_DTYPE_I64, buffer, phase, 0, tsr_tile_null);
    return tsr_tile_to(b, "arith.index_cast", value, tsr_tile_index_type(b));
}
