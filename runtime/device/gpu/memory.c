/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU, and copies to and from the host that wait until they are done.
 *
 * The host's memory is reserved address space: pages are allocated when they are written. The pages
 * of inputs and outputs are page-locked, which transfers within graphs require.
 */
#include "runtime/base/plural.h"
#include "runtime/device/gpu/device.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

/* Free memory may be fragmented, or taken by another process a moment later. */
tsr_result tsr_gpu_reserve(tsr_ctx *ctx, const tsr_gpu_device *self, const char *about,
                           uint64_t size_bytes, tsr_gpu_address *out_address) {
    const tsr_gpu_driver *driver = &self->driver;
    tsr_result result =
        driver->allocate
            ? TSR_GPU_CALL(ctx, driver, allocate, about, out_address, size_bytes, self->stream)
            : TSR_GPU_CALL(ctx, driver, allocate_now, about, out_address, size_bytes);
    if (result.code != TSR_MEMORY) return result;
    return tsr_error_prefix(ctx, result, "%" PRIu64 " byte%s of device memory %s needed",
                            size_bytes, TSR_PLURAL_ARE(size_bytes));
}

void tsr_gpu_free(const tsr_gpu_device *self, tsr_gpu_address address) {
    if (address && self->driver.free)
        self->driver.free(address, self->stream);
    else if (address)
        self->driver.free_now(address);
}

void tsr_gpu_release(tsr_device *device, tsr_device_memory *memory) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    self->driver.context_set(self->context);
    if (memory->window.size_bytes)
        tsr_gpu_release_window(self, &memory->window);
    else if (memory->device)
        tsr_gpu_free(self, tsr_gpu_address_of(memory->device));
    if (memory->locked.size_bytes)
        self->driver.host_unregister(memory->host + memory->locked.offset_bytes);
    tsr_gpu_release_offloaded(self, memory);
    if (memory->host) munmap(memory->host, (size_t)memory->size_bytes);
    if (memory->device) self->memory_used -= memory->size_bytes;
    *memory = (tsr_device_memory){0};
}

/* Locks full pages, with all other data on them. */
static tsr_result lock_pages(tsr_ctx *ctx, tsr_gpu_device *self, tsr_device_range range,
                             tsr_device_memory *memory) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = range.offset_bytes % page;
    if (!range.size_bytes) return TSR_SUCCESS;
    range.offset_bytes -= before;
    range.size_bytes += before;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, host_register, self->about,
                          memory->host + range.offset_bytes, range.size_bytes, 0));
    memory->locked = range;
    return TSR_SUCCESS;
}

/* A GPU that cannot share memory reports it when the ranks choose how to exchange. */
static tsr_result reserve_memory(tsr_ctx *ctx, const tsr_gpu_device *self,
                                 tsr_device_memory *memory) {
    tsr_gpu_address address = 0;
    tsr_ctx trial = tsr_ctx_fork(ctx);
    if (self->shares && !tsr_gpu_check_windows(&trial, self).code) {
        TRY(ctx, tsr_gpu_allocate_window(ctx, self, memory->size_bytes, &memory->window));
        memory->device = memory->window.address;
        return TSR_SUCCESS;
    }
    TRY(ctx, tsr_gpu_reserve(ctx, self, self->about, memory->size_bytes, &address));
    memory->device = (char *)(uintptr_t)address;
    return TSR_SUCCESS;
}

