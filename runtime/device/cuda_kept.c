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
#include "runtime/device/cuda_device.h"

#include <string.h>

enum { BLOCK_BYTES = 1 << 20 };

tsr_result tsr_cuda_init_keeping(tsr_ctx *ctx, tsr_cuda_device *self) {
    return TSR_CUDA_CALL(ctx, &self->cuda, event_create, self->about, &self->kept.before,
                         TSR_CUDA_EVENT_DISABLE_TIMING);
}

static void release_copy(tsr_cuda_device *self) {
    tsr_cuda_kept *kept = &self->kept;
    if (kept->copies) self->cuda.stream_destroy(kept->copies);
    if (kept->copy) self->cuda.free(kept->copy, self->stream);
    if (kept->copied) self->cuda.event_destroy(kept->copied);
    self->memory_used -= kept->range.size_bytes;
    kept->copy = 0;
    kept->copied = NULL;
    kept->copies = NULL;
    kept->range = (tsr_device_range){0, 0};
    kept->open = false;
}

void tsr_cuda_finish_keeping(tsr_cuda_device *self) {
    release_copy(self);
    if (self->kept.before) self->cuda.event_destroy(self->kept.before);
    self->kept.before = NULL;
}

/* Reserves nothing if there is not enough memory. */
static tsr_result reserve_copy(tsr_ctx *ctx, tsr_cuda_device *self, uint64_t size_bytes) {
    size_t left = 0, total = 0;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, memory_info, self->about, &left, &total));
    if (size_bytes > left) return TSR_SUCCESS;
    tsr_result result = tsr_cuda_reserve(ctx, self, self->about, size_bytes, &self->kept.copy);
    if (result.code != TSR_MEMORY) return result;
    tsr_error_clear(ctx);
    return TSR_SUCCESS;
}

tsr_result tsr_cuda_ready_keeping(tsr_ctx *ctx, tsr_device *device, tsr_device_range range,
                                  bool *out_fits) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_cuda_kept *kept = &self->kept;
    *out_fits = false;
    TRY(ctx, tsr_cuda_enter(ctx, self));
    release_copy(self);
    if (!range.size_bytes) return TSR_SUCCESS;
    if (self->memory_max && range.size_bytes > self->memory_max - self->memory_used)
        return TSR_SUCCESS;
    TRY(ctx, reserve_copy(ctx, self, range.size_bytes));
    if (!kept->copy) return TSR_SUCCESS;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, event_create, self->about, &kept->copied,
                           TSR_CUDA_EVENT_DISABLE_TIMING));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_create, self->about, &kept->copies,
                           TSR_CUDA_STREAM_NON_BLOCKING));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream));
    self->memory_used += range.size_bytes;
    kept->range = range;
    *out_fits = true;
    return TSR_SUCCESS;
}

tsr_result tsr_cuda_keep(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_cuda_kept *kept = &self->kept;
    TSR_ASSERT(kept->range.size_bytes);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream));
    pthread_mutex_lock(&kept->mutex);
    kept->memory = tsr_cuda_address_of(memory->device);
    kept->open = true;
    kept->broken = false;
    kept->read_count = 0;
    pthread_mutex_unlock(&kept->mutex);
    return TSR_SUCCESS;
}

/* ---- parts that were read ---- */

/* True if the gap is smaller than the alignment, as between tensors. */
static bool touch(const tsr_cuda_extent *a, const tsr_cuda_extent *b) {
    return a->end <= b->begin && b->begin - a->end < TSR_BUFFER_ALIGN_BYTES;
}

/* Extents are stored in order. An extent without room in the table is copied although it was read.
 */
static void note_read(tsr_cuda_kept *kept, tsr_device_range range) {
    const tsr_cuda_extent own = {range.offset_bytes, range.offset_bytes + range.size_bytes};
    tsr_cuda_extent *read = kept->read;
    uint32_t at = 0, count = kept->read_count;
    while (at < count && read[at].begin < own.begin) at++;
    bool joins_before = at > 0 && touch(&read[at - 1], &own);
    bool joins_behind = at < count && touch(&own, &read[at]);
    if (joins_before && joins_behind) {
        read[at - 1].end = read[at].end;
        memmove(read + at, read + at + 1, (count - at - 1) * sizeof *read);
        kept->read_count--;
    } else if (joins_before) {
        read[at - 1].end = own.end;
    } else if (joins_behind) {
        read[at].begin = own.begin;
    } else if (count < TSR_CUDA_EXTENTS_MAX) {
        memmove(read + at + 1, read + at, (count - at) * sizeof *read);
        read[at] = own;
        kept->read_count++;
    }
}

