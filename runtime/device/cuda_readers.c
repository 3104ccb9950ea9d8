/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads tensors concurrently with runs, and runs the runtime's own kernels: numbers that the GPU
 * draws.
 */
#include "runtime/base/plural.h"
#include "runtime/device/cuda_device.h"
#include "runtime/device/cuda_ptx.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

tsr_result tsr_cuda_enter(tsr_ctx *ctx, const tsr_cuda_device *self) {
    return TSR_CUDA_CALL(ctx, &self->cuda, context_set, self->about, self->context);
}

/* ---- memory of the host ---- */

static size_t mapped_bytes(size_t count, size_t part_bytes) { return (count + 1) * part_bytes; }

tsr_result tsr_cuda_map_parts(tsr_ctx *ctx, size_t count, size_t part_bytes, void **out_mapping,
                              char **out_parts) {
    size_t size_bytes = mapped_bytes(count, part_bytes);
    void *mapping = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        FAIL(ctx, TSR_MEMORY, "no address space for %zu byte%s", size_bytes,
             TSR_PLURAL(size_bytes));
    uintptr_t begin = ((uintptr_t)mapping + part_bytes - 1) / part_bytes * part_bytes;
    (void)madvise((void *)begin, count * part_bytes, MADV_HUGEPAGE);
    *out_mapping = mapping;
    *out_parts = (char *)begin;
    return TSR_SUCCESS;
}

void tsr_cuda_unmap_parts(void *mapping, size_t count, size_t part_bytes) {
    if (mapping) munmap(mapping, mapped_bytes(count, part_bytes));
}

tsr_result tsr_cuda_lock_part(tsr_ctx *ctx, const tsr_cuda_device *self, char *part,
                              size_t size_bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < size_bytes; at += page) part[at] = 0;
    return TSR_CUDA_CALL(ctx, &self->cuda, host_register, self->about, part, size_bytes, 0);
}

/* ---- readers ---- */

enum { BUFFERS_BYTES = TSR_CUDA_READ_BUFFERS * TSR_DEVICE_READ_BYTES_MAX };

char *tsr_cuda_next_buffer(tsr_cuda_reader *reader) {
    reader->at = (reader->at + 1) % TSR_CUDA_READ_BUFFERS;
    return reader->buffers + (size_t)reader->at * TSR_DEVICE_READ_BYTES_MAX;
}

/* Only the reader's own thread waits: the device continues to run. */
tsr_result tsr_cuda_read(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         unsigned number, tsr_device_range range, const void **out_bytes) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    tsr_cuda_reader *own = &self->readers[number];
    TSR_ASSERT(number < TSR_DEVICE_READERS_MAX && own->locked &&
               range.size_bytes <= TSR_DEVICE_READ_BYTES_MAX);
    char *buffer = tsr_cuda_next_buffer(own);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, download, self->about, buffer,
                           tsr_cuda_address_of(memory->device + range.offset_bytes),
                           range.size_bytes, own->stream));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, own->stream));
    *out_bytes = buffer;
    return TSR_SUCCESS;
}

static tsr_result map_buffers(tsr_ctx *ctx, tsr_cuda_device *self) {
    char *buffers = NULL;
    TRY(ctx,
        tsr_cuda_map_parts(ctx, TSR_DEVICE_READERS_MAX, BUFFERS_BYTES, &self->buffers, &buffers));
    for (size_t i = 0; i < TSR_DEVICE_READERS_MAX; i++)
        self->readers[i].buffers = buffers + i * BUFFERS_BYTES;
    return TSR_SUCCESS;
}

static tsr_result ready_reader(tsr_ctx *ctx, const tsr_cuda_device *self, tsr_cuda_reader *own) {
    if (own->locked) return TSR_SUCCESS;
    if (!own->stream)
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_create, self->about, &own->stream,
                               TSR_CUDA_STREAM_NON_BLOCKING));
    TRY(ctx, tsr_cuda_lock_part(ctx, self, own->buffers, BUFFERS_BYTES));
    own->locked = true;
    return TSR_SUCCESS;
}

tsr_result tsr_cuda_ready_readers(tsr_ctx *ctx, tsr_device *device, unsigned count) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    TSR_ASSERT(count <= TSR_DEVICE_READERS_MAX);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    if (!self->buffers) TRY(ctx, map_buffers(ctx, self));
    for (unsigned i = 0; i < count; i++) TRY(ctx, ready_reader(ctx, self, &self->readers[i]));
    return TSR_SUCCESS;
}

/* ---- the runtime's own kernels ---- */

