/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors on their way, beside runs: read while a save copies them, and brought from a file. A
 * chunk of a file goes window by window to a slot of the device, where its leaves are hashed; when
 * the digest is the expected one, its parts are copied to where they belong. Many lanes at once
 * fill the bus: while some read, the chunks of others are copied and hashed.
 */
#include "runtime/device/cuda_device.h"
#include "runtime/device/cuda_ptx.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAVES_MAX = TSR_HASH_CHUNK_BYTES / TSR_HASH_LEAF_BYTES,
    DIGEST_BYTES = LEAVES_MAX * TSR_DIGEST_BYTES,
    HOST_BYTES = TSR_CUDA_LANE_WINDOWS * TSR_DEVICE_WINDOW_BYTES + DIGEST_BYTES,
    DEVICE_BYTES = TSR_HASH_CHUNK_BYTES + DIGEST_BYTES,
};
static_assert(TSR_DEVICE_WINDOW_BYTES % TSR_HASH_LEAF_BYTES == 0, "a leaf lies in one window");

tsr_result tsr_cuda_enter(tsr_ctx *ctx, const tsr_cuda_device *self) {
    return TSR_CUDA_CALL(ctx, &self->cuda, context_set, self->about, self->context);
}

/* ---- readers ---- */

/* Only the reader's own thread waits: the device runs on. */
tsr_result tsr_cuda_read(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         unsigned number, tsr_device_range range, const void **out_bytes) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    const tsr_cuda_reader *own = &self->readers[number];
    TSR_ASSERT(number < TSR_DEVICE_READERS_MAX && own->room &&
               range.size_bytes <= TSR_DEVICE_READ_BYTES_MAX);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, download, self->about, own->room,
                           tsr_cuda_address_of(memory->device + range.offset_bytes),
                           range.size_bytes, own->stream));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, own->stream));
    *out_bytes = own->room;
    return TSR_SUCCESS;
}

tsr_result tsr_cuda_ready_readers(tsr_ctx *ctx, tsr_device *device, unsigned count) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    TSR_ASSERT(count <= TSR_DEVICE_READERS_MAX);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    for (tsr_cuda_reader *r = self->readers; r < self->readers + count; r++) {
        if (r->room) continue;
        if (!r->stream)
            TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_create, self->about, &r->stream,
                                   TSR_CUDA_STREAM_NON_BLOCKING));
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, host_allocate, self->about, &r->room,
                               TSR_DEVICE_READ_BYTES_MAX, 0));
    }
    return TSR_SUCCESS;
}

/* ---- the runtime's own kernels ---- */

/* One of the runtime's own kernels, unless it is there. */
static tsr_result load(tsr_ctx *ctx, tsr_cuda_device *self, const char *name,
                       void (*print)(tsr_buffer *), struct CUmod_st **module,
                       struct CUfunc_st **function) {
    tsr_buffer text = {0};
    tsr_result result = TSR_SUCCESS;
    if (*function) return TSR_SUCCESS;
    print(&text);
    if (text.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the text of %s", name);
    if (!*module)
        TRY_GOTO(
            ctx, result,
            TSR_CUDA_CALL(ctx, &self->cuda, module_load, name, module, text.bytes, 0, NULL, NULL));
    TRY_GOTO(ctx, result,
             TSR_CUDA_CALL(ctx, &self->cuda, module_function, name, function, *module, name));
done:
    tsr_buffer_finish(&text);
    return result;
}

static tsr_result load_normals(tsr_ctx *ctx, tsr_cuda_device *self) {
    return load(ctx, self, TSR_CUDA_PTX_NORMALS, tsr_cuda_ptx_normals, &self->normals_module,
                &self->normals);
}

static void *translate(void *user) {
    tsr_cuda_device *self = user;
    self->translated = tsr_cuda_enter(&self->translator_ctx, self);
    if (!self->translated.code) self->translated = load_normals(&self->translator_ctx, self);
    return NULL;
}

void tsr_cuda_expect_draws(const tsr_ctx *ctx, tsr_cuda_device *self) {
    self->translator_ctx = tsr_ctx_fork(ctx);
    self->translates = pthread_create(&self->translator, NULL, translate, self) == 0;
}

static tsr_result finish_translating(tsr_ctx *ctx, tsr_cuda_device *self) {
    if (!self->translates) return load_normals(ctx, self);
    self->translates = false;
    pthread_join(self->translator, NULL);
    return self->translated.code ? tsr_error_adopt(ctx, &self->translator_ctx) : TSR_SUCCESS;
}

tsr_result tsr_cuda_draw(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         uint64_t offset_bytes, const tsr_device_normals *normals) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_device_normals n = *normals;
    tsr_cuda_address to = tsr_cuda_address_of(memory->device + offset_bytes);
    void *parameters[] = {&to, &n.first, &n.count, &n.a, &n.b, &n.seed, &n.stream};
    uint64_t blocks = n.count / TSR_CUDA_PTX_THREADS + (n.count % TSR_CUDA_PTX_THREADS != 0);
    if (!blocks) return TSR_SUCCESS;
    if (blocks > INT32_MAX)
        FAIL(ctx, TSR_MEMORY, "%llu numbers are more than a launch draws",
             (unsigned long long)n.count);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, finish_translating(ctx, self));
    return TSR_CUDA_CALL(ctx, &self->cuda, launch, TSR_CUDA_PTX_NORMALS, self->normals,
                         (unsigned)blocks, 1, 1, TSR_CUDA_PTX_THREADS, 1, 1, 0, self->stream,
                         parameters, NULL);
}

