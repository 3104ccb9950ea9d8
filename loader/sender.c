/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/sender.h"

#include <unistd.h>

static const tsr_device_lanes *lanes_of(const tsr_sender *self) {
    return self->device->type->lanes;
}

static tsr_result room(tsr_ctx *ctx, void *user, unsigned lane, void **out_room) {
    const tsr_sender *self = user;
    return lanes_of(self)->room(ctx, self->device, lane, out_room);
}

static tsr_result take(tsr_ctx *ctx, void *user, unsigned lane, uint64_t offset_bytes,
                       size_t size_bytes) {
    const tsr_sender *self = user;
    return lanes_of(self)->take(ctx, self->device, lane,
                                (tsr_device_range){offset_bytes, size_bytes});
}

static tsr_result digest(tsr_ctx *ctx, void *user, unsigned lane, size_t size_bytes,
                         tsr_digest *out_digest) {
    const tsr_sender *self = user;
    return lanes_of(self)->digest(ctx, self->device, lane, size_bytes, out_digest);
}

static tsr_result put(tsr_ctx *ctx, void *user, unsigned lane, const tsr_bundle_piece *piece) {
    const tsr_sender *self = user;
    const tsr_device_range to = {(uint64_t)((const char *)piece->bytes - self->memory->host),
                                 piece->size_bytes};
    return lanes_of(self)->put(ctx, self->device, self->memory, lane, piece->offset_bytes, to);
}

unsigned tsr_sender_lane_count(void) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (cpus < 1) return 1;
    return cpus < TSR_DEVICE_LANES_MAX ? (unsigned)cpus : TSR_DEVICE_LANES_MAX;
}

tsr_result tsr_sender_begin(tsr_ctx *ctx, tsr_sender *sender) {
    tsr_ctx aside = tsr_ctx_fork(ctx);
    unsigned count = tsr_sender_lane_count();
    sender->sink = (tsr_bundle_sink){.lane_count = count,
                                     .window_bytes = TSR_DEVICE_WINDOW_BYTES,
                                     .room = room,
                                     .take = take,
                                     .digest = digest,
                                     .put = put,
                                     .user = sender};
    tsr_result result = lanes_of(sender)->begin(ctx, sender->device, count);
    if (result.code && lanes_of(sender)->end(&aside, sender->device).code) return result;
    return result;
}

tsr_result tsr_sender_end(tsr_ctx *ctx, tsr_sender *sender, tsr_result result) {
    tsr_ctx aside = tsr_ctx_fork(ctx);
    tsr_result ended = lanes_of(sender)->end(&aside, sender->device);
    if (result.code || !ended.code) return result;
    return tsr_error_adopt(ctx, &aside);
}
