/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/weights/sender.h"

/* More threads do not read faster than a bus transfers. */
enum { THREADS_MAX = 16 };

static const tsr_device_staged_upload *staged_upload_of(const tsr_sender *self) {
    return self->device->type->staged_upload;
}

static tsr_result get_window(tsr_ctx *ctx, void *user, uint64_t number, void **out_window) {
    const tsr_sender *self = user;
    return staged_upload_of(self)->get_window(ctx, self->device, number, out_window);
}

static tsr_result submit(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes) {
    const tsr_sender *self = user;
    return staged_upload_of(self)->submit(ctx, self->device, number, size_bytes);
}

static tsr_result digest(tsr_ctx *ctx, void *user, uint64_t number, size_t size_bytes,
                         tsr_digest *out_digest) {
    const tsr_sender *self = user;
    return staged_upload_of(self)->digest(ctx, self->device, number, size_bytes, out_digest);
}

static tsr_result put(tsr_ctx *ctx, void *user, uint64_t number,
                      const tsr_bundle_segment *segment) {
    const tsr_sender *self = user;
    const tsr_device_range to = {(uint64_t)((const char *)segment->bytes - self->memory->host),
                                 segment->size_bytes};
    return staged_upload_of(self)->put(ctx, self->device, self->memory, number,
                                       segment->offset_bytes, to);
}

tsr_result tsr_sender_begin(tsr_ctx *ctx, tsr_sender *sender) {
    tsr_ctx aside = tsr_ctx_fork(ctx);
    sender->sink = (tsr_bundle_sink){.threads_max = THREADS_MAX,
                                     .window_count = TSR_DEVICE_WINDOWS,
                                     .depth = TSR_DEVICE_DEPTH,
                                     .get_window = get_window,
                                     .submit = submit,
                                     .digest = digest,
                                     .put = put,
                                     .user = sender};
    tsr_result result = staged_upload_of(sender)->begin(ctx, sender->device);
    if (result.code && staged_upload_of(sender)->end(&aside, sender->device).code) return result;
    return result;
}

tsr_result tsr_sender_end(tsr_ctx *ctx, tsr_sender *sender, tsr_result result) {
    tsr_ctx aside = tsr_ctx_fork(ctx);
    tsr_result ended = staged_upload_of(sender)->end(&aside, sender->device);
    if (result.code || !ended.code) return result;
    return tsr_error_adopt(ctx, &aside);
}
