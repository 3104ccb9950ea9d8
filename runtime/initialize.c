/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/initialize.h"

#include "runtime/base/philox.h"

#include <math.h>
#include <string.h>

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

/* Rounding may reach the bound, in f32 and already in f64. */
static double below_f64(double value, double bound) {
    return value >= bound ? nextafter(bound, -INFINITY) : value;
}

static float below_f32(double value, double bound) {
    float rounded = (float)value;
    return (double)rounded >= bound ? nextafterf((float)bound, -INFINITY) : rounded;
}

static void fill_random(const tsr_config_tensor *tensor, uint32_t seed, uint64_t count,
                        void *data) {
    double bound = tensor->init == TSR_INIT_UNIFORM ? tensor->init_b : INFINITY;
    for (uint64_t i = 0; i < count; i++) {
        double value = draw(tensor, seed, i);
        if (tensor->dtype == TSR_DTYPE_F64)
            ((double *)data)[i] = below_f64(value, bound);
        else
            ((float *)data)[i] = below_f32(value, bound);
    }
}

static void store_constant(tsr_dtype dtype, double value, void *element) {
    switch (dtype) {
    case TSR_DTYPE_F64:
        memcpy(element, &value, sizeof value);
        return;
    case TSR_DTYPE_F32:
        memcpy(element, &(float){(float)value}, sizeof(float));
        return;
    case TSR_DTYPE_I64:
        memcpy(element, &(int64_t){(int64_t)value}, sizeof(int64_t));
        return;
    case TSR_DTYPE_I32:
        memcpy(element, &(int32_t){(int32_t)value}, sizeof(int32_t));
        return;
    case TSR_DTYPE_I1:
        memcpy(element, &(uint8_t){value != 0}, 1);
        return;
    case TSR_DTYPE_UI8:
        memcpy(element, &(uint8_t){(uint8_t)value}, 1);
        return;
    case TSR_DTYPE_NONE:
        break;
    }
    TSR_ASSERT(!"a decoded config has no other dtype");
}

tsr_result tsr_initialize_tensor(tsr_ctx *ctx, const tsr_config_tensor *tensor, uint32_t seed,
                                 void *data) {
    uint64_t count = 0;
    TSR_ASSERT(tensor->init != TSR_INIT_DATA);
    if (!tsr_shape_count(&tensor->shape, &count))
        FAIL(ctx, TSR_MEMORY, "tensor '%s' has more than 2^63 elements", tensor->name);
    if (tensor->init == TSR_INIT_CONSTANT) {
        size_t size = tsr_dtype_size(tensor->dtype);
        for (uint64_t i = 0; i < count; i++)
            store_constant(tensor->dtype, tensor->init_a, (char *)data + i * size);
        return TSR_SUCCESS;
    }
    if (tensor->dtype != TSR_DTYPE_F32 && tensor->dtype != TSR_DTYPE_F64)
        FAIL(ctx, TSR_CORRUPT, "tensor '%s' has a random rule and dtype %s; expected f32 or f64",
             tensor->name, tsr_dtype_name(tensor->dtype));
    fill_random(tensor, seed, count, data);
    return TSR_SUCCESS;
}
