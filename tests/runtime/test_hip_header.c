/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares our declarations of the HIP runtime with AMD's own. Compiled if hip_runtime_api.h is
 * installed.
 */
#include "runtime/device/gpu/driver.h"
#include "runtime/device/hip.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* of contexts */
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <stddef.h>
#include <stdio.h>

/* The parameters with AMD's names of the types. */
#define tsr_gpu_address hipDeviceptr_t
#define tsr_gpu_uuid hipUUID_t
#define tsr_gpu_context ihipCtx_t
#define tsr_gpu_module ihipModule_t
#define tsr_gpu_function ihipModuleSymbol_t
#define tsr_gpu_stream ihipStream_t
#define tsr_gpu_event ihipEvent_t
#define tsr_gpu_graph ihipGraph
#define tsr_gpu_graph_exec hipGraphExec
#define X(name, parameters) typedef tsr_gpu_result(*their_##name##_fn) parameters;
#include "runtime/device/gpu/driver.def"
#undef X
/* Some versions leave `const` out. */
#define const
#define X(name, parameters) typedef tsr_gpu_result(*plain_##name##_fn) parameters;
#include "runtime/device/gpu/driver.def"
#undef X
#undef const
#define X(name, symbol)                                                                            \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), their_##name##_fn) ||         \
                       __builtin_types_compatible_p(__typeof__(&symbol), plain_##name##_fn),       \
                   #symbol " has another type in hip_runtime_api.h");
#define LATER(name, symbol)
#include "runtime/device/hip_symbols.def"
#undef X

#define X(value, name, advice)                                                                     \
    _Static_assert(value == hipError##name, #name " has another value in hip_runtime_api.h");
#include "runtime/device/hip_errors.def"
#undef X

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(TSR_GPU_SUCCESS, hipSuccess);
SAME(TSR_GPU_ERROR_INVALID_VALUE, hipErrorInvalidValue);
SAME(TSR_GPU_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME(TSR_GPU_ERROR_NO_DEVICE, hipErrorNoDevice);
SAME(TSR_GPU_ERROR_NOT_READY, hipErrorNotReady);
SAME(TSR_HIP_ERROR_INVALID_DEVICE, hipErrorInvalidDevice);
SAME(TSR_HIP_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, hipDeviceAttributeMultiprocessorCount);
SAME(TSR_GPU_STREAM_NON_BLOCKING, hipStreamNonBlocking);
SAME(TSR_GPU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed);
SAME(TSR_GPU_EVENT_DISABLE_TIMING, hipEventDisableTiming);
SAME(TSR_GPU_UUID_BYTES, sizeof(hipUUID));
enum {
    IS_NEW = HIP_VERSION_MAJOR >= 6,
    PROPERTIES_BYTES = IS_NEW ? TSR_HIP_6_PROPERTIES_BYTES : TSR_HIP_5_PROPERTIES_BYTES,
    PROPERTIES_ARCH = IS_NEW ? TSR_HIP_6_PROPERTIES_ARCH : TSR_HIP_5_PROPERTIES_ARCH,
};
SAME(PROPERTIES_BYTES, sizeof(hipDeviceProp_t));
SAME(PROPERTIES_ARCH, offsetof(hipDeviceProp_t, gcnArchName));
SAME(TSR_HIP_ARCH_BYTES, sizeof((hipDeviceProp_t *)0)->gcnArchName);

int main(void) {
    puts("declarations agree with hip_runtime_api.h");
    return 0;
}