static tsr_result load_text(tsr_ctx *ctx, const tsr_cuda_device *self, const char *name,
                            void (*print)(tsr_buffer *), struct CUmod_st **module) {
    tsr_buffer text = {0};
    tsr_result result = TSR_SUCCESS;
    print(&text);
    if (text.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the text of %s", name);
    result = TSR_CUDA_CALL(ctx, &self->cuda, module_load, name, module, text.bytes, 0, NULL, NULL);
done:
    tsr_buffer_finish(&text);
    return result;
}

/* Loads one of the runtime's own kernels, if it is not loaded yet. A driver older than the
 * assembler may refuse its machine code (NULL: none), but accepts the text. */
static tsr_result load(tsr_ctx *ctx, tsr_cuda_device *self, const char *name,
                       const tsr_fatbin_image *code, void (*print)(tsr_buffer *),
                       struct CUmod_st **module, struct CUfunc_st **function) {
    if (*function) return TSR_SUCCESS;
    if (!*module && (!code || self->cuda.module_load(module, code->bytes, 0, NULL, NULL) != 0))
        TRY(ctx, load_text(ctx, self, name, print, module));
    return TSR_CUDA_CALL(ctx, &self->cuda, module_function, name, function, *module, name);
}

static tsr_result load_normals(tsr_ctx *ctx, tsr_cuda_device *self) {
    return load(ctx, self, TSR_CUDA_PTX_NORMALS, NULL, tsr_cuda_ptx_normals, &self->normals_module,
                &self->normals);
}

const tsr_fatbin_image *tsr_cuda_find_leaves(const tsr_cuda_device *self) {
    const tsr_fatbin codes = {.images = tsr_cuda_leaves_codes,
                              .image_count = tsr_cuda_leaves_code_count};
    return tsr_fatbin_match(&codes, self->gpu.capability);
}

static tsr_result load_leaves(tsr_ctx *ctx, tsr_cuda_device *self) {
    return load(ctx, self, TSR_CUDA_PTX_LEAVES, tsr_cuda_find_leaves(self), tsr_cuda_ptx_leaves,
                &self->leaves_module, &self->leaves);
}

static tsr_result ready(tsr_ctx *ctx, tsr_cuda_device *self) {
    TRY(ctx, tsr_cuda_enter(ctx, self));
    if (self->readies_staged_upload) {
        TRY(ctx, tsr_cuda_ready_staged_upload(ctx, self));
        TRY(ctx, load_leaves(ctx, self));
    }
    return self->readies_draws ? load_normals(ctx, self) : TSR_SUCCESS;
}

static void *help(void *user) {
    tsr_cuda_device *self = user;
    self->readied = ready(&self->helper_ctx, self);
    return NULL;
}

void tsr_cuda_expect(const tsr_ctx *ctx, tsr_cuda_device *self, bool draws, uint64_t takes_bytes) {
    self->helper_ctx = tsr_ctx_fork(ctx);
    self->readies_draws = draws;
    self->readies_staged_upload =
        takes_bytes && takes_bytes >= tsr_cuda_staged_upload_functions.bytes_min(&self->base);
    self->readies = (draws || self->readies_staged_upload) &&
                    pthread_create(&self->helper, NULL, help, self) == 0;
}

static tsr_result finish_readying(tsr_ctx *ctx, tsr_cuda_device *self) {
    if (!self->readies) return TSR_SUCCESS;
    self->readies = false;
    pthread_join(self->helper, NULL);
    return self->readied.code ? tsr_error_adopt(ctx, &self->helper_ctx) : TSR_SUCCESS;
}

tsr_result tsr_cuda_ready_leaves(tsr_ctx *ctx, tsr_cuda_device *self) {
    TRY(ctx, finish_readying(ctx, self));
    return load_leaves(ctx, self);
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
        FAIL(ctx, TSR_MEMORY, "%" PRIu64 " numbers are more than a launch draws", n.count);
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, finish_readying(ctx, self));
    TRY(ctx, load_normals(ctx, self));
    TRY(ctx, tsr_cuda_let_write(ctx, self, false));
    return TSR_CUDA_CALL(ctx, &self->cuda, launch, TSR_CUDA_PTX_NORMALS, self->normals,
                         (unsigned)blocks, 1, 1, TSR_CUDA_PTX_THREADS, 1, 1, 0, self->stream,
                         parameters, NULL);
}

void tsr_cuda_finish_readers(tsr_cuda_device *self) {
    if (self->readies) pthread_join(self->helper, NULL);
    for (tsr_cuda_reader *r = self->readers; r < self->readers + TSR_DEVICE_READERS_MAX; r++) {
        if (r->stream) self->cuda.stream_destroy(r->stream);
        if (r->locked) self->cuda.host_unregister(r->buffers);
    }
    tsr_cuda_unmap_parts(self->buffers, TSR_DEVICE_READERS_MAX, BUFFERS_BYTES);
    tsr_cuda_finish_staged_upload(self);
    if (self->leaves_module) self->cuda.module_unload(self->leaves_module);
    if (self->normals_module) self->cuda.module_unload(self->normals_module);
}
