/* SPDX-License-Identifier: Apache-2.0
 *
 * An NVIDIA GPU as a device, with the CUDA driver: the primary context, one stream, a module with
 * the matching image. A list becomes a graph when it is prepared; a run launches it and waits:
 *
 *     inputs to the device -> clear fault records -> launches and copies -> outputs, records back
 *
 * For a timed list there are other graphs, with an event between any two of these.
 *
 * Other threads may be reading memory that commands write: the first command of a list that writes
 * such memory begins a second graph, which is launched when they have finished, while the commands
 * before it run. An event in the first graph marks the time to copy the memory that these threads
 * have not read yet.
 *
 * All addresses are known at that time and the step number is an ordinary input, so a graph is
 * never changed; copies whose addresses change are put into the stream without a graph.
 *
 * The host's memory is reserved address space: pages are allocated when they are written. The pages
 * of inputs and outputs are page-locked, which transfers within graphs require.
 */
#include "manifests/fatbin.h"
#include "runtime/base/clock.h"
#include "runtime/base/plural.h"
#include "runtime/base/trace/trace.h"
#include "runtime/device/cuda_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BLOCKS_MAX = INT32_MAX,      /* limit for a grid */
    BLOCKS_WITH_SCRATCH_MAX = 4, /* limit per multiprocessor */
    LAST_PART = 64,              /* copies overlap the last 1/64 of a list's cost */
    STATIC_SHARED_MAX = 48 * 1024,
    LOG_BYTES = 400,
};

/* Halves of a list: up to the first command that writes memory that others may read, and from this
 * command on. */
enum { BEFORE, BEHIND, HALVES };

typedef struct prepared {
    tsr_arena arena;
    struct CUgraphExec_st *execs[HALVES]; /* NULL: nothing to do */
    tsr_cuda_address faults;              /* one record for each command */
    tsr_fault *host_faults;               /* page-locked */
    /* Graphs for timed runs, created by the first timed run; NULL before. Events: at the beginning,
     * before each command, after the last one, at the end. */
    struct CUgraphExec_st *timed[HALVES];
    struct CUevent_st **events; /* in the arena */
    tsr_cuda_list_copies overlap;
} prepared;

/* ---- open ------------------------------------------------------------------------------------ */

static void cuda_close(tsr_device *device) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    const tsr_cuda *cuda = &self->cuda;
    if (self->retained) {
        cuda->context_set(self->context);
        tsr_cuda_finish_snapshot(self);
        tsr_cuda_finish_readers(self);
        tsr_cuda_close_overlap(self);
        if (self->scratch) cuda->free(self->scratch, self->stream);
        if (self->module) cuda->module_unload(self->module);
        if (self->stream) cuda->stream_destroy(self->stream);
        cuda->context_release(self->gpu.device);
    }
    tsr_cuda_close(&self->cuda);
    tsr_arena_finish(&self->arena);
    pthread_cond_destroy(&self->snapshot.freed);
    pthread_mutex_destroy(&self->snapshot.turn);
    pthread_mutex_destroy(&self->snapshot.mutex);
    free(self);
}

static tsr_result refuse(tsr_ctx *ctx, const tsr_cuda_device *self, const tsr_fatbin *fatbin) {
    char list[256] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < fatbin->image_count && at < sizeof list; i++) {
        const tsr_fatbin_image *image = &fatbin->images[i];
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s for %u.%u%s", i ? ", " : "",
                               image->kind == TSR_FATBIN_PTX ? "PTX" : "machine code",
                               image->arch / 10, image->arch % 10, image->exactly ? " alone" : "");
    }
    FAIL(ctx, TSR_TARGET, "no code for %s of compute capability %u.%u; the bundle has %s",
         self->about, self->gpu.capability / 10, self->gpu.capability % 10, list);
}

static tsr_result load_module(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_fatbin_image *image) {
    char log[LOG_BYTES] = "", about[LOG_BYTES + 256];
    tsr_cuda_enum options[] = {TSR_CUDA_JIT_ERROR_LOG_BUFFER,
                               TSR_CUDA_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    tsr_cuda_result result =
        self->cuda.module_load(&self->module, image->bytes, 2, options, values);
    log[sizeof log - 1] = 0;
    snprintf(about, sizeof about, "%s for %s%s%s",
             image->kind == TSR_FATBIN_PTX ? "PTX" : "machine code", self->about,
             log[0] ? ": " : "", log);
    return tsr_cuda_check(ctx, &self->cuda, result, tsr_cuda_name_module_load, about);
}

/* Blocks that run together are in one part of the GPU. The number that run at a time depends on the
 * number of multiprocessors in each part, which differs between GPUs. */
static tsr_result ask_fitting(tsr_ctx *ctx, tsr_cuda_device *self, uint32_t index) {
    const tsr_fatbin_kernel *kernel = &self->fatbin.kernels[index];
    tsr_cuda_launch config = {
        self->clusters[index], 1, 1, kernel->threads, 1, 1, kernel->shared_bytes, NULL, NULL, 0};
    int count = 0;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, clusters_fitting, self->names[index], &count,
                           self->functions[index], (const struct CUlaunchConfig_st *)&config));
    if (count > 0) self->fitting[index] = (unsigned)count * self->clusters[index];
    return TSR_SUCCESS;
}