/* ---- lanes ---- */

/* `number` is its place in what all lanes have. */
static tsr_result ready_lane(tsr_ctx *ctx, tsr_cuda_device *self, unsigned number) {
    const tsr_cuda *cuda = &self->cuda;
    const unsigned flags = TSR_CUDA_EVENT_BLOCKING_SYNC | TSR_CUDA_EVENT_DISABLE_TIMING;
    tsr_cuda_lane *lane = &self->lanes[number];
    lane->windows = self->lanes_host + (size_t)number * HOST_BYTES;
    lane->host_digests = lane->windows + HOST_BYTES - DIGEST_BYTES;
    lane->slot = self->lanes_device + (uint64_t)number * DEVICE_BYTES;
    lane->digests = lane->slot + TSR_HASH_CHUNK_BYTES;
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, stream_create, self->about, &lane->stream,
                           TSR_CUDA_STREAM_NON_BLOCKING));
    for (int i = 0; i < TSR_CUDA_LANE_WINDOWS; i++)
        TRY(ctx, TSR_CUDA_CALL(ctx, cuda, event_create, self->about, &lane->taken[i], flags));
    return TSR_CUDA_CALL(ctx, cuda, event_create, self->about, &lane->done, flags);
}

static void finish_lanes(tsr_cuda_device *self) {
    const tsr_cuda *cuda = &self->cuda;
    for (tsr_cuda_lane *lane = self->lanes; lane < self->lanes + self->lane_count; lane++) {
        if (lane->done) cuda->event_destroy(lane->done);
        for (int i = 0; i < TSR_CUDA_LANE_WINDOWS; i++)
            if (lane->taken[i]) cuda->event_destroy(lane->taken[i]);
        if (lane->stream) cuda->stream_destroy(lane->stream);
    }
    if (self->lanes_device) cuda->free(self->lanes_device, self->stream);
    if (self->lanes_host) cuda->host_free(self->lanes_host);
    free(self->lanes);
    self->lanes = NULL;
    self->lane_count = 0;
    self->lanes_device = 0;
    self->lanes_host = NULL;
}

void tsr_cuda_finish_readers(tsr_cuda_device *self) {
    for (size_t i = 0; i < TSR_DEVICE_READERS_MAX; i++) {
        if (self->readers[i].stream) self->cuda.stream_destroy(self->readers[i].stream);
        if (self->readers[i].room) self->cuda.host_free(self->readers[i].room);
    }
    finish_lanes(self);
    if (self->translates) pthread_join(self->translator, NULL);
    if (self->leaves_module) self->cuda.module_unload(self->leaves_module);
    if (self->normals_module) self->cuda.module_unload(self->normals_module);
}

static tsr_result lanes_begin(tsr_ctx *ctx, tsr_device *device, unsigned count) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    void *host = NULL;
    TSR_ASSERT(!self->lanes);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, load(ctx, self, TSR_CUDA_PTX_LEAVES, tsr_cuda_ptx_leaves, &self->leaves_module,
                  &self->leaves));
    self->lanes = calloc(count, sizeof *self->lanes);
    if (!self->lanes) FAIL(ctx, TSR_MEMORY, "no memory for %u lanes", count);
    self->lane_count = count;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, host_allocate, self->about, &host,
                           (size_t)count * HOST_BYTES, 0));
    self->lanes_host = host;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, allocate, self->about, &self->lanes_device,
                           (size_t)count * DEVICE_BYTES, self->stream));
    /* Before other streams use it. */
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream));
    for (unsigned i = 0; i < count; i++) TRY(ctx, ready_lane(ctx, self, i));
    return TSR_SUCCESS;
}

