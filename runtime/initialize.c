/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/initialize.h"

#include "runtime/base/random/philox.h"
#include "runtime/base/random/uniform.h"

#include <math.h>

enum {
    BLOCK = 1 << 16, /* elements that one thread fills at a time */
    DRAWN = 256,     /* elements that one call draws */
    COST = 1000,     /* cost of one element; see tsr_threads_launch */
};

/* Draws numbers in [0, 1) for a uniform rule; the final values, which are finite, for a normal one.
 */
static void draw(const tsr_config_tensor *tensor, uint32_t seed, uint64_t first, uint64_t count,
                 double out[static DRAWN]) {
    const uint32_t key[2] = {seed, tensor->init_stream};
    if (tensor->init == TSR_INIT_NORMAL) {
        double a = tensor->init_a, b = tensor->init_b;
        double most = tsr_dtype_below(tensor->dtype, (double)INFINITY);
        tsr_philox_normals(key, first, count, out);
        for (uint64_t i = 0; i < count; i++) {
            double value = a + b * out[i];
            value = value < most ? value : most;
            out[i] = value > -most ? value : -most;
        }
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t counter[4] = {0, (uint32_t)(first + i), (uint32_t)((first + i) >> 32), 0};
        tsr_philox_words bits = tsr_philox(key, counter);
        out[i] = tsr_philox_uniform_f64(bits.words[0], bits.words[1]);
    }
}

typedef struct filling {
    const tsr_config_tensor *tensor;
    uint32_t seed;
    uint64_t first, count;
    void *data;
} filling;

static void write(const filling *f, const double *drawn, uint64_t first, uint64_t count) {
    const tsr_config_tensor *tensor = f->tensor;
    if (tensor->init == TSR_INIT_UNIFORM) {
        tsr_uniform uniform =
            tsr_uniform_make(TSR_DTYPE_F64, tensor->dtype, tensor->init_a, tensor->init_b);
        for (uint64_t i = 0; i < count; i++)
            tsr_uniform_write(&uniform, tensor->dtype, drawn[i], f->data, first + i);
    } else if (tensor->dtype == TSR_DTYPE_F32) {
        for (uint64_t i = 0; i < count; i++) ((float *)f->data)[first + i] = (float)drawn[i];
    } else {
        for (uint64_t i = 0; i < count; i++)
            tsr_dtype_write(tensor->dtype, drawn[i], f->data, first + i);
    }
}

static void fill_random(const filling *f, uint64_t begin, uint64_t end) {
    double drawn[DRAWN];
    for (uint64_t at = begin; at < end; at += DRAWN) {
        uint64_t count = end - at < DRAWN ? end - at : DRAWN;
        draw(f->tensor, f->seed, f->first + at, count, drawn);
        write(f, drawn, at, count);
    }
}

/* Fills pieces [begin, end): a kernel whose only buffer is a filling. */
static void fill_blocks(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const filling *f = args->buffers[0];
    uint64_t from = (uint64_t)begin * BLOCK, to = (uint64_t)end * BLOCK;
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
    uint64_t blocks = count / BLOCK + (count % BLOCK != 0);
    tsr_fault fault;
    TSR_ASSERT(tensor->init != TSR_INIT_DATA);
    if (tensor->init != TSR_INIT_CONSTANT && !tsr_dtype_is_float(tensor->dtype))
        FAIL(ctx, TSR_CORRUPT, "tensor '%s' has a random rule and dtype %s; expected a float",
             tensor->name, tsr_dtype_name(tensor->dtype));
    if (blocks && threads)
        tsr_threads_launch(threads, fill_blocks, buffers, blocks, blocks * BLOCK * COST, &fault);
    else if (blocks)
        fill_blocks(&(tsr_kernel_args){buffers, NULL}, 0, (int64_t)blocks);
    return TSR_SUCCESS;
}
