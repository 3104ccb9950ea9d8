/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that are read while they change. Readers begin with the tensors themselves, which do not
 * change until the step writes its results. Some time before these writes, the parts that have not
 * been read completely are copied within the device, concurrently with the remaining commands.
 * Readers continue with the copy, and a read in progress is repeated from the copy. Therefore no
 * command waits for readers, the parts that were read need not be copied, and the device is not
 * idle while the host determines these parts.
 *
 * A run's own results use the same copy engine, which does one transfer at a time. Readers of the
 * copy are not urgent: they begin when the writing run has its results, and at most one of their
 * short transfers precedes the results of later runs.
 */
#include "runtime/device/gpu/device.h"

#include <string.h>

enum { BLOCK_BYTES = 1 << 20 };

tsr_result tsr_gpu_init_snapshot(tsr_ctx *ctx, tsr_gpu_device *self) {
    return TSR_GPU_CALL(ctx, &self->driver, event_create, self->about, &self->snapshot.before,
                        TSR_GPU_EVENT_DISABLE_TIMING);
}

static void release_copy(tsr_gpu_device *self) {
    tsr_gpu_snapshot *snapshot = &self->snapshot;
    if (snapshot->copies) self->driver.stream_destroy(snapshot->copies);
    tsr_gpu_free(self, snapshot->copy);
    if (snapshot->copied) self->driver.event_destroy(snapshot->copied);
    self->memory_used -= snapshot->range.size_bytes;
    snapshot->copy = 0;
    snapshot->copied = NULL;
    snapshot->copies = NULL;
    snapshot->range = (tsr_device_range){0, 0};
    snapshot->open = false;
}

void tsr_gpu_finish_snapshot(tsr_gpu_device *self) {
    release_copy(self);
    if (self->snapshot.before) self->driver.event_destroy(self->snapshot.before);
    self->snapshot.before = NULL;
}

/* Reserves nothing if there is not enough memory. */
static tsr_result reserve_copy(tsr_ctx *ctx, tsr_gpu_device *self, uint64_t size_bytes) {
    size_t left = 0, total = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, memory_info, self->about, &left, &total));
    if (size_bytes > left) return TSR_SUCCESS;
    tsr_result result = tsr_gpu_reserve(ctx, self, self->about, size_bytes, &self->snapshot.copy);
    if (result.code != TSR_MEMORY) return result;
    tsr_error_clear(ctx);
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_ready_snapshot(tsr_ctx *ctx, tsr_device *device, tsr_device_range range,
                                  bool *out_fits) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_snapshot *snapshot = &self->snapshot;
    *out_fits = false;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    release_copy(self);
    if (!range.size_bytes) return TSR_SUCCESS;
    if (self->memory_max && range.size_bytes > self->memory_max - self->memory_used)
        return TSR_SUCCESS;
    TRY(ctx, reserve_copy(ctx, self, range.size_bytes));
    if (!snapshot->copy) return TSR_SUCCESS;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_create, self->about, &snapshot->copied,
                          TSR_GPU_EVENT_DISABLE_TIMING));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_create, self->about, &snapshot->copies,
                          TSR_GPU_STREAM_NON_BLOCKING));
    TRY(ctx, tsr_gpu_wait(ctx, self, self->about));
    self->memory_used += range.size_bytes;
    snapshot->range = range;
    *out_fits = true;
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_take_snapshot(tsr_ctx *ctx, tsr_device *device,
                                 const tsr_device_memory *memory) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_snapshot *snapshot = &self->snapshot;
    TSR_ASSERT(snapshot->range.size_bytes);
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, tsr_gpu_wait(ctx, self, self->about));
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->memory = tsr_gpu_address_of(memory->device);
    snapshot->open = true;
    snapshot->broken = false;
    snapshot->read_count = 0;
    pthread_mutex_unlock(&snapshot->mutex);
    return TSR_SUCCESS;
}

/* ---- parts that were read ---- */

/* True if the gap is smaller than the alignment, as between tensors. */
static bool touch(const tsr_gpu_extent *a, const tsr_gpu_extent *b) {
    return a->end <= b->begin && b->begin - a->end < TSR_BUFFER_ALIGN_BYTES;
}

/* Extents are stored in order. An extent without room in the table is copied although it was read.
 */
static void note_read(tsr_gpu_snapshot *snapshot, tsr_device_range range) {
    const tsr_gpu_extent own = {range.offset_bytes, range.offset_bytes + range.size_bytes};
    tsr_gpu_extent *read = snapshot->read;
    uint32_t at = 0, count = snapshot->read_count;
    while (at < count && read[at].begin < own.begin) at++;
    bool joins_before = at > 0 && touch(&read[at - 1], &own);
    bool joins_behind = at < count && touch(&own, &read[at]);
    if (joins_before && joins_behind) {
        read[at - 1].end = read[at].end;
        memmove(read + at, read + at + 1, (count - at - 1) * sizeof *read);
        snapshot->read_count--;
    } else if (joins_before) {
        read[at - 1].end = own.end;
    } else if (joins_behind) {
        read[at].begin = own.begin;
    } else if (count < TSR_GPU_EXTENTS_MAX) {
        memmove(read + at + 1, read + at, (count - at) * sizeof *read);
        read[at] = own;
        snapshot->read_count++;
    }
}