static tsr_result find_functions(tsr_ctx *ctx, tsr_cuda_device *self) {
    for (uint32_t i = 0; i < self->fatbin.kernel_count; i++) {
        uint32_t shared = self->fatbin.kernels[i].shared_bytes;
        int cluster = 0;
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, module_function, self->names[i],
                               &self->functions[i], self->module, self->names[i]));
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, function_get, self->names[i], &cluster,
                               TSR_CUDA_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, self->functions[i]));
        self->clusters[i] = cluster > 1 ? (unsigned)cluster : 1;
        self->fitting[i] = 0;
        if (shared + self->fatbin.kernels[i].static_bytes <= STATIC_SHARED_MAX) continue;
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, function_set, self->names[i], self->functions[i],
                               TSR_CUDA_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared));
    }
    for (uint32_t i = 0; i < self->fatbin.kernel_count; i++)
        if (self->clusters[i] > 1) TRY(ctx, ask_fitting(ctx, self, i));
    return TSR_SUCCESS;
}

/* Decodes the code and returns its image for this GPU. */
static tsr_result choose_image(tsr_ctx *ctx, tsr_cuda_device *self,
                               const tsr_device_options *options,
                               const tsr_fatbin_image **out_image) {
    TRY(ctx, tsr_fatbin_decode(ctx, options->code, options->code_size_bytes, &self->arena,
                               &self->fatbin));
    if (self->fatbin.kernel_count != options->kernel_count)
        FAIL(ctx, TSR_CORRUPT, "GPU code has %u kernel%s; the program has %zu",
             self->fatbin.kernel_count, TSR_PLURAL(self->fatbin.kernel_count),
             options->kernel_count);
    *out_image = tsr_fatbin_match(&self->fatbin, self->gpu.capability);
    return *out_image ? TSR_SUCCESS : refuse(ctx, self, &self->fatbin);
}

static tsr_result load_code(tsr_ctx *ctx, tsr_cuda_device *self,
                            const tsr_device_options *options) {
    const tsr_fatbin_image *image = NULL;
    TRY(ctx, choose_image(ctx, self, options, &image));
    self->functions = TSR_NEW(&self->arena, struct CUfunc_st *, options->kernel_count + 1);
    self->clusters = TSR_NEW(&self->arena, unsigned, options->kernel_count + 1);
    self->fitting = TSR_NEW(&self->arena, unsigned, options->kernel_count + 1);
    if (!self->functions || !self->clusters || !self->fitting)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu kernels", options->kernel_count);
    TRY(ctx, load_module(ctx, self, image));
    self->fatbin.images = NULL;
    self->fatbin.image_count = 0;
    return find_functions(ctx, self);
}

/* Free memory may be fragmented, or taken by another process a moment later. */
tsr_result tsr_cuda_reserve(tsr_ctx *ctx, const tsr_cuda_device *self, const char *about,
                            uint64_t size_bytes, tsr_cuda_address *out_address) {
    tsr_result result =
        TSR_CUDA_CALL(ctx, &self->cuda, allocate, about, out_address, size_bytes, self->stream);
    if (result.code != TSR_MEMORY) return result;
    return tsr_error_prefix(ctx, result, "%" PRIu64 " byte%s of device memory %s needed",
                            size_bytes, TSR_PLURAL_ARE(size_bytes));
}

/* Enough for every launch, since launches run one after the other. */
static uint64_t size_scratch(const tsr_cuda_device *self) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < self->fatbin.kernel_count; i++)
        if (self->fatbin.kernels[i].scratch_bytes > most)
            most = self->fatbin.kernels[i].scratch_bytes;
    return most * BLOCKS_WITH_SCRATCH_MAX * self->gpu.multiprocessors;
}

static tsr_result allocate_scratch(tsr_ctx *ctx, tsr_cuda_device *self) {
    uint64_t size_bytes = size_scratch(self);
    if (!size_bytes) return TSR_SUCCESS;
    return tsr_cuda_reserve(ctx, self, self->about, size_bytes, &self->scratch);
}

/* Retains the context and makes it current for the calling thread. */
static tsr_result retain(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_options *options) {
    TRY(ctx, tsr_cuda_open(ctx, options->library, &self->cuda));
    self->cuda.planned = options->planned;
    TRY(ctx, tsr_cuda_find_gpu(ctx, &self->cuda, options->selector, &self->gpu));
    snprintf(self->about, sizeof self->about, "%s (%d, %s)", self->gpu.name, self->gpu.ordinal,
             self->gpu.uuid);
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, context_retain, self->about, &self->context,
                           self->gpu.device));
    self->retained = true;
    return tsr_cuda_enter(ctx, self);
}