static tsr_result lanes_end(tsr_ctx *ctx, tsr_device *device) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_result result = tsr_cuda_enter(ctx, self);
    for (unsigned i = 0; i < self->lane_count && !result.code; i++)
        result = TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->lanes[i].stream);
    finish_lanes(self);
    return result;
}

static tsr_cuda_lane *enter_lane(tsr_device *device, unsigned number) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    TSR_ASSERT(number < self->lane_count);
    return &self->lanes[number];
}

static tsr_result lanes_room(tsr_ctx *ctx, tsr_device *device, unsigned number, void **out_room) {
    const tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_cuda_lane *lane = enter_lane(device, number);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    lane->window = (lane->window + 1) % TSR_CUDA_LANE_WINDOWS;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, event_wait, self->about, lane->taken[lane->window]));
    *out_room = lane->windows + (size_t)lane->window * TSR_DEVICE_WINDOW_BYTES;
    return TSR_SUCCESS;
}

static tsr_result lanes_take(tsr_ctx *ctx, tsr_device *device, unsigned number,
                             tsr_device_range range) {
    const tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_cuda_lane *lane = enter_lane(device, number);
    TSR_ASSERT(range.size_bytes <= TSR_DEVICE_WINDOW_BYTES &&
               range.offset_bytes + range.size_bytes <= TSR_HASH_CHUNK_BYTES);
    lane->window_offset_bytes = range.offset_bytes;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, upload, self->about, lane->slot + range.offset_bytes,
                           lane->windows + (size_t)lane->window * TSR_DEVICE_WINDOW_BYTES,
                           range.size_bytes, lane->stream));
    return TSR_CUDA_CALL(ctx, &self->cuda, event_record, self->about, lane->taken[lane->window],
                         lane->stream, 0);
}

static tsr_result launch_leaves(tsr_ctx *ctx, const tsr_cuda_device *self, tsr_cuda_lane *lane,
                                uint64_t count) {
    void *parameters[] = {&lane->slot, &lane->digests, &count};
    unsigned blocks = (unsigned)((count - 1) / TSR_CUDA_PTX_THREADS + 1);
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, launch, TSR_CUDA_PTX_LEAVES, self->leaves, blocks, 1,
                           1, TSR_CUDA_PTX_THREADS, 1, 1, 0, lane->stream, parameters, NULL));
    return TSR_CUDA_CALL(ctx, &self->cuda, download, self->about, lane->host_digests, lane->digests,
                         count * TSR_DIGEST_BYTES, lane->stream);
}

/* The last leaf of a chunk, if it is not a whole one, is hashed here. */
static tsr_result lanes_digest(tsr_ctx *ctx, tsr_device *device, unsigned number, size_t size_bytes,
                               tsr_digest *out_digest) {
    const tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_cuda_lane *lane = enter_lane(device, number);
    uint64_t whole = size_bytes / TSR_HASH_LEAF_BYTES, rest = size_bytes % TSR_HASH_LEAF_BYTES;
    char *digests = lane->host_digests;
    if (whole) TRY(ctx, launch_leaves(ctx, self, lane, whole));
    TRY(ctx,
        TSR_CUDA_CALL(ctx, &self->cuda, event_record, self->about, lane->done, lane->stream, 0));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, event_wait, self->about, lane->done));
    if (rest) {
        const char *window = lane->windows + (size_t)lane->window * TSR_DEVICE_WINDOW_BYTES;
        uint64_t begin = whole * TSR_HASH_LEAF_BYTES - lane->window_offset_bytes;
        tsr_digest last = tsr_hash(window + begin, (size_t)rest);
        memcpy(digests + whole * TSR_DIGEST_BYTES, &last, sizeof last);
    }
    *out_digest = tsr_hash(digests, (size_t)(whole + (rest > 0)) * TSR_DIGEST_BYTES);
    return TSR_SUCCESS;
}

static tsr_result lanes_put(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                            unsigned number, uint64_t offset_bytes, tsr_device_range to) {
    const tsr_cuda_device *self = (tsr_cuda_device *)device;
    const tsr_cuda_lane *lane = enter_lane(device, number);
    return TSR_CUDA_CALL(ctx, &self->cuda, copy, self->about,
                         tsr_cuda_address_of(memory->device + to.offset_bytes),
                         lane->slot + offset_bytes, to.size_bytes, lane->stream);
}

const tsr_device_lanes tsr_cuda_lanes = {
    .begin = lanes_begin,
    .room = lanes_room,
    .take = lanes_take,
    .digest = lanes_digest,
    .put = lanes_put,
    .end = lanes_end,
};
