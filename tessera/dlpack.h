/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls and training steps on arrays of other programs: tensors as DLPack describes them.
 *
 *     tsr_dlpack_view x = {"x", tensor};            from an exporter: __dlpack__ of a Python array
 *     tsr_dlpack_view y = {"y", NULL};              NULL: the library allocates it
 *     result = tsr_model_call_dlpack(&ctx, model, "predict", NULL, &x, 1, &y, 1);
 *     … read y.tensor->tensor …
 *     y.tensor->deleter(y.tensor);
 *
 * The structs have the memory layout of DLPack 1.x ("DLPack C API", dmlc.github.io/dlpack), version
 * 1.1, under names of our own, so that a program can include dlpack/dlpack.h too: a pointer to a
 * DLManagedTensorVersioned is cast to tsr_dlpack_managed *.
 *
 * A tensor may have any strides, also 0 and negative ones, and any byte offset. Inputs are only
 * read. They are read in place if the elements are floats, dense, row-major and aligned to their
 * size, the model runs on a CPU, and the entry has no loops, branches or exchanges between ranks;
 * of an entry with independent rows, all batches but a last, partial one. An output is
 * written in place if the same holds and it is aligned to 64 bytes and overlaps no input; an output
 * that the library allocates is. Everything else is copied once. With TSR_LOG_DEBUG the log says
 * which inputs and outputs were copied.
 *
 * Threads: during a call the memory of its inputs must not be freed, and should not change: an
 * input that another thread changes meanwhile gives results of a mixture, but indices are checked
 * in a copy, so that no memory outside the tensors is accessed. A model belongs to one thread at a
 * time.
 * Fork: a child process has none of the model's threads, so a model that was opened before fork()
 * cannot be used in the child: calls, steps and functions that load or save fail there with
 * TSR_USAGE. The child may open models of its own. A model on a GPU needs a process that has not
 * forked since the driver was initialised.
 */
#ifndef TSR_TESSERA_DLPACK_H
#define TSR_TESSERA_DLPACK_H

#include "tessera/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_model tsr_model;     /* tessera/tessera.h */
typedef struct tsr_trainer tsr_trainer; /* tessera/trainer.h */

/* ---- the layout of DLPack ---- */

enum { TSR_DLPACK_MAJOR = 1, TSR_DLPACK_MINOR = 1 }; /* of the tensors that the library makes */

/* DLDeviceType: those that the library knows. Others are TSR_USAGE. */
enum {
    TSR_DLPACK_CPU = 1,
    TSR_DLPACK_CUDA = 2,
    TSR_DLPACK_CUDA_HOST = 3, /* page-locked memory of the host */
};

/* DLDataTypeCode: those that have a tsr_dtype. Others are TSR_DATA. */
enum {
    TSR_DLPACK_INT = 0,
    TSR_DLPACK_UINT = 1,
    TSR_DLPACK_FLOAT = 2,
    TSR_DLPACK_BFLOAT = 4,
    TSR_DLPACK_BOOL = 6,
    TSR_DLPACK_F8E4M3FN = 10,
    TSR_DLPACK_F8E5M2 = 12,
    TSR_DLPACK_F8E8M0FNU = 14,
};

/* Bits of tsr_dlpack_managed.flags. */
enum {
    TSR_DLPACK_READ_ONLY = 1,
    TSR_DLPACK_COPIED = 2,
};

typedef struct tsr_dlpack_device { /* DLDevice */
    int32_t type, number;
} tsr_dlpack_device;

typedef struct tsr_dlpack_dtype { /* DLDataType */
    uint8_t code, bits;
    uint16_t lanes; /* 1 */
} tsr_dlpack_dtype;

typedef struct tsr_dlpack_tensor { /* DLTensor */
    void *data;                    /* borrowed */
    tsr_dlpack_device device;
    int32_t rank;
    tsr_dlpack_dtype dtype;
    int64_t *dims;
    int64_t *strides;      /* elements; NULL: dense and row-major */
    uint64_t offset_bytes; /* from `data` to element [0, …, 0] */
} tsr_dlpack_tensor;

typedef struct tsr_dlpack_version { /* DLPackVersion */
    uint32_t major, minor;
} tsr_dlpack_version;

typedef struct tsr_dlpack_managed { /* DLManagedTensorVersioned */
    tsr_dlpack_version version;
    void *manager;                                    /* private to the exporter */
    void (*deleter)(struct tsr_dlpack_managed *self); /* may be NULL */
    uint64_t flags;
    tsr_dlpack_tensor tensor;
} tsr_dlpack_managed;

/* ---- calls ---- */

typedef struct tsr_dlpack_view {
    const char *name; /* borrowed; NULL: by its place among those that the caller may give */
    tsr_dlpack_managed *tensor;
} tsr_dlpack_view;

typedef struct tsr_dlpack_options {
    size_t size_bytes; /* sizeof(tsr_dlpack_options) */
    /* The CUstream on which the caller works with the tensors in memory of a GPU; NULL: the default
     * stream. Its work that was begun before the call is done before the tensors are read or
     * written; the library's own work is done when the call returns. */
    void *stream;
} tsr_dlpack_options;

/* Returns the element type, or TSR_DTYPE_NONE for one that the library does not have. */
TSR_API tsr_dtype tsr_dlpack_get_dtype(tsr_dlpack_dtype dtype);
/* The reverse; lanes is 0 for TSR_DTYPE_NONE. */
TSR_API tsr_dlpack_dtype tsr_dlpack_make_dtype(tsr_dtype dtype);

/* Like tsr_model_call. Tensors of inputs stay the caller's, and are not deleted. An output whose
 * tensor is NULL is allocated, in memory of the host aligned to 64 bytes, and belongs to the caller
 * when the call succeeds; its deleter may be called on any thread, also after the model is closed.
 * On failure no tensor is returned. TSR_USAGE: memory of a device that is not the model's or the
 * host's, or of a read-only output; TSR_DATA: another dtype or shape, an unknown dtype, more than 8
 * dims, a negative dim, strides that exceed the address space, two elements or outputs that share
 * memory that is written, a boolean that is neither 0 nor 1; TSR_VERSION: DLPack of a major version
 * other than 1. */
TSR_API TSR_RESULT tsr_model_call_dlpack(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                         const tsr_dlpack_options *options,
                                         const tsr_dlpack_view *inputs, size_t input_count,
                                         tsr_dlpack_view *outputs, size_t output_count);

/* Like tsr_trainer_step, on tensors as tsr_model_call_dlpack takes them. Every input and output is
 * copied. */
TSR_API TSR_RESULT tsr_trainer_step_dlpack(tsr_ctx *ctx, tsr_trainer *trainer,
                                           const tsr_dlpack_options *options,
                                           const tsr_dlpack_view *inputs, size_t input_count,
                                           tsr_dlpack_view *outputs, size_t output_count);

#ifdef __cplusplus
}
#endif

#endif