static tsr_result open_stages(tsr_ctx *ctx, tsr_cuda_device *self,
                              const tsr_device_options *options) {
    TRY(ctx, retain(ctx, self, options));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, stream_create, self->about, &self->stream,
                           TSR_CUDA_STREAM_NON_BLOCKING));
    TRY(ctx, tsr_cuda_init_snapshot(ctx, self));
    tsr_cuda_expect(ctx, self, options->draws, options->takes_bytes);
    TRY(ctx, load_code(ctx, self, options));
    return allocate_scratch(ctx, self);
}

static tsr_cuda_device *create(const tsr_device_options *options) {
    tsr_cuda_device *self = calloc(1, sizeof *self);
    if (!self) return NULL;
    self->base.type = &tsr_device_cuda;
    pthread_mutex_init(&self->snapshot.turn, NULL);
    pthread_mutex_init(&self->snapshot.mutex, NULL);
    pthread_cond_init(&self->snapshot.freed, NULL);
    self->names = options->kernels;
    self->memory_max = options->memory_max;
    self->one_by_one = options->one_by_one;
    return self;
}

static tsr_result cuda_open(tsr_ctx *ctx, const tsr_device_options *options,
                            tsr_device **out_device) {
    tsr_cuda_device *self = create(options);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for a device");
    tsr_result result = open_stages(ctx, self, options);
    if (result.code)
        cuda_close(&self->base);
    else
        *out_device = &self->base;
    return result;
}

static const char *cuda_describe(const tsr_device *device) {
    return ((const tsr_cuda_device *)device)->about;
}

tsr_result tsr_device_cuda_probe(tsr_ctx *ctx, const char *selector, const char *library,
                                 uint32_t *out_capability) {
    tsr_cuda cuda;
    tsr_cuda_gpu gpu;
    TRY(ctx, tsr_cuda_open(ctx, library, &cuda));
    tsr_result result = tsr_cuda_find_gpu(ctx, &cuda, selector, &gpu);
    if (!result.code) *out_capability = gpu.capability;
    tsr_cuda_close(&cuda);
    return result;
}

/* A run first reserves scratch memory, then compares the remaining memory with its buffers. */
static tsr_result compare_capacity(tsr_ctx *ctx, const tsr_cuda_device *self,
                                   const tsr_device_options *options, uint64_t size_bytes,
                                   uint64_t scratch_bytes) {
    uint64_t allowed = options->memory_max ? options->memory_max : UINT64_MAX;
    TRY(ctx, tsr_cuda_check_memory(ctx, &self->cuda, self->about, size_bytes, allowed));
    tsr_result result = tsr_cuda_check_memory(ctx, &self->cuda, self->about,
                                              size_bytes + scratch_bytes, UINT64_MAX);
    if (result.code != TSR_MEMORY) return result;
    return tsr_error_prefix(ctx, result, "with %" PRIu64 " byte%s of scratch memory for kernels",
                            scratch_bytes, TSR_PLURAL(scratch_bytes));
}

tsr_result tsr_device_cuda_check(tsr_ctx *ctx, const tsr_device_options *options,
                                 uint64_t size_bytes, tsr_device_capacity *out_capacity) {
    size_t left = 0, total = 0;
    const tsr_fatbin_image *image = NULL;
    tsr_result result = TSR_SUCCESS;
    tsr_cuda_device *self = create(options);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for a device");
    TRY_GOTO(ctx, result, retain(ctx, self, options));
    TRY_GOTO(ctx, result, TSR_CUDA_CALL(ctx, &self->cuda, memory_info, self->about, &left, &total));
    out_capacity->free_bytes = left;
    TRY_GOTO(ctx, result, choose_image(ctx, self, options, &image));
    out_capacity->code_bytes = image->size_bytes;
    out_capacity->scratch_bytes = size_scratch(self);
    TRY_GOTO(ctx, result,
             compare_capacity(ctx, self, options, size_bytes, out_capacity->scratch_bytes));
done:
    cuda_close(&self->base);
    return result;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void cuda_release(tsr_device *device, tsr_device_memory *memory) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    self->cuda.context_set(self->context);
    if (memory->device) self->cuda.free(tsr_cuda_address_of(memory->device), self->stream);
    if (memory->locked.size_bytes)
        self->cuda.host_unregister(memory->host + memory->locked.offset_bytes);
    tsr_cuda_release_offloaded(self, memory);
    if (memory->host) munmap(memory->host, (size_t)memory->size_bytes);
    if (memory->device) self->memory_used -= memory->size_bytes;
    *memory = (tsr_device_memory){0};
}

/* Locks full pages, with all other data on them. */
static tsr_result lock_pages(tsr_ctx *ctx, tsr_cuda_device *self, tsr_device_range range,
                             tsr_device_memory *memory) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = range.offset_bytes % page;
    if (!range.size_bytes) return TSR_SUCCESS;
    range.offset_bytes -= before;
    range.size_bytes += before;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, host_register, self->about,
                           memory->host + range.offset_bytes, range.size_bytes, 0));
    memory->locked = range;
    return TSR_SUCCESS;
}

