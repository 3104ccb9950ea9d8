/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares our declarations of the CUDA driver with NVIDIA's own. Compiled if cuda.h is installed.
 */
#include "runtime/device/cuda.h"

#include <cuda.h>
#include <stddef.h>
#include <stdio.h>

/* The parameters with NVIDIA's names of the types. */
#define tsr_gpu_uuid CUuuid_st
#define tsr_gpu_context CUctx_st
#define tsr_gpu_module CUmod_st
#define tsr_gpu_function CUfunc_st
#define tsr_gpu_stream CUstream_st
#define tsr_gpu_event CUevent_st
#define tsr_gpu_graph CUgraph_st
#define tsr_gpu_graph_exec CUgraphExec_st
#define tsr_gpu_tensor_map CUtensorMap_st
#define tsr_gpu_launch_config CUlaunchConfig_st
#define tsr_gpu_memory_properties CUmemAllocationProp_st
#define tsr_gpu_memory_access CUmemAccessDesc_st
#define X(name, parameters) typedef tsr_gpu_result(*their_##name##_fn) parameters;
#include "runtime/device/gpu/driver.def"
#undef X
#define X(name, symbol)                                                                            \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), their_##name##_fn),           \
                   #symbol " has another type in cuda.h");
#include "runtime/device/cuda_symbols.def"
#undef X

#define X(value, name, advice)                                                                     \
    _Static_assert(value == CUDA_ERROR_##name, #name " has another value in cuda.h");
#define LATER(value, name, advice)
#include "runtime/device/cuda_errors.def"
#undef X

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(TSR_GPU_SUCCESS, CUDA_SUCCESS);
SAME(TSR_GPU_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(TSR_GPU_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(TSR_GPU_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(TSR_CUDA_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(TSR_GPU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(TSR_GPU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
SAME(TSR_GPU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(TSR_GPU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(TSR_GPU_EVENT_RECORD_EXTERNAL, CU_EVENT_RECORD_EXTERNAL);
SAME(TSR_GPU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER);
SAME(TSR_GPU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(TSR_GPU_UUID_BYTES, sizeof(CUuuid));
SAME(TSR_GPU_MAP_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(TSR_GPU_MAP_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(TSR_GPU_MAP_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(TSR_GPU_MAP_TFLOAT32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
SAME(TSR_GPU_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(TSR_GPU_MAP_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(TSR_GPU_MAP_L2_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(TSR_GPU_MAP_BYTES, sizeof(CUtensorMap));
SAME(TSR_GPU_ERROR_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(TSR_GPU_DEVICE_ATTRIBUTE_FLUSHES_REMOTE_WRITES, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
SAME(TSR_GPU_WAIT_FLUSH, CU_STREAM_WAIT_VALUE_FLUSH);
SAME(TSR_GPU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY,
     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(TSR_GPU_DEVICE_ATTRIBUTE_HANDLE_FILE_DESCRIPTOR,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME(TSR_GPU_MEMORY_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(TSR_GPU_MEMORY_ON_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(TSR_GPU_HANDLE_FILE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(TSR_GPU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(TSR_GPU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(TSR_GPU_WAIT_UNTIL_REACHED, CU_STREAM_WAIT_VALUE_GEQ);
SAME(sizeof(tsr_gpu_properties), sizeof(CUmemAllocationProp));
SAME(offsetof(tsr_gpu_properties, handle_kinds),
     offsetof(CUmemAllocationProp, requestedHandleTypes));
SAME(offsetof(tsr_gpu_properties, location), offsetof(CUmemAllocationProp, location));
SAME(sizeof(tsr_gpu_location), sizeof(CUmemLocation));
SAME(offsetof(tsr_gpu_location, device), offsetof(CUmemLocation, id));
SAME(sizeof(tsr_gpu_access), sizeof(CUmemAccessDesc));
SAME(offsetof(tsr_gpu_access, flags), offsetof(CUmemAccessDesc, flags));
SAME(sizeof(tsr_gpu_launch), sizeof(CUlaunchConfig));
SAME(offsetof(tsr_gpu_launch, block_x), offsetof(CUlaunchConfig, blockDimX));
SAME(offsetof(tsr_gpu_launch, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SAME(offsetof(tsr_gpu_launch, attribute_count), offsetof(CUlaunchConfig, numAttrs));

int main(void) {
    puts("declarations agree with cuda.h");
    return 0;
}
