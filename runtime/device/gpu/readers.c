/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads tensors concurrently with runs, and runs the runtime's own kernels: numbers that the GPU
 * draws.
 */
#include "runtime/base/plural.h"
#include "runtime/device/gpu/device.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

tsr_result tsr_gpu_enter(tsr_ctx *ctx, const tsr_gpu_device *self) {
    return TSR_GPU_CALL(ctx, &self->driver, context_set, self->about, self->context);
}

/* ---- memory of the host ---- */

static size_t mapped_bytes(size_t count, size_t part_bytes) { return (count + 1) * part_bytes; }

tsr_result tsr_gpu_map_parts(tsr_ctx *ctx, size_t count, size_t part_bytes, void **out_mapping,
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

void tsr_gpu_unmap_parts(void *mapping, size_t count, size_t part_bytes) {
    if (mapping) munmap(mapping, mapped_bytes(count, part_bytes));
}

tsr_result tsr_gpu_lock_part(tsr_ctx *ctx, const tsr_gpu_device *self, char *part,
                             size_t size_bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < size_bytes; at += page) part[at] = 0;
    return TSR_GPU_CALL(ctx, &self->driver, host_register, self->about, part, size_bytes, 0);
}

/* ---- readers ---- */

enum { BUFFERS_BYTES = TSR_GPU_READ_BUFFERS * TSR_DEVICE_READ_BYTES_MAX };

char *tsr_gpu_next_buffer(tsr_gpu_reader *reader) {
    reader->at = (reader->at + 1) % TSR_GPU_READ_BUFFERS;
    return reader->buffers + (size_t)reader->at * TSR_DEVICE_READ_BYTES_MAX;
}

/* Only the reader's own thread waits: the device continues to run. */
tsr_result tsr_gpu_read(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                        unsigned number, tsr_device_range range, const void **out_bytes) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_reader *own = &self->readers[number];
    TSR_ASSERT(number < TSR_DEVICE_READERS_MAX && own->locked &&
               range.size_bytes <= TSR_DEVICE_READ_BYTES_MAX);
    char *buffer = tsr_gpu_next_buffer(own);
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, download, self->about, buffer,
                          tsr_gpu_address_of(memory->device + range.offset_bytes), range.size_bytes,
                          own->stream));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_wait, self->about, own->stream));
    *out_bytes = buffer;
    return TSR_SUCCESS;
}

static tsr_result map_buffers(tsr_ctx *ctx, tsr_gpu_device *self) {
    char *buffers = NULL;
    TRY(ctx,
        tsr_gpu_map_parts(ctx, TSR_DEVICE_READERS_MAX, BUFFERS_BYTES, &self->buffers, &buffers));
    for (size_t i = 0; i < TSR_DEVICE_READERS_MAX; i++)
        self->readers[i].buffers = buffers + i * BUFFERS_BYTES;
    return TSR_SUCCESS;
}

static tsr_result ready_reader(tsr_ctx *ctx, const tsr_gpu_device *self, tsr_gpu_reader *own) {
    if (own->locked) return TSR_SUCCESS;
    if (!own->stream)
        TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_create, self->about, &own->stream,
                              TSR_GPU_STREAM_NON_BLOCKING));
    TRY(ctx, tsr_gpu_lock_part(ctx, self, own->buffers, BUFFERS_BYTES));
    own->locked = true;
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_ready_readers(tsr_ctx *ctx, tsr_device *device, unsigned count) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TSR_ASSERT(count <= TSR_DEVICE_READERS_MAX);
    TRY(ctx, tsr_gpu_enter(ctx, self));
    if (!self->buffers) TRY(ctx, map_buffers(ctx, self));
    for (unsigned i = 0; i < count; i++) TRY(ctx, ready_reader(ctx, self, &self->readers[i]));
    return TSR_SUCCESS;
}

/* ---- the runtime's own kernels ---- */