/* Gaps between tensors are not copied. */
static tsr_result copy_extent(tsr_ctx *ctx, const tsr_cuda_device *self, uint64_t begin,
                              uint64_t end) {
    const tsr_cuda_kept *kept = &self->kept;
    bool is_last = end == kept->range.offset_bytes + kept->range.size_bytes;
    if (end - begin < (is_last ? 1 : TSR_BUFFER_ALIGN_BYTES)) return TSR_SUCCESS;
    return TSR_CUDA_CALL(ctx, &self->cuda, copy, self->about,
                         kept->copy + (begin - kept->range.offset_bytes), kept->memory + begin,
                         end - begin, kept->copies);
}

static tsr_result copy_rest(tsr_ctx *ctx, const tsr_cuda_device *self) {
    const tsr_cuda_kept *kept = &self->kept;
    uint64_t at = kept->range.offset_bytes;
    for (uint32_t i = 0; i < kept->read_count; i++) {
        TRY(ctx, copy_extent(ctx, self, at, kept->read[i].begin));
        at = kept->read[i].end;
    }
    TRY(ctx, copy_extent(ctx, self, at, kept->range.offset_bytes + kept->range.size_bytes));
    TRY(ctx,
        TSR_CUDA_CALL(ctx, &self->cuda, event_record, self->about, kept->copied, kept->copies, 0));
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait_event, self->about, self->stream,
                         kept->copied, 0);
}

/* Waits as long as the copies can still finish concurrently with the commands before the writes:
 * few parts remain unread then. If nothing is running, the event has already happened. */
tsr_result tsr_cuda_let_write(tsr_ctx *ctx, tsr_cuda_device *self, bool holds_readers) {
    tsr_cuda_kept *kept = &self->kept;
    if (!kept->open) return TSR_SUCCESS;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, event_wait, self->about, kept->before));
    pthread_mutex_lock(&kept->mutex);
    tsr_result result = copy_rest(ctx, self);
    kept->open = false;
    kept->broken = result.code != 0;
    kept->holds = holds_readers && !kept->broken;
    pthread_mutex_unlock(&kept->mutex);
    return result;
}

void tsr_cuda_free_readers(tsr_cuda_device *self) {
    tsr_cuda_kept *kept = &self->kept;
    pthread_mutex_lock(&kept->mutex);
    kept->holds = false;
    pthread_cond_broadcast(&kept->freed);
    pthread_mutex_unlock(&kept->mutex);
}

/* ---- readers ---- */

static tsr_result download_copy(tsr_ctx *ctx, const tsr_cuda_device *self,
                                const tsr_cuda_reader *own, tsr_device_range range, char *buffer) {
    const tsr_cuda_kept *kept = &self->kept;
    tsr_cuda_address from = kept->copy + (range.offset_bytes - kept->range.offset_bytes);
    if (kept->broken) FAIL(ctx, TSR_MACHINE, "%s: cached values are lost", self->about);
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait_event, self->about, own->stream,
                           kept->copied, 0));
    for (uint64_t at = 0, part; at < range.size_bytes; at += part) {
        part = range.size_bytes - at < BLOCK_BYTES ? range.size_bytes - at : BLOCK_BYTES;
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, download, self->about, buffer + at, from + at,
                               part, own->stream));
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, own->stream));
    }
    return TSR_SUCCESS;
}

static tsr_result download_original(tsr_ctx *ctx, const tsr_cuda_device *self,
                                    const tsr_cuda_reader *own, tsr_device_range range,
                                    char *buffer) {
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, download, self->about, buffer,
                           self->kept.memory + range.offset_bytes, range.size_bytes, own->stream));
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, own->stream);
}

tsr_result tsr_cuda_read_kept(tsr_ctx *ctx, tsr_device *device, unsigned number,
                              tsr_device_range range, const void **out_bytes) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_cuda_kept *kept = &self->kept;
    tsr_cuda_reader *own = &self->readers[number];
    TSR_ASSERT(number < TSR_DEVICE_READERS_MAX && own->locked &&
               range.size_bytes <= TSR_DEVICE_READ_BYTES_MAX &&
               range.offset_bytes >= kept->range.offset_bytes &&
               range.offset_bytes + range.size_bytes <=
                   kept->range.offset_bytes + kept->range.size_bytes);
    char *buffer = tsr_cuda_next_buffer(own);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    pthread_mutex_lock(&kept->mutex);
    bool open = kept->open;
    pthread_mutex_unlock(&kept->mutex);
    if (open) TRY(ctx, download_original(ctx, self, own, range, buffer));
    pthread_mutex_lock(&kept->mutex);
    bool whole = open && kept->open;
    if (whole) note_read(kept, range);
    while (!whole && kept->holds) pthread_cond_wait(&kept->freed, &kept->mutex);
    pthread_mutex_unlock(&kept->mutex);
    tsr_result result = TSR_SUCCESS;
    if (!whole) {
        pthread_mutex_lock(&kept->turn);
        result = download_copy(ctx, self, own, range, buffer);
        pthread_mutex_unlock(&kept->turn);
    }
    if (!result.code) *out_bytes = buffer;
    return result;
}
