/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads chunks of a file into tensors. Many threads fill a window of page-locked memory, which is
 * copied to a slot of the device in one piece: a bus is slower with smaller copies, and with copies
 * of several streams. The slot's own stream hashes the leaves and writes their digests to the host;
 * if they are as expected, the needed ranges of the slot are copied to their tensors. While one
 * chunk is hashed, which takes as long as the copies of several, later chunks arrive.
 *
 * Nothing here waits for a slot: before a chunk is taken, the caller has already requested the
 * digest and made all puts of the slot's previous chunk, TSR_DEVICE_DEPTH chunks earlier.
 */
#include "runtime/device/gpu/device.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = TSR_HASH_CHUNK_BYTES,
    LEAVES_MAX = TSR_HASH_CHUNK_BYTES / TSR_HASH_LEAF_BYTES,
    DIGEST_BYTES = LEAVES_MAX * TSR_DIGEST_BYTES,
    DIGESTS_BYTES = TSR_GPU_SLOTS * DIGEST_BYTES,
    PARTS = TSR_DEVICE_WINDOWS + 1,
};
static_assert(DIGESTS_BYTES <= CHUNK_BYTES, "the digests of all slots fit behind the windows");

static tsr_gpu_window *window_of(tsr_gpu_device *self, uint64_t number) {
    return &self->staged_upload.windows[number % TSR_DEVICE_WINDOWS];
}

static tsr_gpu_slot *slot_of(tsr_gpu_device *self, uint64_t number) {
    return &self->staged_upload.slots[number % TSR_GPU_SLOTS];
}

/* ---- minimum size ---- */

/* A host hashes and copies 5 GB/s, 0.2 ms per megabyte; the GPU 53 GB/s, 0.02 ms, after 12 ms for
 * windows and pages unless they were prepared in advance: 12 / (0.2 - 0.02) = 67 MB. A driver that
 * compiles the kernel needs 60 to 100 ms more: 400 to 620 MB. */
static uint64_t staged_upload_bytes_min(const tsr_device *device) {
    const uint64_t mib = 1 << 20;
    return tsr_gpu_find_leaves((const tsr_gpu_device *)device) ? 64 * mib : 512 * mib;
}

/* ---- resources ---- */

void tsr_gpu_finish_staged_upload(tsr_gpu_device *self) {
    const tsr_gpu_driver *driver = &self->driver;
    tsr_gpu_staged_upload *upload = &self->staged_upload;
    for (tsr_gpu_slot *slot = upload->slots; slot < upload->slots + TSR_GPU_SLOTS; slot++) {
        if (slot->hashed) driver->event_destroy(slot->hashed);
        if (slot->put) driver->event_destroy(slot->put);
        if (slot->stream) driver->stream_destroy(slot->stream);
    }
    for (uint64_t i = 0; i < TSR_DEVICE_WINDOWS; i++) {
        if (upload->windows[i].copied) driver->event_destroy(upload->windows[i].copied);
        if (upload->windows[i].locked) driver->host_unregister(upload->windows[i].bytes);
    }
    if (upload->digests.locked) driver->host_unregister(upload->digests.bytes);
    if (upload->copies) driver->stream_destroy(upload->copies);
    tsr_gpu_free(self, upload->memory);
    tsr_gpu_unmap_parts(upload->host, PARTS, CHUNK_BYTES);
    *upload = (tsr_gpu_staged_upload){0};
}

/* The digests are in a part after the windows. */
static tsr_result map_windows(tsr_ctx *ctx, tsr_gpu_device *self) {
    tsr_gpu_staged_upload *upload = &self->staged_upload;
    char *parts = NULL;
    TRY(ctx, tsr_gpu_map_parts(ctx, PARTS, CHUNK_BYTES, &upload->host, &parts));
    for (uint64_t i = 0; i < TSR_DEVICE_WINDOWS; i++)
        upload->windows[i].bytes = parts + i * CHUNK_BYTES;
    upload->digests.bytes = parts + (size_t)TSR_DEVICE_WINDOWS * CHUNK_BYTES;
    return TSR_SUCCESS;
}