static tsr_result allocate_both(tsr_ctx *ctx, tsr_cuda_device *self, uint64_t offloaded_bytes,
                                tsr_device_range ports, tsr_device_memory *memory) {
    uint64_t size_bytes = memory->size_bytes;
    tsr_cuda_address address = 0;
    TRY(ctx, tsr_cuda_enter(ctx, self));
    uint64_t allowed = self->memory_max ? self->memory_max - self->memory_used : UINT64_MAX;
    TRY(ctx, tsr_cuda_check_memory(ctx, &self->cuda, self->about, size_bytes, allowed));
    void *host = mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED)
        FAIL(ctx, TSR_MEMORY, "no address space for %" PRIu64 " byte%s", size_bytes,
             TSR_PLURAL(size_bytes));
    memory->host = host;
    (void)madvise(host, (size_t)size_bytes, MADV_HUGEPAGE);
    TRY(ctx, lock_pages(ctx, self, ports, memory));
    TRY(ctx, tsr_cuda_allocate_offloaded(ctx, self, offloaded_bytes, memory));
    TRY(ctx, tsr_cuda_reserve(ctx, self, self->about, size_bytes, &address));
    memory->device = (char *)(uintptr_t)address;
    self->memory_used += size_bytes;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, set_bytes, self->about, address, 0, size_bytes,
                           self->stream));
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream);
}

static tsr_result cuda_allocate(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                                uint64_t offloaded_bytes, tsr_device_range ports,
                                tsr_device_memory *out_memory) {
    tsr_device_memory memory = {.size_bytes = size_bytes};
    tsr_result result =
        allocate_both(ctx, (tsr_cuda_device *)device, offloaded_bytes, ports, &memory);
    if (result.code)
        cuda_release(device, &memory);
    else
        *out_memory = memory;
    return result;
}

static tsr_result upload_range(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                               tsr_device_range range) {
    if (!range.size_bytes) return TSR_SUCCESS;
    return TSR_CUDA_CALL(ctx, &self->cuda, upload, self->about,
                         tsr_cuda_address_of(memory->device + range.offset_bytes),
                         memory->host + range.offset_bytes, range.size_bytes, self->stream);
}

static tsr_result download_range(tsr_ctx *ctx, tsr_cuda_device *self,
                                 const tsr_device_memory *memory, tsr_device_range range) {
    if (!range.size_bytes) return TSR_SUCCESS;
    return TSR_CUDA_CALL(ctx, &self->cuda, download, self->about, memory->host + range.offset_bytes,
                         tsr_cuda_address_of(memory->device + range.offset_bytes), range.size_bytes,
                         self->stream);
}

static tsr_result cuda_upload(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                              tsr_device_range range) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, tsr_cuda_let_write(ctx, self, false));
    TRY(ctx, upload_range(ctx, self, memory, range));
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream);
}

static tsr_result cuda_download(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                                tsr_device_range range) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, download_range(ctx, self, memory, range));
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream);
}

static tsr_result cuda_read_caller(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                                   uint64_t size_bytes) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, download, "memory of the caller", to,
                           tsr_cuda_address_of(from), size_bytes, self->stream));
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream);
}

static tsr_result cuda_write_caller(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                                    uint64_t size_bytes) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    TRY(ctx, tsr_cuda_enter(ctx, self));
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, upload, "memory of the caller",
                           tsr_cuda_address_of(to), from, size_bytes, self->stream));
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, self->about, self->stream);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* Encodes a tensor map for argument `fact->argument`, as used by the copy engine. */
static tsr_result encode_map(tsr_ctx *ctx, tsr_cuda_device *self, prepared *graph,
                             const tsr_device_command *command, const tsr_fatbin_map *fact,
                             struct CUtensorMap_st **out_map) {
    static const struct {
        tsr_cuda_enum kind;
        uint32_t bytes;
    } elements[] = {[TSR_FATBIN_BF16] = {TSR_CUDA_MAP_BFLOAT16, 2},
                    [TSR_FATBIN_F16] = {TSR_CUDA_MAP_FLOAT16, 2},
                    [TSR_FATBIN_F32] = {TSR_CUDA_MAP_FLOAT32, 4},
                    [TSR_FATBIN_TF32] = {TSR_CUDA_MAP_TFLOAT32, 4}};
    uint64_t strides[TSR_FATBIN_MAP_RANK_MAX];
    uint32_t box[TSR_FATBIN_MAP_RANK_MAX] = {fact->box_columns, fact->box_rows, 1, 1, 1};
    static const uint32_t ones[TSR_FATBIN_MAP_RANK_MAX] = {1, 1, 1, 1, 1};
    void *address;
    if (fact->argument >= command->buffer_count)
        FAIL(ctx, TSR_CORRUPT, "kernel '%s' has a map of argument %u of %u",
             self->names[command->kernel], fact->argument, command->buffer_count);
    memcpy(&address, &command->buffers[fact->argument], sizeof address);
    strides[0] = (fact->pitch ? fact->pitch : fact->dims[0]) * elements[fact->element].bytes;
    for (uint32_t d = 1; d < fact->rank; d++) strides[d] = strides[d - 1] * fact->dims[d];
    *out_map = tsr_arena_alloc(&graph->arena, TSR_CUDA_MAP_BYTES, 1, TSR_CUDA_MAP_ALIGN);
    if (!*out_map) FAIL(ctx, TSR_MEMORY, "no memory for the maps of a kernel");
    return TSR_CUDA_CALL(
        ctx, &self->cuda, map_encode, self->names[command->kernel], *out_map,
        elements[fact->element].kind, fact->rank, address, fact->dims, strides, box, ones, 0,
        fact->swizzle_bytes ? TSR_CUDA_MAP_SWIZZLE_128B : TSR_CUDA_MAP_SWIZZLE_NONE,
        TSR_CUDA_MAP_L2_128B, 0);
}

