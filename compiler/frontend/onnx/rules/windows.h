/* SPDX-License-Identifier: Apache-2.0
 *
 * The windows of convolutions and pooling over the dims of an image [N, C, D1 … Dn].
 */
#ifndef TSR_COMPILER_ONNX_WINDOWS_H
#define TSR_COMPILER_ONNX_WINDOWS_H

#include "compiler/frontend/onnx/rules.h"

typedef struct tsr_onnx_windows {
    uint32_t count; /* dims of the image without N and C: 1 to 3 */
    int64_t size[3], stride[3], dilation[3], low[3], high[3];
    uint64_t out[3]; /* number of windows: a dim, which may be open */
    int64_t over[3]; /* positions beyond the padding that the last window covers: ceil_mode */
} tsr_onnx_windows;

/* Reads strides, dilations, pads, auto_pad and ceil_mode for windows of `size` over `x`. Over an
 * open dim their number must be floor((dim + a) / stride). */
bool tsr_onnx_read_windows(tsr_onnx_call *c, MlirValue x, const int64_t *size,
                           tsr_onnx_windows *out_windows);

/* The dims of a filter [F, C, K1 … Kn] from K1 on; fails if one of all its dims is open. */
bool tsr_onnx_filter_sizes(tsr_onnx_call *c, MlirValue filter, int64_t out_sizes[static 3]);

/* A correlation of x [N, C, …] with a filter [F, C / groups, …], both floats. */
MlirValue tsr_onnx_conv(tsr_onnx_call *c, MlirValue x, MlirValue filter,
                        const tsr_onnx_windows *windows, int64_t groups);
/* [N, C, …] to [N, …, C], and back. */
MlirValue tsr_onnx_channels_last(tsr_onnx_call *c, MlirValue x);
MlirValue tsr_onnx_channels_first(tsr_onnx_call *c, MlirValue x);
/* [C] as [C, 1 …], to be broadcast to `rank` dims whose dim 1 are the channels. */
MlirValue tsr_onnx_per_channel(tsr_onnx_call *c, MlirValue x, uint32_t rank);

#endif