static tsr_result lock_window(tsr_ctx *ctx, const tsr_gpu_device *self, tsr_gpu_window *window,
                              size_t size_bytes) {
    if (window->locked) return TSR_SUCCESS;
    TRY(ctx, tsr_gpu_lock_part(ctx, self, window->bytes, size_bytes));
    window->locked = true;
    return TSR_SUCCESS;
}

static tsr_result ready_slot(tsr_ctx *ctx, const tsr_gpu_device *self, tsr_gpu_slot *slot) {
    const tsr_gpu_driver *driver = &self->driver;
    TRY(ctx, TSR_GPU_CALL(ctx, driver, stream_create, self->about, &slot->stream,
                          TSR_GPU_STREAM_NON_BLOCKING));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, event_create, self->about, &slot->hashed,
                          TSR_GPU_EVENT_DISABLE_TIMING));
    return TSR_GPU_CALL(ctx, driver, event_create, self->about, &slot->put,
                        TSR_GPU_EVENT_DISABLE_TIMING);
}

/* Prepares everything except the windows' pages and the device's memory. */
static tsr_result ready(tsr_ctx *ctx, tsr_gpu_device *self) {
    tsr_gpu_staged_upload *upload = &self->staged_upload;
    if (upload->copies) return TSR_SUCCESS;
    tsr_gpu_finish_staged_upload(self); /* leftovers of a failure */
    TRY(ctx, map_windows(ctx, self));
    TRY(ctx, lock_window(ctx, self, &upload->digests, DIGESTS_BYTES));
    for (uint64_t i = 0; i < TSR_DEVICE_WINDOWS; i++)
        TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_create, self->about,
                              &upload->windows[i].copied, TSR_GPU_EVENT_DISABLE_TIMING));
    for (uint64_t i = 0; i < TSR_GPU_SLOTS; i++) {
        upload->slots[i].digests = upload->digests.bytes + i * DIGEST_BYTES;
        TRY(ctx, ready_slot(ctx, self, &upload->slots[i]));
    }
    return TSR_GPU_CALL(ctx, &self->driver, stream_create, self->about, &upload->copies,
                        TSR_GPU_STREAM_NON_BLOCKING);
}

tsr_result tsr_gpu_ready_staged_upload(tsr_ctx *ctx, tsr_gpu_device *self) {
    TRY(ctx, ready(ctx, self));
    for (uint64_t i = 0; i < TSR_DEVICE_WINDOWS; i++)
        TRY(ctx, lock_window(ctx, self, &self->staged_upload.windows[i], CHUNK_BYTES));
    return TSR_SUCCESS;
}

/* Resources that are ready stay ready; other windows are locked when they are used. */
static tsr_result staged_upload_begin(tsr_ctx *ctx, tsr_device *device) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_staged_upload *upload = &self->staged_upload;
    TSR_ASSERT(!upload->memory);
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, tsr_gpu_let_write(ctx, self, false));
    TRY(ctx, tsr_gpu_ready_leaves(ctx, self));
    TRY(ctx, ready(ctx, self));
    TRY(ctx, tsr_gpu_reserve(ctx, self, self->about, (uint64_t)TSR_GPU_SLOTS * CHUNK_BYTES,
                             &upload->memory));
    for (uint64_t i = 0; i < TSR_GPU_SLOTS; i++)
        upload->slots[i].bytes = upload->memory + i * CHUNK_BYTES;
    /* Completes before other streams use the memory. */
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait, self->about, self->stream);
}

static tsr_result staged_upload_end(tsr_ctx *ctx, tsr_device *device) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_staged_upload *upload = &self->staged_upload;
    tsr_result result = tsr_gpu_enter(ctx, self);
    if (!result.code && upload->copies)
        result = TSR_GPU_CALL(ctx, &self->driver, stream_wait, self->about, upload->copies);
    for (uint64_t i = 0; i < TSR_GPU_SLOTS && !result.code; i++)
        if (upload->slots[i].stream)
            result =
                TSR_GPU_CALL(ctx, &self->driver, stream_wait, self->about, upload->slots[i].stream);
    tsr_gpu_free(self, upload->memory);
    upload->memory = 0;
    return result;
}