/* A kernel may have fewer maps than there are pointers; the other pointers refer to zeros. */
static tsr_result add_maps(tsr_ctx *ctx, tsr_cuda_device *self, prepared *graph,
                           const tsr_device_command *command, void **parameters) {
    const tsr_fatbin_kernel *kernel = &self->fatbin.kernels[command->kernel];
    static char none[TSR_CUDA_MAP_BYTES];
    for (uint32_t i = 0; i < TSR_FATBIN_MAPS_MAX; i++) {
        struct CUtensorMap_st *map = NULL;
        if (i < kernel->map_count)
            TRY(ctx, encode_map(ctx, self, graph, command, &kernel->maps[i], &map));
        parameters[i] = map ? (void *)map : none;
    }
    return TSR_SUCCESS;
}

/* The driver reads the number and sizes of arguments that the code declares. */
static tsr_result check_parameters(tsr_ctx *ctx, const tsr_cuda_device *self,
                                   const tsr_device_command *command) {
    const char *name = self->names[command->kernel];
    size_t plain = (size_t)command->buffer_count + 3, offset = 0, size = 0, taken = 0;
    size_t least = plain + self->fatbin.kernels[command->kernel].map_count;
    if (!self->cuda.function_parameter) return TSR_SUCCESS;
    for (; taken <= plain + TSR_FATBIN_MAPS_MAX; taken++) {
        tsr_cuda_result result =
            self->cuda.function_parameter(self->functions[command->kernel], taken, &offset, &size);
        if (result == TSR_CUDA_ERROR_INVALID_VALUE) break;
        TRY(ctx, tsr_cuda_check(ctx, &self->cuda, result, tsr_cuda_name_function_parameter, name));
        size_t wanted = taken < plain ? sizeof(tsr_cuda_address) : TSR_CUDA_MAP_BYTES;
        if (size != wanted)
            FAIL(ctx, TSR_CORRUPT, "argument %zu of kernel '%s' has %zu byte%s; expected %zu",
                 taken, name, size, TSR_PLURAL(size), wanted);
    }
    if (taken >= least && taken <= plain + TSR_FATBIN_MAPS_MAX) return TSR_SUCCESS;
    FAIL(ctx, TSR_CORRUPT, "kernel '%s' takes %s%zu argument%s; the program gives %zu", name,
         taken < least ? "" : "at least ", taken, TSR_PLURAL(taken), least);
}

static tsr_result launch(tsr_ctx *ctx, tsr_cuda_device *self, prepared *graph,
                         const tsr_device_command *command, uint32_t index) {
    const tsr_fatbin_kernel *kernel = &self->fatbin.kernels[command->kernel];
    uint64_t blocks = (command->grid - 1) / kernel->programs + 1;
    uint64_t limit = kernel->scratch_bytes
                         ? (uint64_t)BLOCKS_WITH_SCRATCH_MAX * self->gpu.multiprocessors
                         : BLOCKS_MAX;
    tsr_cuda_address fault = graph->faults + index * sizeof(tsr_fault);
    uint64_t grid = command->grid;
    if (kernel->blocks) limit = (uint64_t)kernel->blocks * self->gpu.multiprocessors;
    if (kernel->blocks && self->fitting[command->kernel]) limit = self->fitting[command->kernel];
    if (blocks > limit) blocks = limit - limit % self->clusters[command->kernel];
    TRY(ctx, check_parameters(ctx, self, command));
    /* The driver copies the values to which the pointers refer. */
    void **parameters =
        TSR_NEW(&graph->arena, void *, (size_t)command->buffer_count + 3 + TSR_FATBIN_MAPS_MAX);
    if (!parameters) FAIL(ctx, TSR_MEMORY, "no memory for %u arguments", command->buffer_count);
    for (uint32_t i = 0; i < command->buffer_count; i++) {
        const void *at = &command->buffers[i];
        memcpy(&parameters[i], &at, sizeof at);
    }
    parameters[command->buffer_count] = &fault;
    parameters[command->buffer_count + 1] = &self->scratch;
    parameters[command->buffer_count + 2] = &grid;
    TRY(ctx, add_maps(ctx, self, graph, command, parameters + command->buffer_count + 3));
    return TSR_CUDA_CALL(ctx, &self->cuda, launch, self->names[command->kernel],
                         self->functions[command->kernel], (unsigned)blocks, 1, 1, kernel->threads,
                         1, 1, kernel->shared_bytes, self->stream, parameters, NULL);
}

