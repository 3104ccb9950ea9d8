/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows, Fourier transforms and mel filters: the cosines and sines are constants. Transforms are
 * products with them, in f64, since their terms cancel.
 */
#include "compiler/frontend/onnx/rules.h"
#include "compiler/frontend/onnx/tensor.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SIZE_MAX_OF_SIGNAL = 1 << 13 };
static const double two_pi = 6.283185307179586476925286766559;

/* A sum of cosines over `size` positions: Hann, Hamming, Blackman. */
bool tsr_onnx_rule_window(tsr_onnx_call *c) {
    static const struct {
        const char *name;
        double terms[3];
    } windows[] = {{"hann", {0.5, -0.5, 0}},
                   {"hamming", {25.0 / 46, -21.0 / 46, 0}},
                   {"blackman", {0.42, -0.5, 0.08}}};
    int64_t size = 0;
    bool periodic = tsr_onnx_attr_i(c, "periodic", 1) != 0;
    tsr_dtype dtype = tsr_onnx_type_dtype(tsr_onnx_attr_i(c, "output_datatype", TSR_ONNX_FLOAT));
    const double *terms = windows[0].terms;
    if (!tsr_onnx_in_int(c, 0, "size", &size)) return false;
    if (size < 0 || size > TSR_ONNX_KNOWN_MAX || dtype == TSR_DTYPE_NONE)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "a window of %" PRId64 " positions", size);
    for (size_t i = 0; i < TSR_COUNT(windows); i++)
        if (strcmp(c->row->with, windows[i].name) == 0) terms = windows[i].terms;
    double *values = TSR_NEW(c->arena, double, (size_t)size + 1);
    TSR_NEED(values);
    double over = (double)(periodic ? size : size - 1);
    for (int64_t i = 0; i < size; i++) {
        double angle = over > 0 ? two_pi * (double)i / over : 0;
        values[i] = terms[0] + terms[1] * cos(angle) + terms[2] * cos(2 * angle);
    }
    tsr_shape shape = {.rank = 1, .dims = {(uint64_t)size}};
    if (tsr_dtype_is_float(dtype))
        return tsr_onnx_out(c, 0, tsr_onnx_numbers(c, dtype, &shape, values));
    MlirValue y = tsr_onnx_numbers(c, TSR_DTYPE_F64, &shape, values);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, y, dtype));
}

/* Filters between frequencies that are equally far apart on the mel scale. */
bool tsr_onnx_rule_mel_weights(tsr_onnx_call *c) {
    double low = 0, high = 0;
    int64_t bins = 0, size = 0, rate = 0;
    tsr_dtype dtype = tsr_onnx_type_dtype(tsr_onnx_attr_i(c, "output_datatype", TSR_ONNX_FLOAT));
    if (!tsr_onnx_in_int(c, 0, "num_mel_bins", &bins) ||
        !tsr_onnx_in_int(c, 1, "dft_length", &size) ||
        !tsr_onnx_in_int(c, 2, "sample_rate", &rate) ||
        !tsr_onnx_in_f64(c, 3, "lower_edge_hertz", &low) ||
        !tsr_onnx_in_f64(c, 4, "upper_edge_hertz", &high))
        return false;
    if (bins < 1 || size < 1 || rate < 1 || bins > SIZE_MAX_OF_SIGNAL ||
        size > SIZE_MAX_OF_SIGNAL || !tsr_dtype_is_float(dtype))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "%" PRId64 " bins of %" PRId64 " positions",
                             bins, size);
    int64_t rows = size / 2 + 1, points = bins + 2;
    double *values = TSR_NEW(c->arena, double, (size_t)(rows * bins) + 1);
    int64_t *edges = TSR_NEW(c->arena, int64_t, (size_t)points);
    TSR_NEED(values && edges ? c : NULL);
    double from = 2595 * log10(1 + low / 700), to = 2595 * log10(1 + high / 700);
    for (int64_t i = 0; i < points; i++) {
        double mel = (double)i * (to - from) / (double)points + from;
        double hertz = 700 * (pow(10, mel / 2595) - 1);
        edges[i] = (int64_t)floor((double)(size + 1) * hertz / (double)rate);
    }
    for (int64_t i = 0; i < bins; i++) {
        int64_t begin = edges[i], middle = edges[i + 1], end = edges[i + 2];
        if (middle == begin && middle >= 0 && middle < rows) values[middle * bins + i] = 1;
        for (int64_t k = begin; k <= middle && middle != begin && k < rows; k++)
            values[k * bins + i] = (double)(k - begin) / (double)(middle - begin);
        for (int64_t k = middle; k < end && k < rows; k++)
            values[k * bins + i] = (double)(end - k) / (double)(end - middle);
    }
    tsr_shape shape = {.rank = 2, .dims = {(uint64_t)rows, (uint64_t)bins}};
    return tsr_onnx_out(c, 0, tsr_onnx_numbers(c, dtype, &shape, values));
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