/* ---- a chunk ---- */

static tsr_result staged_upload_get_window(tsr_ctx *ctx, tsr_device *device, uint64_t number,
                                           void **out_window) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_window *window = window_of(self, number);
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, lock_window(ctx, self, window, CHUNK_BYTES));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_wait, self->about, window->copied));
    *out_window = window->bytes;
    return TSR_SUCCESS;
}

static tsr_result launch_leaves(tsr_ctx *ctx, const tsr_gpu_device *self, tsr_gpu_slot *slot,
                                uint64_t count) {
    const tsr_gpu_programs *programs = self->driver.api->programs;
    void *parameters[] = {&slot->bytes, &slot->digests, &count};
    unsigned blocks = (unsigned)((count - 1) / programs->threads + 1);
    return TSR_GPU_CALL(ctx, &self->driver, launch, programs->leaves_name, self->leaves, blocks, 1,
                        1, programs->threads, 1, 1, 0, slot->stream, parameters, NULL);
}

/* An incomplete last leaf of a chunk is hashed here. */
static tsr_result staged_upload_submit(tsr_ctx *ctx, tsr_device *device, uint64_t number,
                                       size_t size_bytes) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    const tsr_gpu_driver *driver = &self->driver;
    tsr_gpu_window *window = window_of(self, number);
    tsr_gpu_slot *slot = slot_of(self, number);
    struct tsr_gpu_stream *copies = self->staged_upload.copies;
    uint64_t whole = size_bytes / TSR_HASH_LEAF_BYTES, rest = size_bytes % TSR_HASH_LEAF_BYTES;
    TSR_ASSERT(size_bytes <= CHUNK_BYTES);
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, event_record, self->about, slot->put, slot->stream));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, stream_wait_event, self->about, copies, slot->put, 0));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, upload, self->about, slot->bytes, window->bytes, size_bytes,
                          copies));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, event_record, self->about, window->copied, copies));
    TRY(ctx,
        TSR_GPU_CALL(ctx, driver, stream_wait_event, self->about, slot->stream, window->copied, 0));
    if (whole) TRY(ctx, launch_leaves(ctx, self, slot, whole));
    if (rest) {
        tsr_digest last = tsr_hash(window->bytes + whole * TSR_HASH_LEAF_BYTES, (size_t)rest);
        memcpy(slot->digests + whole * TSR_DIGEST_BYTES, &last, sizeof last);
    }
    return TSR_GPU_CALL(ctx, driver, event_record, self->about, slot->hashed, slot->stream);
}

static tsr_result staged_upload_digest(tsr_ctx *ctx, tsr_device *device, uint64_t number,
                                       size_t size_bytes, tsr_digest *out_digest) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    const tsr_gpu_slot *slot = slot_of(self, number);
    size_t count = (size_bytes - 1) / TSR_HASH_LEAF_BYTES + 1;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_wait, self->about, slot->hashed));
    *out_digest = tsr_hash(slot->digests, count * TSR_DIGEST_BYTES);
    return TSR_SUCCESS;
}

static tsr_result staged_upload_put(tsr_ctx *ctx, tsr_device *device,
                                    const tsr_device_memory *memory, uint64_t number,
                                    uint64_t offset_bytes, tsr_device_range to) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    const tsr_gpu_slot *slot = slot_of(self, number);
    return TSR_GPU_CALL(ctx, &self->driver, copy, self->about,
                        tsr_gpu_address_of(memory->device + to.offset_bytes),
                        slot->bytes + offset_bytes, to.size_bytes, slot->stream);
}

const tsr_device_staged_upload tsr_gpu_staged_upload_functions = {
    .bytes_min = staged_upload_bytes_min,
    .begin = staged_upload_begin,
    .get_window = staged_upload_get_window,
    .submit = staged_upload_submit,
    .digest = staged_upload_digest,
    .put = staged_upload_put,
    .end = staged_upload_end,
};