/* True if the list runs without a graph. */
static bool is_eager(const tsr_cuda_device *self, const tsr_device_list *list) {
    return self->one_by_one || list->moves;
}

/* Records event `index` of a timed graph. */
static tsr_result stamp(tsr_ctx *ctx, const tsr_cuda_device *self, const tsr_device_list *list,
                        const prepared *graph, uint32_t index) {
    if (!graph->events) return TSR_SUCCESS;
    return TSR_CUDA_CALL(ctx, &self->cuda, event_record, list->name, graph->events[index],
                         self->stream, is_eager(self, list) ? 0 : TSR_CUDA_EVENT_RECORD_EXTERNAL);
}

/* Records a command of the half that begins with command `begin`. */
static tsr_result record_command(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_list *list,
                                 prepared *graph, uint32_t begin, uint32_t index) {
    const tsr_device_command *command = &list->commands[index];
    if (command->kind == TSR_DEVICE_LAUNCH) return launch(ctx, self, graph, command, index);
    if (command->kind != TSR_DEVICE_COPY)
        return tsr_cuda_record_overlap(ctx, self, list, &graph->overlap, begin, index);
    if (!command->copy_bytes) return TSR_SUCCESS;
    return TSR_CUDA_CALL(
        ctx, &self->cuda, copy, list->name, tsr_cuda_address_of(command->buffers[0]),
        tsr_cuda_address_of(command->buffers[1]), command->copy_bytes, self->stream);
}

static tsr_result wait_for_command(tsr_ctx *ctx, const tsr_cuda_device *self,
                                   const tsr_device_command *command) {
    static const char *const names[] = {[TSR_DEVICE_COPY] = "a copy",
                                        [TSR_DEVICE_OFFLOAD] = "an offload",
                                        [TSR_DEVICE_PREFETCH] = "a prefetch",
                                        [TSR_DEVICE_AWAIT] = "an await"};
    char about[TSR_ERROR_TEXT_MAX / 2];
    bool located = command->location && command->location[0];
    snprintf(about, sizeof about, "%s%s%s",
             command->kind == TSR_DEVICE_LAUNCH ? self->names[command->kernel]
                                                : names[command->kind],
             located ? " at " : "", located ? command->location : "");
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, about, self->stream);
}

/* Returns the first command of that half; for HALVES, the number of commands. */
static uint32_t begin_of(const tsr_device_list *list, int half) {
    uint32_t index = 0;
    if (half == BEFORE) return 0;
    if (half == HALVES) return list->command_count;
    while (index < list->command_count && !list->commands[index].guarded_count) index++;
    return index;
}

/* A list without commands has a first half. */
static bool has_half(const tsr_device_list *list, int half) {
    return begin_of(list, half) < begin_of(list, half + 1) ||
           (half == BEFORE && !list->command_count);
}

/* Returns the command of the first half before which the memory that the second half writes must be
 * copied. */
static uint32_t time_to_copy(const tsr_device_list *list) {
    uint32_t count = list->command_count, at = begin_of(list, BEHIND);
    uint64_t all = 0, left = 0;
    if (at == count) return count;
    for (uint32_t i = 0; i < count; i++) all += list->commands[i].cost;
    while (at > 0 && left <= all / LAST_PART) left += list->commands[--at].cost;
    return at;
}

static tsr_result record_begin(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                               const tsr_device_list *list, const prepared *graph) {
    size_t fault_bytes = list->command_count * sizeof(tsr_fault);
    TRY(ctx, stamp(ctx, self, list, graph, 0));
    TRY(ctx, upload_range(ctx, self, memory, list->inputs));
    if (!fault_bytes) return TSR_SUCCESS;
    return TSR_CUDA_CALL(ctx, &self->cuda, set_bytes, list->name, graph->faults, 0, fault_bytes,
                         self->stream);
}

static tsr_result record_end(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                             const tsr_device_list *list, const prepared *graph) {
    size_t fault_bytes = list->command_count * sizeof(tsr_fault);
    TRY(ctx, stamp(ctx, self, list, graph, 1 + list->command_count));
    TRY(ctx, download_range(ctx, self, memory, list->outputs));
    if (fault_bytes)
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, download, list->name, graph->host_faults,
                               graph->faults, fault_bytes, self->stream));
    return stamp(ctx, self, list, graph, 2 + list->command_count);
}

