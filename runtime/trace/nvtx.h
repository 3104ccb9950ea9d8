/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges for NVIDIA's profilers: NVIDIA, "NVTX (NVIDIA Tools Extension) v3". A profiler names its
 * library in NVTX_INJECTION64_PATH; that library is opened at run time and notified when ranges
 * begin and end. Our own declarations are used, so NVTX is not needed to build.
 */
#ifndef TSR_RUNTIME_NVTX_H
#define TSR_RUNTIME_NVTX_H

#include "runtime/base/trace/trace.h"
#include "tessera/trace.h"

/* Values of nvtxTypes.h, with their original names. */
enum {
    TSR_NVTX_CB_MODULE_CORE = 1,
    TSR_NVTX_CBID_CORE_RangePushA = 9,
    TSR_NVTX_CBID_CORE_RangePop = 11,
    TSR_NVTX_CBID_CORE_SIZE = 16,
    TSR_NVTX_ETID_CALLBACKS = 1,
    TSR_NVTX_ETID_VERSIONINFO = 3,
    TSR_NVTX_VERSION = 3,
};

#endif