static tsr_result load_text(tsr_ctx *ctx, const tsr_gpu_device *self, const char *name,
                            void (*print)(tsr_buffer *), struct tsr_gpu_module **module) {
    tsr_buffer text = {0};
    tsr_result result = TSR_SUCCESS;
    print(&text);
    if (text.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the text of %s", name);
    result = TSR_GPU_CALL(ctx, &self->driver, module_load, name, module, text.bytes, 0, NULL, NULL);
done:
    tsr_buffer_finish(&text);
    return result;
}

/* Loads one of the runtime's own kernels, if it is not loaded yet. A driver older than the
 * assembler may refuse its machine code (NULL: none), but accepts the text. */
static tsr_result load(tsr_ctx *ctx, tsr_gpu_device *self, const char *name,
                       const tsr_fatbin_image *code, void (*print)(tsr_buffer *),
                       struct tsr_gpu_module **module, struct tsr_gpu_function **function) {
    if (*function) return TSR_SUCCESS;
    if (!*module && (!code || self->driver.module_load(module, code->bytes, 0, NULL, NULL) != 0))
        TRY(ctx, load_text(ctx, self, name, print, module));
    return TSR_GPU_CALL(ctx, &self->driver, module_function, name, function, *module, name);
}

static tsr_result load_normals(tsr_ctx *ctx, tsr_gpu_device *self) {
    const tsr_gpu_programs *programs = self->driver.api->programs;
    return load(ctx, self, programs->normals_name, NULL, programs->print_normals,
                &self->normals_module, &self->normals);
}

const tsr_fatbin_image *tsr_gpu_find_leaves(const tsr_gpu_device *self) {
    const tsr_gpu_programs *programs = self->driver.api->programs;
    const tsr_fatbin codes = {.images = programs->leaves_codes,
                              .image_count = *programs->leaves_code_count};
    return self->driver.api->match(&codes, self->gpu.arch);
}

static tsr_result load_leaves(tsr_ctx *ctx, tsr_gpu_device *self) {
    const tsr_gpu_programs *programs = self->driver.api->programs;
    return load(ctx, self, programs->leaves_name, tsr_gpu_find_leaves(self), programs->print_leaves,
                &self->leaves_module, &self->leaves);
}

static tsr_result ready(tsr_ctx *ctx, tsr_gpu_device *self) {
    TRY(ctx, tsr_gpu_enter(ctx, self));
    if (self->readies_staged_upload) {
        TRY(ctx, tsr_gpu_ready_staged_upload(ctx, self));
        TRY(ctx, load_leaves(ctx, self));
    }
    return self->readies_samples ? load_normals(ctx, self) : TSR_SUCCESS;
}

static void *help(void *user) {
    tsr_gpu_device *self = user;
    self->readied = ready(&self->helper_ctx, self);
    return NULL;
}

void tsr_gpu_expect(const tsr_ctx *ctx, tsr_gpu_device *self, bool samples, uint64_t takes_bytes) {
    if (!self->driver.api->programs) return;
    self->helper_ctx = tsr_ctx_fork(ctx);
    self->readies_samples = samples;
    self->readies_staged_upload =
        takes_bytes && takes_bytes >= tsr_gpu_staged_upload_functions.bytes_min(&self->base);
    self->readies = (samples || self->readies_staged_upload) &&
                    pthread_create(&self->helper, NULL, help, self) == 0;
}

static tsr_result finish_readying(tsr_ctx *ctx, tsr_gpu_device *self) {
    if (!self->readies) return TSR_SUCCESS;
    self->readies = false;
    pthread_join(self->helper, NULL);
    return self->readied.code ? tsr_error_adopt(ctx, &self->helper_ctx) : TSR_SUCCESS;
}

tsr_result tsr_gpu_ready_leaves(tsr_ctx *ctx, tsr_gpu_device *self) {
    TRY(ctx, finish_readying(ctx, self));
    return load_leaves(ctx, self);
}

tsr_result tsr_gpu_draw(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                        uint64_t offset_bytes, const tsr_device_normals *normals) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    const tsr_gpu_programs *programs = self->driver.api->programs;
    const unsigned threads = programs->threads;
    tsr_device_normals n = *normals;
    tsr_gpu_address to = tsr_gpu_address_of(memory->device + offset_bytes);
    void *parameters[] = {&to, &n.first, &n.count, &n.a, &n.b, &n.seed, &n.stream};
    uint64_t blocks = n.count / threads + (n.count % threads != 0);
    if (!blocks) return TSR_SUCCESS;
    if (blocks > INT32_MAX)
        FAIL(ctx, TSR_MEMORY, "%" PRIu64 " numbers are more than a launch draws", n.count);
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, finish_readying(ctx, self));
    TRY(ctx, load_normals(ctx, self));
    TRY(ctx, tsr_gpu_let_write(ctx, self, false));
    return TSR_GPU_CALL(ctx, &self->driver, launch, programs->normals_name, self->normals,
                        (unsigned)blocks, 1, 1, threads, 1, 1, 0, self->stream, parameters, NULL);
}

void tsr_gpu_finish_readers(tsr_gpu_device *self) {
    if (self->readies) pthread_join(self->helper, NULL);
    for (tsr_gpu_reader *r = self->readers; r < self->readers + TSR_DEVICE_READERS_MAX; r++) {
        if (r->stream) self->driver.stream_destroy(r->stream);
        if (r->locked) self->driver.host_unregister(r->buffers);
    }
    tsr_gpu_unmap_parts(self->buffers, TSR_DEVICE_READERS_MAX, BUFFERS_BYTES);
    tsr_gpu_finish_staged_upload(self);
    if (self->leaves_module) self->driver.module_unload(self->leaves_module);
    if (self->normals_module) self->driver.module_unload(self->normals_module);
}
