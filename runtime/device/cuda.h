/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of cuda.h with their original names, and the kernels of cuda_limits.c.
 */
#ifndef TSR_RUNTIME_DEVICE_CUDA_H
#define TSR_RUNTIME_DEVICE_CUDA_H

#include "runtime/device/gpu/driver.h"

enum {
    TSR_CUDA_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
};

extern const tsr_gpu_rate tsr_cuda_chains;
const tsr_gpu_rate *tsr_cuda_get_products(uint32_t arch);

#endif
