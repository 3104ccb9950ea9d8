/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/device.h"

#include "runtime/base/array.h"

#include <string.h>

static const tsr_device_type *const types[] = {
#define X(ID, type) &type,
#include "runtime/device/devices.def"
#undef X
};

const tsr_device_type *tsr_device_find(const char *target) {
    size_t length = strcspn(target, ":");
    for (size_t i = 0; i < TSR_COUNT(types); i++)
        if (strlen(types[i]->name) == length && strncmp(types[i]->name, target, length) == 0)
            return types[i];
    return NULL;
}

tsr_result tsr_device_open(tsr_ctx *ctx, const char *target, const tsr_device_options *options,
                           tsr_device **out_device) {
    const tsr_device_type *type = tsr_device_find(target);
    if (!type) FAIL(ctx, TSR_TARGET, "no device runs code for '%s'", target);
    return type->open(ctx, options, out_device);
}

void tsr_device_close(tsr_device *device) {
    if (device) device->type->close(device);
}

tsr_result tsr_device_download(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                               const char *bytes, uint64_t size_bytes) {
    tsr_device_range range = {(uint64_t)(bytes - memory->host), size_bytes};
    if (device->type->shares_memory) return TSR_SUCCESS;
    return device->type->download(ctx, device, memory, range);
}