/* Puts the commands of one half of a run into the stream. */
static tsr_result record(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                         const tsr_device_list *list, prepared *graph, int half) {
    uint32_t begin = begin_of(list, half), end = begin_of(list, half + 1);
    uint32_t copied = time_to_copy(list);
    if (begin == 0) TRY(ctx, record_begin(ctx, self, memory, list, graph));
    for (uint32_t i = begin; i < end; i++) {
        if (i == copied && half == BEFORE)
            TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, event_record, list->name,
                                   self->snapshot.before, self->stream,
                                   is_eager(self, list) ? 0 : TSR_CUDA_EVENT_RECORD_EXTERNAL));
        TRY(ctx, stamp(ctx, self, list, graph, 1 + i));
        TRY(ctx, record_command(ctx, self, list, graph, begin, i));
        if (self->one_by_one) TRY(ctx, wait_for_command(ctx, self, &list->commands[i]));
    }
    TRY(ctx, tsr_cuda_join_overlap(ctx, self, list, &graph->overlap, begin, end));
    return end == list->command_count ? record_end(ctx, self, memory, list, graph) : TSR_SUCCESS;
}

static tsr_result capture_half(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                               const tsr_device_list *list, prepared *graph, int half,
                               struct CUgraphExec_st **out_exec) {
    struct CUgraph_st *captured = NULL;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, capture_begin, list->name, self->stream,
                           TSR_CUDA_STREAM_CAPTURE_MODE_RELAXED));
    tsr_result result = record(ctx, self, memory, list, graph, half);
    /* The capture ends in any case; the first error is the one reported. */
    tsr_cuda_result ended = self->cuda.capture_end(self->stream, &captured);
    if (!result.code)
        result = tsr_cuda_check(ctx, &self->cuda, ended, tsr_cuda_name_capture_end, list->name);
    if (!result.code)
        result =
            TSR_CUDA_CALL(ctx, &self->cuda, graph_instantiate, list->name, out_exec, captured, 0);
    if (captured) self->cuda.graph_destroy(captured);
    return result;
}

static tsr_result capture(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                          const tsr_device_list *list, prepared *graph,
                          struct CUgraphExec_st *out_execs[static HALVES]) {
    for (int half = 0; half < HALVES; half++)
        if (has_half(list, half))
            TRY(ctx, capture_half(ctx, self, memory, list, graph, half, &out_execs[half]));
    return TSR_SUCCESS;
}

/* Runs without a graph; with one_by_one, waits after each command. */
static tsr_result run_eagerly(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                              const tsr_device_list *list, const prepared *graph, int half) {
    prepared once = *graph;
    once.arena = (tsr_arena){0};
    if (!list->spans) once.events = NULL;
    tsr_result result = record(ctx, self, memory, list, &once, half);
    tsr_arena_finish(&once.arena);
    return result;
}

/* Prepares the graph with events, once. */
static tsr_result prepare_timed(tsr_ctx *ctx, tsr_cuda_device *self,
                                const tsr_device_memory *memory, const tsr_device_list *list,
                                prepared *graph) {
    bool eager = is_eager(self, list);
    if (graph->timed[BEFORE] || graph->timed[BEHIND] || (eager && graph->events))
        return TSR_SUCCESS;
    uint32_t count = list->command_count + 3;
    if (!graph->events) graph->events = TSR_NEW(&graph->arena, struct CUevent_st *, count);
    if (!graph->events) FAIL(ctx, TSR_MEMORY, "no memory to time '%s'", list->name);
    for (uint32_t i = 0; i < count; i++)
        if (!graph->events[i])
            TRY(ctx,
                TSR_CUDA_CALL(ctx, &self->cuda, event_create, list->name, &graph->events[i], 0));
    if (eager) return TSR_SUCCESS;
    TRY(ctx, tsr_cuda_time_overlap(ctx, self, list, &graph->arena, &graph->overlap));
    return capture(ctx, self, memory, list, graph, graph->timed);
}

static tsr_result cuda_prepare(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                               tsr_device_list *list) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    size_t fault_bytes = list->command_count * sizeof(tsr_fault);
    void *host = NULL;
    prepared *graph = calloc(1, sizeof *graph);
    if (!graph) FAIL(ctx, TSR_MEMORY, "no memory to prepare '%s'", list->name);
    list->prepared = graph; /* the caller finishes it, also after a failure */
    TRY(ctx, tsr_cuda_enter(ctx, self));
    if (fault_bytes) {
        TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, host_allocate, list->name, &host, fault_bytes, 0));
        graph->host_faults = host;
        memset(host, 0, fault_bytes);
        TRY(ctx, tsr_cuda_reserve(ctx, self, list->name, fault_bytes, &graph->faults));
    }
    if (is_eager(self, list)) return TSR_SUCCESS;
    TRY(ctx, tsr_cuda_ready_overlap(ctx, self, list, &graph->arena, &graph->overlap));
    return capture(ctx, self, memory, list, graph, graph->execs);
}