/* Gaps between tensors are not copied. */
static tsr_result copy_extent(tsr_ctx *ctx, const tsr_gpu_device *self, uint64_t begin,
                              uint64_t end) {
    const tsr_gpu_snapshot *snapshot = &self->snapshot;
    bool is_last = end == snapshot->range.offset_bytes + snapshot->range.size_bytes;
    if (end - begin < (is_last ? 1 : TSR_BUFFER_ALIGN_BYTES)) return TSR_SUCCESS;
    return TSR_GPU_CALL(ctx, &self->driver, copy, self->about,
                        snapshot->copy + (begin - snapshot->range.offset_bytes),
                        snapshot->memory + begin, end - begin, snapshot->copies);
}

static tsr_result copy_rest(tsr_ctx *ctx, const tsr_gpu_device *self) {
    const tsr_gpu_snapshot *snapshot = &self->snapshot;
    uint64_t at = snapshot->range.offset_bytes;
    for (uint32_t i = 0; i < snapshot->read_count; i++) {
        TRY(ctx, copy_extent(ctx, self, at, snapshot->read[i].begin));
        at = snapshot->read[i].end;
    }
    TRY(ctx, copy_extent(ctx, self, at, snapshot->range.offset_bytes + snapshot->range.size_bytes));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_record, self->about, snapshot->copied,
                          snapshot->copies));
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait_event, self->about, self->stream,
                        snapshot->copied, 0);
}

/* Waits as long as the copies can still finish concurrently with the commands before the writes:
 * few parts remain unread then. If nothing is running, the event has already happened. */
tsr_result tsr_gpu_let_write(tsr_ctx *ctx, tsr_gpu_device *self, bool holds_readers) {
    tsr_gpu_snapshot *snapshot = &self->snapshot;
    if (!snapshot->open) return TSR_SUCCESS;
    TRY(ctx, tsr_gpu_wait_event(ctx, self, snapshot->before));
    pthread_mutex_lock(&snapshot->mutex);
    tsr_result result = copy_rest(ctx, self);
    snapshot->open = false;
    snapshot->broken = result.code != 0;
    snapshot->holds = holds_readers && !snapshot->broken;
    pthread_mutex_unlock(&snapshot->mutex);
    return result;
}

tsr_result tsr_gpu_let_write_range(tsr_ctx *ctx, tsr_device *device, tsr_device_range range) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    const tsr_device_range copied = self->snapshot.range;
    bool apart = range.offset_bytes >= copied.offset_bytes + copied.size_bytes ||
                 copied.offset_bytes >= range.offset_bytes + range.size_bytes;
    return apart ? TSR_SUCCESS : tsr_gpu_let_write(ctx, self, false);
}

void tsr_gpu_free_readers(tsr_gpu_device *self) {
    tsr_gpu_snapshot *snapshot = &self->snapshot;
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->holds = false;
    pthread_cond_broadcast(&snapshot->freed);
    pthread_mutex_unlock(&snapshot->mutex);
}

/* ---- readers ---- */

static tsr_result download_copy(tsr_ctx *ctx, const tsr_gpu_device *self, const tsr_gpu_reader *own,
                                tsr_device_range range, char *buffer) {
    const tsr_gpu_snapshot *snapshot = &self->snapshot;
    tsr_gpu_address from = snapshot->copy + (range.offset_bytes - snapshot->range.offset_bytes);
    if (snapshot->broken) FAIL(ctx, TSR_MACHINE, "%s: cached values are lost", self->about);
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_wait_event, self->about, own->stream,
                          snapshot->copied, 0));
    for (uint64_t at = 0, part; at < range.size_bytes; at += part) {
        part = range.size_bytes - at < BLOCK_BYTES ? range.size_bytes - at : BLOCK_BYTES;
        TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, download, self->about, buffer + at, from + at,
                              part, own->stream));
        TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_wait, self->about, own->stream));
    }
    return TSR_SUCCESS;
}

static tsr_result download_original(tsr_ctx *ctx, const tsr_gpu_device *self,
                                    const tsr_gpu_reader *own, tsr_device_range range,
                                    char *buffer) {
    TRY(ctx,
        TSR_GPU_CALL(ctx, &self->driver, download, self->about, buffer,
                     self->snapshot.memory + range.offset_bytes, range.size_bytes, own->stream));
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait, self->about, own->stream);
}

tsr_result tsr_gpu_read_snapshot(tsr_ctx *ctx, tsr_device *device, unsigned number,
                                 tsr_device_range range, const void **out_bytes) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_snapshot *snapshot = &self->snapshot;
    tsr_gpu_reader *own = &self->readers[number];
    TSR_ASSERT(number < TSR_DEVICE_READERS_MAX && own->locked &&
               range.size_bytes <= TSR_DEVICE_READ_BYTES_MAX &&
               range.offset_bytes >= snapshot->range.offset_bytes &&
               range.offset_bytes + range.size_bytes <=
                   snapshot->range.offset_bytes + snapshot->range.size_bytes);
    char *buffer = tsr_gpu_next_buffer(own);
    TRY(ctx, tsr_gpu_enter(ctx, self));
    pthread_mutex_lock(&snapshot->mutex);
    bool open = snapshot->open;
    pthread_mutex_unlock(&snapshot->mutex);
    if (open) TRY(ctx, download_original(ctx, self, own, range, buffer));
    pthread_mutex_lock(&snapshot->mutex);
    bool whole = open && snapshot->open;
    if (whole) note_read(snapshot, range);
    while (!whole && snapshot->holds) pthread_cond_wait(&snapshot->freed, &snapshot->mutex);
    pthread_mutex_unlock(&snapshot->mutex);
    tsr_result result = TSR_SUCCESS;
    if (!whole) {
        pthread_mutex_lock(&snapshot->readers_lock);
        result = download_copy(ctx, self, own, range, buffer);
        pthread_mutex_unlock(&snapshot->readers_lock);
    }
    if (!result.code) *out_bytes = buffer;
    return result;
}
