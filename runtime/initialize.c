/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/initialize.h"

#include "runtime/base/philox.h"

#include <math.h>

static double draw(const tsr_config_tensor *tensor, uint32_t seed, uint64_t element) {
    const uint32_t key[2] = {seed, tensor->init_stream};
    const uint32_t counter[4] = {0, (uint32_t)element, (uint32_t)(element >> 32), 0};
    tsr_philox_words bits = tsr_philox(key, counter);
    if (tensor->init == TSR_INIT_NORMAL)
        return tensor->init_a +
               tensor->init_b * tsr_philox_normal_f64(bits.words[0], bits.words[1]);
    double u = tsr_philox_uniform_f64(bits.words[0], bits.words[1]);
    return tensor->init_a + (tensor->init_b - tensor->init_a) * u;
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
static void fill_random(const tsr_config_tensor *tensor, uint32_t seed, uint64_t first,
                        uint64_t count, void *data) {
    double bound = tensor->init == TSR_INIT_UNIFORM ? tensor->init_b : INFINITY;
    tsr_dtype dtype = tensor->dtype;
    for (uint64_t i = 0; i < count; i++) {
        tsr_dtype_write(dtype, draw(tensor, seed, first + i), data, i);
        if (tsr_dtype_read(dtype, data, i) >= bound) {
            tsr_dtype_write(dtype, bound, data, i);
            if (tsr_dtype_read(dtype, data, i) >= bound) step_down(dtype, data, i);
        }
    }
}

tsr_result tsr_initialize_tensor(tsr_ctx *ctx, const tsr_config_tensor *tensor, uint32_t seed,
                                 void *data) {
    uint64_t count = 0;
    if (!tsr_shape_count(&tensor->shape, &count))
        FAIL(ctx, TSR_MEMORY, "tensor '%s' has more than 2^63 elements", tensor->name);
    return tsr_initialize_elements(ctx, tensor, seed, 0, count, data);
}

tsr_result tsr_initialize_elements(tsr_ctx *ctx, const tsr_config_tensor *tensor, uint32_t seed,
                                   uint64_t first, uint64_t count, void *data) {
    TSR_ASSERT(tensor->init != TSR_INIT_DATA);
    if (tensor->init == TSR_INIT_CONSTANT) {
        for (uint64_t i = 0; i < count; i++)
            tsr_dtype_write(tensor->dtype, tensor->init_a, data, i);
        return TSR_SUCCESS;
    }
    if (!tsr_dtype_is_float(tensor->dtype))
        FAIL(ctx, TSR_CORRUPT, "tensor '%s' has a random rule and dtype %s; expected a float",
             tensor->name, tsr_dtype_name(tensor->dtype));
    fill_random(tensor, seed, first, count, data);
    return TSR_SUCCESS;
}