static void cuda_finish(tsr_device *device, tsr_device_list *list) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    prepared *graph = list->prepared;
    self->cuda.context_set(self->context);
    for (int half = 0; half < HALVES; half++) {
        if (graph->execs[half]) self->cuda.graph_exec_destroy(graph->execs[half]);
        if (graph->timed[half]) self->cuda.graph_exec_destroy(graph->timed[half]);
    }
    for (uint32_t i = 0; graph->events && i < list->command_count + 3; i++)
        if (graph->events[i]) self->cuda.event_destroy(graph->events[i]);
    tsr_cuda_finish_overlap(self, list, &graph->overlap);
    if (graph->faults) self->cuda.free(graph->faults, self->stream);
    if (graph->host_faults) self->cuda.host_free(graph->host_faults);
    tsr_arena_finish(&graph->arena);
    free(graph);
    list->prepared = NULL;
}

/* Converts the device's times to the host's clock: the last event corresponds to the end of the
 * wait for it. */
static tsr_result read_spans(tsr_ctx *ctx, const tsr_cuda_device *self, const tsr_device_list *list,
                             const prepared *graph, uint64_t began_ns) {
    uint64_t ended_ns = tsr_clock_ns(), before_ns = 0;
    uint32_t count = list->command_count, last = count + 2;
    float took_ms = 0;
    TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, event_elapsed, list->name, &took_ms, graph->events[0],
                           graph->events[last]));
    uint64_t took_ns = (uint64_t)(1e6 * (double)took_ms);
    if (ended_ns - began_ns > took_ns) began_ns = ended_ns - took_ns;
    for (uint32_t i = 0; i <= last; i++) {
        float ms = 0;
        if (i)
            TRY(ctx, TSR_CUDA_CALL(ctx, &self->cuda, event_elapsed, list->name, &ms,
                                   graph->events[0], graph->events[i]));
        uint64_t at_ns = began_ns + (uint64_t)(1e6 * (double)ms);
        const tsr_device_span span = {before_ns, at_ns};
        if (i == 1 && list->inputs.size_bytes) list->spans[count] = span;
        if (i > 1 && i < last) list->spans[i - 2] = span;
        if (i == last && list->outputs.size_bytes) list->spans[count + 1] = span;
        before_ns = at_ns;
    }
    return tsr_cuda_read_overlap(ctx, self, list, &graph->overlap, graph->events[0], began_ns);
}

static tsr_result run_half(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                           const tsr_device_list *list, const prepared *graph, int half) {
    if (!has_half(list, half)) return TSR_SUCCESS;
    if (half == BEHIND && memory->guard) memory->guard(memory->guard_user, NULL);
    if (half == BEHIND) TRY(ctx, tsr_cuda_let_write(ctx, self, true));
    if (is_eager(self, list)) return run_eagerly(ctx, self, memory, list, graph, half);
    return TSR_CUDA_CALL(ctx, &self->cuda, graph_launch, list->name,
                         list->spans ? graph->timed[half] : graph->execs[half], self->stream);
}

static tsr_result run_halves(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_memory *memory,
                             const tsr_device_list *list, const prepared *graph) {
    for (int half = 0; half < HALVES; half++)
        TRY(ctx, run_half(ctx, self, memory, list, graph, half));
    return TSR_CUDA_CALL(ctx, &self->cuda, stream_wait, list->name, self->stream);
}

static tsr_result cuda_run(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                           tsr_device_list *list, tsr_fault *out_fault, uint32_t *out_command) {
    tsr_cuda_device *self = (tsr_cuda_device *)device;
    prepared *graph = list->prepared;
    out_fault->kind = TSR_FAULT_NONE;
    TRY(ctx, tsr_cuda_enter(ctx, self));
    if (list->spans) TRY(ctx, prepare_timed(ctx, self, memory, list, graph));
    uint64_t began_ns = list->spans ? tsr_clock_ns() : 0;
    tsr_result ran = run_halves(ctx, self, memory, list, graph);
    tsr_cuda_free_readers(self);
    TRY(ctx, ran);
    if (list->spans) TRY(ctx, read_spans(ctx, self, list, graph, began_ns));
    for (uint32_t i = 0; i < list->command_count; i++) {
        if (graph->host_faults[i].kind == TSR_FAULT_NONE) continue;
        *out_fault = graph->host_faults[i];
        *out_command = i;
        break;
    }
    return TSR_SUCCESS;
}

const tsr_device_type tsr_device_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .upload = cuda_upload,
    .download = cuda_download,
    .read_caller = cuda_read_caller,
    .write_caller = cuda_write_caller,
    .ready_readers = tsr_cuda_ready_readers,
    .read = tsr_cuda_read,
    .ready_snapshot = tsr_cuda_ready_snapshot,
    .take_snapshot = tsr_cuda_take_snapshot,
    .read_snapshot = tsr_cuda_read_snapshot,
    .staged_upload = &tsr_cuda_staged_upload_functions,
    .draw = tsr_cuda_draw,
    .prepare = cuda_prepare,
    .finish = cuda_finish,
    .run = cuda_run,
    .measure = tsr_cuda_measure,
};
