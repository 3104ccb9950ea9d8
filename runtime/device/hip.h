/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of hip_runtime_api.h.
 */
#ifndef TSR_RUNTIME_DEVICE_HIP_H
#define TSR_RUNTIME_DEVICE_HIP_H

enum {
    TSR_HIP_VERSION_MIN = 50200000, /* 5.2 */
    TSR_HIP_ERROR_INVALID_DEVICE = 101,
    TSR_HIP_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 63,
    /* A device's properties up to HIP 5, and from HIP 6 on: the size of the struct, and where the
     * name of the architecture is in it, of TSR_HIP_ARCH_BYTES. */
    TSR_HIP_5_PROPERTIES_BYTES = 792,
    TSR_HIP_5_PROPERTIES_ARCH = 396,
    TSR_HIP_6_PROPERTIES_BYTES = 1472,
    TSR_HIP_6_PROPERTIES_ARCH = 1160,
    TSR_HIP_ARCH_BYTES = 256,
};

#endif
