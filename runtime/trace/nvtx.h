/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges for NVIDIA's profilers: NVIDIA, "NVTX (NVIDIA Tools Extension) v3". A profiler names its
 * library in NVTX_INJECTION64_PATH; that is opened at run time and told where ranges begin and end.
 * Declarations of our own; nothing of NVTX is needed to build.
 */
#ifndef TSR_RUNTIME_NVTX_H
#define TSR_RUNTIME_NVTX_H

#include "runtime/base/trace.h"

/* Values of nvtxTypes.h, by the names there. */
enum {
    TSR_NVTX_CB_MODULE_CORE = 1,
    TSR_NVTX_CBID_CORE_RangePushA = 9,
    TSR_NVTX_CBID_CORE_RangePop = 11,
    TSR_NVTX_CBID_CORE_SIZE = 16,
    TSR_NVTX_ETID_CALLBACKS = 1,
    TSR_NVTX_ETID_VERSIONINFO = 3,
    TSR_NVTX_VERSION = 3,
};

/* Once a process: the library stays until it ends. Where ranges of a trace go; TSR_IO for a library
 * that cannot be opened, has no InitializeInjectionNvtx2 or refuses. */
TSR_API TSR_RESULT tsr_nvtx_open(tsr_ctx *ctx, const char *library,
                                 const tsr_trace_ranges **out_ranges);

#endif
