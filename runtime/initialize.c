/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/initialize.h"

#include "runtime/base/philox.h"

#include <math.h>
#include <string.h>

enum {
    PIECE = 1 << 16, /* elements that one thread fills at a time */
    DRAWN = 256,     /* and of these: at once */
    COST = 1000,     /* of one; see tsr_threads_launch */
};

static void draw(const tsr_config_tensor *tensor, uint32_t seed, uint64_t first, uint64_t count,
                 double out[static DRAWN]) {
    const uint32_t key[2] = {seed, tensor->init_stream};
    double a = tensor->init_a, b = tensor->init_b;
    if (tensor->init == TSR_INIT_NORMAL) {
        tsr_philox_normals(key, first, count, out);
        for (uint64_t i = 0; i < count; i++) out[i] = a + b * out[i];
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t counter[4] = {0, (uint32_t)(first + i), (uint32_t)((first + i) >> 32), 0};
        tsr_philox_words bits = tsr_philox(key, counter);
        out[i] = a + (b - a) * tsr_philox_uniform_f64(bits.words[0], bits.words[1]);
    }
}

/* The next lower number of the dtype. */
static void step_down(tsr_dtype dtype, void *data, uint64_t index) {
    if (dtype == TSR_DTYPE_F64) {
        double *x = (double *)data + index;
        *x = nextafter(*x, -INFINITY);
    } else if (dtype == TSR_DTYPE_F32) {
        float *x = (float *)data + index;
        *x = nextafterf(*x, -INFINITY);
    } else {
        uint16_t *x = (uint16_t *)data + index;
        bool zero = (*x & 0x7fff) == 0;
        *x = zero ? 0x8001 : (uint16_t)(*x >> 15 ? *x + 1 : *x - 1);
    }
}

/* Rounding may reach the bound, in f32 and already in f64. */
static void write(tsr_dtype dtype, double value, double bound, void *data, uint64_t index) {
    tsr_dtype_write(dtype, value, data, index);
    if (tsr_dtype_read(dtype, data, index) < bound) return;
    tsr_dtype_write(dtype, bound, data, index);
    if (tsr_dtype_read(dtype, data, index) >= bound) step_down(dtype, data, index);
}

typedef struct filling {
    const tsr_config_tensor *tensor;
    uint32_t seed;
    uint64_t first, count;
    void *data;
} filling;

static void fill_random(const filling *f, uint64_t begin, uint64_t end) {
    const tsr_config_tensor *tensor = f->tensor;
    double drawn[DRAWN];
    for (uint64_t at = begin; at < end; at += DRAWN) {
        uint64_t count = end - at < DRAWN ? end - at : DRAWN;
        draw(tensor, f->seed, f->first + at, count, drawn);
        if (tensor->init == TSR_INIT_NORMAL && tensor->dtype == TSR_DTYPE_F32) {
            for (uint64_t i = 0; i < count; i++) ((float *)f->data)[at + i] = (float)drawn[i];
            continue;
        }
        double bound = tensor->init == TSR_INIT_UNIFORM ? tensor->init_b : INFINITY;
        for (uint64_t i = 0; i < count; i++) write(tensor->dtype, drawn[i], bound, f->data, at + i);
    }
}

/* Pieces [begin, end), as a kernel whose one buffer is a filling. */
static void fill_pieces(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const filling *f = args->buffers[0];
    uint64_t from = (uint64_t)begin * PIECE, to = (uint64_t)end * PIECE;
    if (to > f->count) to = f->count;
    if (f->tensor->init != TSR_INIT_CONSTANT) {
        fill_random(f, from, to);
        return;
    }
    for (uint64_t i = from; i < to; i++)
        tsr_dtype_write(f->tensor->dtype, f->tensor->init_a, f->data, i);
}

tsr_result tsr_initialize_tensor(tsr_ctx *ctx, const tsr_config_tensor *tensor, uint32_t seed,
                                 tsr_threads *threads, void *data) {
    uint64_t count = 0;
    if (!tsr_shape_count(&tensor->shape, &count))
        FAIL(ctx, TSR_MEMORY, "tensor '%s' has more than 2^63 elements", tensor->name);
    return tsr_initialize_elements(ctx, tensor, seed, 0, count, threads, data);
}

tsr_result tsr_initialize_elements(tsr_ctx *ctx, const tsr_config_tensor *tensor, uint32_t seed,
                                   uint64_t first, uint64_t count, tsr_threads *threads,
                                   void *data) {
    filling f = {tensor, seed, first, count, data};
    void *buffers[] = {&f};
    uint64_t pieces = count / PIECE + (count % PIECE != 0);
    tsr_fault fault;
    TSR_ASSERT(tensor->init != TSR_INIT_DATA);
    if (tensor->init != TSR_INIT_CONSTANT && !tsr_dtype_is_float(tensor->dtype))
        FAIL(ctx, TSR_CORRUPT, "tensor '%s' has a random rule and dtype %s; expected a float",
             tensor->name, tsr_dtype_name(tensor->dtype));
    if (pieces && threads)
        tsr_threads_launch(threads, fill_pieces, buffers, pieces, pieces * PIECE * COST, &fault);
    else if (pieces)
        fill_pieces(&(tsr_kernel_args){buffers, NULL}, 0, (int64_t)pieces);
    return TSR_SUCCESS;
}
