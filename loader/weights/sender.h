/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends weights of a bundle directly to a device that can hash them itself: chunks of the file go
 * through the device's windows. Private to this folder.
 */
#ifndef TSR_LOADER_WEIGHTS_SENDER_H
#define TSR_LOADER_WEIGHTS_SENDER_H

#include "bundle/bundle.h"
#include "runtime/device/device.h"

typedef struct tsr_sender {
    tsr_device *device; /* borrowed; its type must accept chunks */
    /* borrowed; the host addresses of this memory name the pieces' destinations */
    const tsr_device_memory *memory;
    uint64_t bytes_min;   /* smaller reads of a layer go through the host's memory */
    tsr_bundle_sink sink; /* set by tsr_sender_begin */
} tsr_sender;

/* After a success, tsr_sender_end releases the device resources that this takes. */
TSR_RESULT tsr_sender_begin(tsr_ctx *ctx, tsr_sender *sender);
/* Waits until all pieces are at their destinations. `result`: result of sending, returned if it
 * failed. */
TSR_RESULT tsr_sender_end(tsr_ctx *ctx, tsr_sender *sender, tsr_result result);

#endif
