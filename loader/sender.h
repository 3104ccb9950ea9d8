/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of a bundle straight to a device that can hash them itself: chunks of its file through
 * the device's windows. Private to this folder.
 */
#ifndef TSR_LOADER_SENDER_H
#define TSR_LOADER_SENDER_H

#include "bundle/bundle.h"
#include "runtime/device/device.h"

typedef struct tsr_sender {
    tsr_device *device;              /* borrowed; of a type that takes chunks */
    const tsr_device_memory *memory; /* borrowed; pieces are named by where they lie in its host */
    uint64_t bytes_min;              /* less of a layer goes through the host's memory */
    tsr_bundle_sink sink;            /* from begin on */
} tsr_sender;

/* After a success tsr_sender_end gives back what this takes of the device. */
TSR_RESULT tsr_sender_begin(tsr_ctx *ctx, tsr_sender *sender);
/* Waits until all is where it belongs. `result`: of what was sent, and returned if it failed. */
TSR_RESULT tsr_sender_end(tsr_ctx *ctx, tsr_sender *sender, tsr_result result);

#endif