static tsr_result allocate_both(tsr_ctx *ctx, tsr_gpu_device *self, uint64_t offloaded_bytes,
                                tsr_device_range ports, tsr_device_memory *memory) {
    uint64_t size_bytes = memory->size_bytes;
    tsr_gpu_address address = 0;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    uint64_t allowed = self->memory_max ? self->memory_max - self->memory_used : UINT64_MAX;
    TRY(ctx, tsr_gpu_check_memory(ctx, &self->driver, self->about, size_bytes, allowed));
    void *host = mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED)
        FAIL(ctx, TSR_MEMORY, "no address space for %" PRIu64 " byte%s", size_bytes,
             TSR_PLURAL(size_bytes));
    memory->host = host;
    (void)madvise(host, (size_t)size_bytes, MADV_HUGEPAGE);
    TRY(ctx, lock_pages(ctx, self, ports, memory));
    TRY(ctx, tsr_gpu_allocate_offloaded(ctx, self, offloaded_bytes, memory));
    TRY(ctx, reserve_memory(ctx, self, memory));
    address = tsr_gpu_address_of(memory->device);
    self->memory_used += size_bytes;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, set_bytes, self->about, address, 0, size_bytes,
                          self->stream));
    return tsr_gpu_wait(ctx, self, self->about);
}

tsr_result tsr_gpu_allocate(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                            uint64_t offloaded_bytes, tsr_device_range ports,
                            tsr_device_memory *out_memory) {
    tsr_device_memory memory = {.size_bytes = size_bytes};
    tsr_result result =
        allocate_both(ctx, (tsr_gpu_device *)device, offloaded_bytes, ports, &memory);
    if (result.code)
        tsr_gpu_release(device, &memory);
    else
        *out_memory = memory;
    return result;
}

tsr_result tsr_gpu_upload_range(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                                tsr_device_range range) {
    if (!range.size_bytes) return TSR_SUCCESS;
    return TSR_GPU_CALL(ctx, &self->driver, upload, self->about,
                        tsr_gpu_address_of(memory->device + range.offset_bytes),
                        memory->host + range.offset_bytes, range.size_bytes, self->stream);
}

tsr_result tsr_gpu_download_range(tsr_ctx *ctx, tsr_gpu_device *self,
                                  const tsr_device_memory *memory, tsr_device_range range) {
    if (!range.size_bytes) return TSR_SUCCESS;
    return TSR_GPU_CALL(
        ctx, &self->driver, download, self->about, memory->host + range.offset_bytes,
        tsr_gpu_address_of(memory->device + range.offset_bytes), range.size_bytes, self->stream);
}

tsr_result tsr_gpu_upload(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                          tsr_device_range range) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, tsr_gpu_let_write(ctx, self, false));
    TRY(ctx, tsr_gpu_upload_range(ctx, self, memory, range));
    return tsr_gpu_wait(ctx, self, self->about);
}

tsr_result tsr_gpu_download(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                            tsr_device_range range) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, tsr_gpu_download_range(ctx, self, memory, range));
    return tsr_gpu_wait(ctx, self, self->about);
}

tsr_result tsr_gpu_read_caller(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                               uint64_t size_bytes) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, download, "memory of the caller", to,
                          tsr_gpu_address_of(from), size_bytes, self->stream));
    return tsr_gpu_wait(ctx, self, self->about);
}

tsr_result tsr_gpu_write_caller(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                                uint64_t size_bytes) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, upload, "memory of the caller",
                          tsr_gpu_address_of(to), from, size_bytes, self->stream));
    return tsr_gpu_wait(ctx, self, self->about);
}

int32_t tsr_gpu_get_number(const tsr_device *device) {
    return ((const tsr_gpu_device *)device)->gpu.ordinal;
}

tsr_result tsr_gpu_await_caller(tsr_ctx *ctx, tsr_device *device, const void *stream) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait, "the stream of the caller",
                        (struct tsr_gpu_stream *)(uintptr_t)stream);
}

tsr_result tsr_gpu_lock(tsr_ctx *ctx, tsr_device *device, void *bytes, uint64_t size_bytes) {
    const tsr_gpu_device *self = (const tsr_gpu_device *)device;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    return TSR_GPU_CALL(ctx, &self->driver, host_register, self->about, bytes, size_bytes, 0);
}

void tsr_gpu_unlock(tsr_device *device, void *bytes) {
    const tsr_gpu_device *self = (const tsr_gpu_device *)device;
    self->driver.context_set(self->context);
    self->driver.host_unregister(bytes);
}