/* cos or sin of turn * i * k / size, [rows, columns] */
static MlirValue waves(tsr_onnx_call *c, tsr_dtype dtype, int64_t rows, int64_t columns,
                       int64_t size, bool is_sine) {
    double *values = TSR_NEW(c->arena, double, (size_t)(rows * columns) + 1);
    TSR_NEED(values);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++) {
            double angle = two_pi * (double)(i * k % size) / (double)size;
            values[i * columns + k] = is_sine ? sin(angle) : cos(angle);
        }
    tsr_shape shape = {.rank = 2, .dims = {(uint64_t)rows, (uint64_t)columns}};
    return tsr_onnx_numbers(c, dtype, &shape, values);
}

static MlirValue part_of(tsr_onnx_call *c, MlirValue x, int64_t which) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    x = tsr_onnx_slice_dim(c, x, shape.rank - 1, which, 1, 1);
    shape.rank--;
    return tsr_onnx_reshape(c, x, &shape);
}

/* Real and imaginary part of the transform along the last dim of [.., size]; `imaginary` may be
 * null. */
static void transform(tsr_onnx_call *c, MlirValue real, MlirValue imaginary, int64_t results,
                      bool inverse, MlirValue out[2]) {
    int64_t size = (int64_t)tsr_onnx_dim_of(real, tsr_onnx_rank(real) - 1);
    tsr_dtype dtype = tsr_onnx_dtype(real);
    MlirValue cosine = waves(c, dtype, size, results, size, false);
    MlirValue sine = waves(c, dtype, size, results, size, true);
    if (!inverse) sine = EMIT(c, "neg", sine);
    out[0] = tsr_onnx_product(c, real, cosine);
    out[1] = tsr_onnx_product(c, real, sine);
    if (!mlirValueIsNull(imaginary)) {
        out[0] = EMIT(c, "sub", out[0], tsr_onnx_product(c, imaginary, sine));
        out[1] = EMIT(c, "add", out[1], tsr_onnx_product(c, imaginary, cosine));
    }
    for (size_t i = 0; i < 2 && inverse; i++)
        out[i] = EMIT(c, "div", out[i], tsr_onnx_number(c, out[i], (double)size));
}

/* Puts real and imaginary part side by side, and the transformed dim back. */
static MlirValue join(tsr_onnx_call *c, const MlirValue parts[2], uint32_t axis) {
    MlirValue both[2];
    for (size_t i = 0; i < 2; i++) {
        MlirValue x = tsr_onnx_swap(c, parts[i], axis, tsr_onnx_rank(parts[i]) - 1);
        tsr_shape shape = tsr_onnx_type_of(x).shape;
        shape.dims[shape.rank++] = 1;
        both[i] = tsr_onnx_reshape(c, x, &shape);
    }
    return tsr_onnx_concat(c, 2, both, tsr_onnx_rank(both[0]) - 1);
}

/* Cuts the dim, or fills it with zeros. */
static MlirValue fit_length(tsr_onnx_call *c, MlirValue x, uint32_t axis, int64_t length) {
    int64_t low[TSR_RANK_MAX] = {0}, high[TSR_RANK_MAX] = {0};
    int64_t has = (int64_t)tsr_onnx_dim_of(x, axis);
    if (has > length) return tsr_onnx_slice_dim(c, x, axis, 0, length, 1);
    high[axis] = length - has;
    return tsr_onnx_pad(c, x, low, high, NULL, 0);
}

/* The real signal of `length` whose transform begins with these bins, along the last dim. The bins
 * that are missing are the conjugates of those between the first and the middle one. */
static MlirValue from_onesided(tsr_onnx_call *c, MlirValue real, MlirValue imaginary,
                               int64_t length) {
    int64_t bins = length / 2 + 1;
    const tsr_shape list = {.rank = 1, .dims = {(uint64_t)bins}};
    double *weights = TSR_NEW(c->arena, double, (size_t)bins);
    TSR_NEED(weights);
    for (int64_t i = 0; i < bins; i++)
        weights[i] = (i == 0 || 2 * i == length ? 1.0 : 2.0) / (double)length;
    MlirValue share = tsr_onnx_numbers(c, tsr_onnx_dtype(real), &list, weights);
    tsr_dtype dtype = tsr_onnx_dtype(real);
    MlirValue y = tsr_onnx_product(c, EMIT(c, "mul", real, share),
                                   waves(c, dtype, bins, length, length, false));
    if (mlirValueIsNull(imaginary)) return y;
    return EMIT(c, "sub", y,
                tsr_onnx_product(c, EMIT(c, "mul", imaginary, share),
                                 waves(c, dtype, bins, length, length, true)));
}

