/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of DLPack as tensors with strides, and the reverse. Private to the loader.
 */
#ifndef TSR_LOADER_CALLS_DLPACK_H
#define TSR_LOADER_CALLS_DLPACK_H

#include "loader/calls/strided.h"
#include "loader/model.h"
#include "tessera/dlpack.h"

/* What a list of views is for. */
typedef struct tsr_dlpack_side {
    const char *what; /* "input" */
    bool is_written;
} tsr_dlpack_side;

/* Checks view `index` and describes its memory. */
TSR_RESULT tsr_dlpack_read(tsr_ctx *ctx, const tsr_model *model, const tsr_dlpack_side *side,
                           const tsr_dlpack_view *view, size_t index, tsr_strided *out_tensor);
/* Waits for the caller's work if a tensor is in memory of a GPU. */
TSR_RESULT tsr_dlpack_await(tsr_ctx *ctx, const tsr_model *model, const void *stream,
                            const tsr_strided *tensors, size_t count);
/* Copies a tensor that lies in memory of a GPU with gaps to memory of the host, in the arena. */
TSR_RESULT tsr_dlpack_fetch(tsr_ctx *ctx, const tsr_model *model, tsr_arena *arena,
                            tsr_strided *tensor);
/* A dense tensor in memory of its own, aligned to TSR_BUFFER_ALIGN_BYTES. */
TSR_RESULT tsr_dlpack_create(tsr_ctx *ctx, const char *name, tsr_dtype dtype,
                             const tsr_shape *shape, tsr_dlpack_managed **out_tensor);

#endif
