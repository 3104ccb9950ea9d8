/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares our declarations of the CUDA driver with NVIDIA's own. Compiled if cuda.h is installed.
 */
#include "runtime/device/cuda_driver.h"

#include <cuda.h>
#include <stddef.h>
#include <stdio.h>

#define X(name, symbol, parameters)                                                                \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), tsr_cuda_##name##_fn),        \
                   #symbol " has another type in cuda.h");
#include "runtime/device/cuda_driver.def"
#undef X

#define X(value, name, advice)                                                                     \
    _Static_assert(value == CUDA_ERROR_##name, #name " has another value in cuda.h");
#define LATER(value, name, advice)
#include "runtime/device/cuda_errors.def"
#undef X

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(TSR_CUDA_SUCCESS, CUDA_SUCCESS);
SAME(TSR_CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(TSR_CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(TSR_CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(TSR_CUDA_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(TSR_CUDA_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(TSR_CUDA_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
SAME(TSR_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(TSR_CUDA_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(TSR_CUDA_EVENT_RECORD_EXTERNAL, CU_EVENT_RECORD_EXTERNAL);
SAME(TSR_CUDA_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER);
SAME(TSR_CUDA_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(TSR_CUDA_UUID_BYTES, sizeof(CUuuid));
SAME(TSR_CUDA_MAP_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(TSR_CUDA_MAP_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(TSR_CUDA_MAP_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(TSR_CUDA_MAP_TFLOAT32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
SAME(TSR_CUDA_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(TSR_CUDA_MAP_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(TSR_CUDA_MAP_L2_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(TSR_CUDA_MAP_BYTES, sizeof(CUtensorMap));
SAME(sizeof(tsr_cuda_launch), sizeof(CUlaunchConfig));
SAME(offsetof(tsr_cuda_launch, block_x), offsetof(CUlaunchConfig, blockDimX));
SAME(offsetof(tsr_cuda_launch, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SAME(offsetof(tsr_cuda_launch, attribute_count), offsetof(CUlaunchConfig, numAttrs));

int main(void) {
    puts("declarations agree with cuda.h");
    return 0;
}