bool tsr_onnx_rule_dft(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), parts[2];
    int64_t given = tsr_onnx_attr_i(c, "axis", 1), length = 0;
    bool inverse = tsr_onnx_attr_i(c, "inverse", 0) != 0;
    bool onesided = tsr_onnx_attr_i(c, "onesided", 0) != 0;
    uint32_t axis;
    if (!tsr_onnx_need_rank(c, "the input", x, 2, TSR_RANK_MAX)) return false;
    uint32_t rank = tsr_onnx_rank(x);
    if (c->opset >= 20) {
        given = -2;
        if (tsr_onnx_has(c, 2) && !tsr_onnx_in_int(c, 2, "axis", &given)) return false;
    }
    if (!tsr_onnx_axis(c, "axis", given, rank, &axis)) return false;
    uint64_t has = 0, positions = 0;
    if (!tsr_onnx_known_dim(c, "the input", x, axis, &positions) ||
        !tsr_onnx_known_dim(c, "the input", x, rank - 1, &has))
        return false;
    length = (int64_t)positions;
    if (onesided && inverse && !tsr_onnx_has(c, 1)) length = 2 * (length - 1);
    if (tsr_onnx_has(c, 1) && !tsr_onnx_in_int(c, 1, "dft_length", &length)) return false;
    if (axis == rank - 1 || length < 1 || length > SIZE_MAX_OF_SIGNAL || has > 2)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT,
                             "a transform of %" PRId64 " positions along axis %u", length, axis);
    tsr_dtype dtype = tsr_onnx_dtype(x);
    bool is_half = onesided && inverse;
    x = fit_length(c, x, axis, is_half ? length / 2 + 1 : length);
    x = tsr_onnx_cast(c, x, TSR_DTYPE_F64);
    MlirValue real = tsr_onnx_swap(c, part_of(c, x, 0), axis, rank - 2);
    MlirValue imaginary = {NULL};
    if (has == 2) imaginary = tsr_onnx_swap(c, part_of(c, x, 1), axis, rank - 2);
    if (is_half) {
        MlirValue y = tsr_onnx_swap(c, from_onesided(c, real, imaginary, length), axis, rank - 2);
        tsr_shape shape = tsr_onnx_type_of(y).shape;
        shape.dims[shape.rank++] = 1;
        return tsr_onnx_out(c, 0, tsr_onnx_cast(c, tsr_onnx_reshape(c, y, &shape), dtype));
    }
    transform(c, real, imaginary, onesided ? length / 2 + 1 : length, inverse, parts);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, join(c, parts, axis), dtype));
}

/* Frames of the signal [B, L, 1 or 2], windowed and transformed: [B, frames, bins, 2]. */
bool tsr_onnx_rule_stft(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), window = tsr_onnx_in_or_null(c, 2), parts[2];
    int64_t step = 0, length = 0;
    bool onesided = tsr_onnx_attr_i(c, "onesided", 1) != 0;
    if (!tsr_onnx_need_rank(c, "the signal", x, 3, 3) ||
        !tsr_onnx_in_int(c, 1, "frame_step", &step))
        return false;
    if (!mlirValueIsNull(window)) length = (int64_t)tsr_onnx_dim_of(window, 0);
    if (tsr_onnx_has(c, 3) && !tsr_onnx_in_int(c, 3, "frame_length", &length)) return false;
    int64_t size = (int64_t)tsr_onnx_dim_of(x, 1), frames = 0;
    if (step > 0 && length > 0 && length <= size) frames = (size - length) / step + 1;
    if (frames < 1 || length > SIZE_MAX_OF_SIGNAL || frames > TSR_ONNX_KNOWN_MAX / length ||
        (!mlirValueIsNull(window) && tsr_onnx_dim_of(window, 0) != (uint64_t)length))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "frames of %" PRId64 " by %" PRId64, length,
                             step);
    int64_t *positions = TSR_NEW(c->arena, int64_t, (size_t)(frames * length));
    TSR_NEED(positions);
    for (int64_t i = 0; i < frames * length; i++) positions[i] = i / length * step + i % length;
    tsr_type type = {.dtype = TSR_DTYPE_I64,
                     .shape = {.rank = 2, .dims = {(uint64_t)frames, (uint64_t)length}}};
    tsr_dtype dtype = tsr_onnx_dtype(x);
    MlirValue cut = tsr_onnx_gather(c, x, tsr_onnx_constant(c, &type, positions), 1);
    cut = tsr_onnx_cast(c, cut, TSR_DTYPE_F64);
    if (!mlirValueIsNull(window)) window = tsr_onnx_cast(c, window, TSR_DTYPE_F64);
    MlirValue real = part_of(c, cut, 0), imaginary = {NULL};
    bool is_complex = tsr_onnx_dim_of(x, 2) == 2;
    if (is_complex) imaginary = part_of(c, cut, 1);
    if (!mlirValueIsNull(window)) {
        real = EMIT(c, "mul", real, window);
        if (is_complex) imaginary = EMIT(c, "mul", imaginary, window);
    }
    transform(c, real, imaginary, onesided ? length / 2 + 1 : length, false, parts);
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, join(c, parts, 2), dtype));
}
