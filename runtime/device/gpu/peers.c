/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges with the GPUs of other processes on this host. Memory is shared as virtual memory with
 * file descriptors. A copy engine writes into the memory of the other GPU, then a stream memory
 * operation sets a word there, for which a stream of the other GPU waits: neither occupies a
 * multiprocessor. (NVIDIA, "CUDA Driver API": virtual memory management, stream memory operations.)
 *
 * While the host waits for the stream of runs, it calls the watch. If the watch fails, a third
 * stream releases all waits, so that the context stays usable.
 */
#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/base/plural.h"
#include "runtime/device/gpu/device.h"

#include <immintrin.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSES = 16, WATCH_NS = 1000 * 1000, QUEUES_MIN = 8, HOST_PART_BYTES = 1 << 20 };
#define RELEASE_NS_MAX (UINT64_C(10) * 1000000000u)

/* ---- windows ---- */

static tsr_gpu_properties properties_of(const tsr_gpu_device *self) {
    return (tsr_gpu_properties){.kind = TSR_GPU_MEMORY_PINNED,
                                .handle_kinds = TSR_GPU_HANDLE_FILE_DESCRIPTOR,
                                .location = {TSR_GPU_MEMORY_ON_DEVICE, self->gpu.device}};
}

tsr_result tsr_gpu_check_windows(tsr_ctx *ctx, const tsr_gpu_device *self) {
    int has_memory = 0, has_descriptors = 0;
    if (!self->driver.memory_create)
        FAIL(ctx, TSR_MACHINE, "the %s does not share memory with other processes",
             self->driver.api->driver);
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, device_attribute, self->about, &has_memory,
                          TSR_GPU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY, self->gpu.device));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, device_attribute, self->about, &has_descriptors,
                          TSR_GPU_DEVICE_ATTRIBUTE_HANDLE_FILE_DESCRIPTOR, self->gpu.device));
    if (has_memory && has_descriptors) return TSR_SUCCESS;
    FAIL(ctx, TSR_MACHINE, "%s cannot share memory with other processes", self->about);
}

/* Reserves addresses for window->handle and maps it there; window->size_bytes is a multiple of the
 * granularity. */
static tsr_result map(tsr_ctx *ctx, const tsr_gpu_device *self, tsr_device_window *window) {
    const tsr_gpu_access access = {properties_of(self).location, TSR_GPU_ACCESS_READ_WRITE};
    tsr_gpu_address address = 0;
    size_t size_bytes = (size_t)window->size_bytes;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, address_reserve, self->about, &address, size_bytes, 0,
                          0, 0));
    tsr_result result = TSR_GPU_CALL(ctx, &self->driver, memory_map, self->about, address,
                                     size_bytes, 0, window->handle, 0);
    if (!result.code) {
        result = TSR_GPU_CALL(ctx, &self->driver, memory_access, self->about, address, size_bytes,
                              (const struct tsr_gpu_memory_access *)&access, 1);
        if (result.code) self->driver.memory_unmap(address, size_bytes);
    }
    if (result.code)
        self->driver.address_free(address, size_bytes);
    else
        window->address = (char *)(uintptr_t)address;
    return result;
}

tsr_result tsr_gpu_allocate_window(tsr_ctx *ctx, const tsr_gpu_device *self, uint64_t size_bytes,
                                   tsr_device_window *out_window) {
    const tsr_gpu_properties properties = properties_of(self);
    const struct tsr_gpu_memory_properties *wanted =
        (const struct tsr_gpu_memory_properties *)&properties;
    unsigned long long handle = 0;
    size_t unit = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, memory_granularity, self->about, &unit, wanted,
                          TSR_GPU_GRANULARITY_RECOMMENDED));
    uint64_t rounded = (size_bytes + unit - 1) / unit * unit;
    tsr_result result = TSR_GPU_CALL(ctx, &self->driver, memory_create, self->about, &handle,
                                     (size_t)rounded, wanted, 0);
    if (result.code == TSR_MEMORY)
        return tsr_error_prefix(ctx, result, "%" PRIu64 " byte%s of device memory %s needed",
                                size_bytes, TSR_PLURAL_ARE(size_bytes));
    TRY(ctx, result);
    tsr_device_window window = {.size_bytes = rounded, .handle = handle};
    result = map(ctx, self, &window);
    if (result.code)
        self->driver.memory_release(handle);
    else
        *out_window = window;
    return result;
}

void tsr_gpu_release_window(const tsr_gpu_device *self, tsr_device_window *window) {
    if (!window->size_bytes) return;
    self->driver.context_set(self->context);
    self->driver.memory_unmap(tsr_gpu_address_of(window->address), (size_t)window->size_bytes);
    self->driver.address_free(tsr_gpu_address_of(window->address), (size_t)window->size_bytes);
    self->driver.memory_release(window->handle);
    *window = (tsr_device_window){0};
}

static const char *get_identity(const tsr_device *device) {
    return ((const tsr_gpu_device *)device)->gpu.uuid;
}

/* Streams that share a queue of the GPU wait for each other, also if one of them waits for another
 * rank. */
static tsr_result check_queues(tsr_ctx *ctx, const char *variable) {
    const char *text = getenv(variable);
    long queues = text ? strtol(text, NULL, 10) : QUEUES_MIN;
    if (queues >= QUEUES_MIN) return TSR_SUCCESS;
    FAIL(ctx, TSR_MACHINE, "%s is '%s'; expected at least %d", variable, text, QUEUES_MIN);
}

static tsr_result check(tsr_ctx *ctx, tsr_device *device, const char *identity) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_info peer;
    int reaches = 0;
    TRY(ctx, check_queues(ctx, self->driver.api->queues_variable));
    TRY(ctx, tsr_gpu_check_windows(ctx, self));
    if (strcmp(identity, self->gpu.uuid) == 0) return TSR_SUCCESS;
    TRY(ctx, tsr_gpu_find(ctx, &self->driver, identity, &peer));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, device_access, self->about, &reaches,
                          self->gpu.device, peer.device));
    if (reaches) return TSR_SUCCESS;
    FAIL(ctx, TSR_MACHINE, "%s has no access to the memory of %s (%d, %s)", self->about, peer.name,
         peer.ordinal, peer.uuid);
}

static tsr_result allocate(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                           uint64_t zeroed_bytes, tsr_device_window *out_window) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_device_window window = {0};
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, tsr_gpu_allocate_window(ctx, self, size_bytes, &window));
    tsr_result result =
        TSR_GPU_CALL(ctx, &self->driver, set_bytes, self->about, tsr_gpu_address_of(window.address),
                     0, (size_t)zeroed_bytes, self->stream);
    if (!result.code) result = tsr_gpu_wait(ctx, self, self->about);
    if (result.code)
        tsr_gpu_release_window(self, &window);
    else
        *out_window = window;
    return result;
}

static tsr_result export_window(tsr_ctx *ctx, tsr_device *device, const tsr_device_window *window,
                                int *out_fd) {
    const tsr_gpu_device *self = (const tsr_gpu_device *)device;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    return TSR_GPU_CALL(ctx, &self->driver, memory_export, self->about, out_fd, window->handle,
                        TSR_GPU_HANDLE_FILE_DESCRIPTOR, 0);
}

static tsr_result import_window(tsr_ctx *ctx, tsr_device *device, int fd, uint64_t size_bytes,
                                tsr_device_window *out_window) {
    const tsr_gpu_device *self = (const tsr_gpu_device *)device;
    unsigned long long handle = 0;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, memory_import, self->about, &handle,
                          (void *)(intptr_t)fd, TSR_GPU_HANDLE_FILE_DESCRIPTOR));
    tsr_device_window window = {.size_bytes = size_bytes, .handle = handle};
    tsr_result result = map(ctx, self, &window);
    if (result.code)
        self->driver.memory_release(handle);
    else
        *out_window = window;
    return result;
}

static void release(tsr_device *device, tsr_device_window *window) {
    tsr_gpu_release_window((const tsr_gpu_device *)device, window);
}

/* ---- waiting ---- */

static bool is_busy(const tsr_gpu_device *self, struct tsr_gpu_stream *stream) {
    return stream && self->driver.stream_query(stream) == TSR_GPU_ERROR_NOT_READY;
}

/* Repeats it until the streams are empty: another process may overwrite a word that was set. A
 * kernel that does not end is left to the end of the process. */
static void release_waits(const tsr_gpu_device *self) {
    const uint64_t began_ns = tsr_clock_ns();
    tsr_ctx aside = {0};
    while (tsr_clock_ns() - began_ns < RELEASE_NS_MAX &&
           (is_busy(self, self->stream) || is_busy(self, self->peers.streams[TSR_PEER_PUSHES]))) {
        if (self->peers.watch.release(&aside, self->peers.watch.user).code) return;
        usleep(WATCH_NS / 1000);
    }
}

/* The awaited state: a stream or an event. */
typedef struct awaited {
    struct tsr_gpu_stream *stream;
    struct tsr_gpu_event *event;
} awaited;

static tsr_gpu_result query(const tsr_gpu_device *self, const awaited *of) {
    return of->event ? self->driver.event_query(of->event) : self->driver.stream_query(of->stream);
}

/* A failed rank releases its own waits, and what it then sends is garbage: work that ends with such
 * data must not count, so the watch has the last word. */
static tsr_result wait_watching(tsr_ctx *ctx, const tsr_gpu_device *self, const awaited *of,
                                const char *about) {
    const tsr_peer_watch *watch = &self->peers.watch;
    uint64_t watched_ns = tsr_clock_ns();
    for (;;) {
        tsr_gpu_result result = query(self, of);
        bool done = result != TSR_GPU_ERROR_NOT_READY;
        if (done)
            TRY(ctx, tsr_gpu_check(ctx, &self->driver, result, TSR_GPU_CALL_stream_query, about));
        for (int i = 0; i < PAUSES && !done; i++) _mm_pause();
        uint64_t now = tsr_clock_ns();
        if (!done && now - watched_ns < WATCH_NS) continue;
        watched_ns = now;
        tsr_result failed = watch->call(ctx, watch->user);
        if (failed.code) release_waits(self);
        if (done || failed.code) return failed;
    }
}

tsr_result tsr_gpu_wait(tsr_ctx *ctx, const tsr_gpu_device *self, const char *about) {
    const awaited all = {.stream = self->stream};
    if (!self->peers.watch.call)
        return TSR_GPU_CALL(ctx, &self->driver, stream_wait, about, self->stream);
    return wait_watching(ctx, self, &all, about);
}

tsr_result tsr_gpu_wait_event(tsr_ctx *ctx, const tsr_gpu_device *self,
                              struct tsr_gpu_event *event) {
    const awaited one = {.event = event};
    if (!self->peers.watch.call)
        return TSR_GPU_CALL(ctx, &self->driver, event_wait, self->about, event);
    return wait_watching(ctx, self, &one, self->about);
}

static void watch(tsr_device *device, const tsr_peer_watch *given) {
    ((tsr_gpu_device *)device)->peers.watch = given ? *given : (tsr_peer_watch){0};
}

static tsr_result wait_all(tsr_ctx *ctx, tsr_device *device) {
    const tsr_gpu_device *self = (const tsr_gpu_device *)device;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    return tsr_gpu_wait(ctx, self, self->about);
}

/* ---- commands ---- */

/* Where the GPU can be asked to, a wait makes earlier writes by others visible. */
static tsr_result find_wait_flags(tsr_ctx *ctx, tsr_gpu_device *self) {
    int flushes = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, device_attribute, self->about, &flushes,
                          TSR_GPU_DEVICE_ATTRIBUTE_FLUSHES_REMOTE_WRITES, self->gpu.device));
    self->peers.wait_flags = TSR_GPU_WAIT_UNTIL_REACHED | (flushes ? TSR_GPU_WAIT_FLUSH : 0);
    return TSR_SUCCESS;
}

/* Creates the other streams for the first command. */
static tsr_result enter(tsr_ctx *ctx, tsr_gpu_device *self) {
    tsr_gpu_peers *peers = &self->peers;
    TRY(ctx, tsr_gpu_enter(ctx, self));
    if (!peers->streams[TSR_PEER_PUSHES] && self->driver.word_wait)
        TRY(ctx, find_wait_flags(ctx, self));
    for (int i = TSR_PEER_PUSHES; i < TSR_PEER_STREAM_COUNT; i++)
        if (!peers->streams[i])
            TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, stream_create, self->about,
                                  &peers->streams[i], TSR_GPU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < TSR_COUNT(peers->reached); i++)
        if (!peers->reached[i])
            TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_create, self->about, &peers->reached[i],
                                  TSR_GPU_EVENT_DISABLE_TIMING));
    return TSR_SUCCESS;
}

static struct tsr_gpu_stream *stream_of(const tsr_gpu_device *self, tsr_peer_stream stream) {
    return stream == TSR_PEER_MAIN ? self->stream : self->peers.streams[stream];
}

static tsr_result copy(tsr_ctx *ctx, tsr_device *device, tsr_peer_stream stream, void *to,
                       const void *from, uint64_t size_bytes) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TRY(ctx, enter(ctx, self));
    return TSR_GPU_CALL(ctx, &self->driver, copy, self->about, tsr_gpu_address_of(to),
                        tsr_gpu_address_of(from), (size_t)size_bytes, stream_of(self, stream));
}

static tsr_result set(tsr_ctx *ctx, tsr_device *device, tsr_peer_stream stream, uint32_t *word,
                      uint32_t value) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TRY(ctx, enter(ctx, self));
    return TSR_GPU_CALL(ctx, &self->driver, word_write, self->about, stream_of(self, stream),
                        tsr_gpu_address_of(word), value, 0);
}

static tsr_result await(tsr_ctx *ctx, tsr_device *device, tsr_peer_stream stream,
                        const uint32_t *word, uint32_t value) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    TRY(ctx, enter(ctx, self));
    return TSR_GPU_CALL(ctx, &self->driver, word_wait, self->about, stream_of(self, stream),
                        tsr_gpu_address_of(word), value, self->peers.wait_flags);
}

static tsr_result load_kernels(tsr_ctx *ctx, tsr_gpu_device *self) {
    const tsr_gpu_programs *programs = self->driver.api->programs;
    tsr_gpu_peers *peers = &self->peers;
    tsr_buffer text = {0};
    tsr_result result = TSR_SUCCESS;
    if (peers->combine[TSR_REDUCTION_COUNT - 1]) return TSR_SUCCESS;
    programs->print_combine(&text);
    if (text.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the text of kernels");
    if (!peers->module)
        TRY_GOTO(ctx, result,
                 TSR_GPU_CALL(ctx, &self->driver, module_load, self->about, &peers->module,
                              text.bytes, 0, NULL, NULL));
    for (unsigned i = 0; i < TSR_REDUCTION_COUNT; i++) {
        const char *name = programs->get_combine_name((tsr_reduction)i);
        TRY_GOTO(ctx, result,
                 TSR_GPU_CALL(ctx, &self->driver, module_function, name, &peers->combine[i],
                              peers->module, name));
    }
done:
    tsr_buffer_finish(&text);
    return result;
}

/* Combines parts in the host's memory: where the runtime has no kernels of its own. */
static tsr_result combine_on_host(tsr_ctx *ctx, tsr_gpu_device *self, tsr_reduction reduction,
                                  char *out, const char *a, const char *b, uint64_t count) {
    const size_t element = tsr_reduction_get_size(reduction);
    const uint64_t size_bytes = count * element;
    tsr_result result = TSR_SUCCESS;
    char *parts = malloc(2 * (size_t)HOST_PART_BYTES);
    if (!parts) FAIL(ctx, TSR_MEMORY, "no memory to combine values of %s", self->about);
    for (uint64_t at = 0, part; at < size_bytes; at += part) {
        part = size_bytes - at < HOST_PART_BYTES ? size_bytes - at : HOST_PART_BYTES;
        TRY_GOTO(ctx, result, tsr_gpu_read_caller(ctx, &self->base, a + at, parts, part));
        TRY_GOTO(ctx, result,
                 tsr_gpu_read_caller(ctx, &self->base, b + at, parts + HOST_PART_BYTES, part));
        tsr_tree_combine(reduction, parts, parts, parts + HOST_PART_BYTES, (size_t)part / element);
        TRY_GOTO(ctx, result, tsr_gpu_write_caller(ctx, &self->base, parts, out + at, part));
    }
done:
    free(parts);
    return result;
}

tsr_result tsr_gpu_combine(tsr_ctx *ctx, tsr_device *device, tsr_reduction reduction, void *out,
                           const void *a, const void *b, uint64_t count) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_gpu_address to = tsr_gpu_address_of(out), first = tsr_gpu_address_of(a),
                    second = tsr_gpu_address_of(b);
    if (!self->driver.api->programs) return combine_on_host(ctx, self, reduction, out, a, b, count);
    const unsigned threads = self->driver.api->programs->threads;
    void *parameters[] = {&to, &first, &second, &count};
    uint64_t blocks = count / threads + (count % threads != 0);
    if (!blocks) return TSR_SUCCESS;
    if (blocks > INT32_MAX)
        FAIL(ctx, TSR_INTERNAL, "%" PRIu64 " elements are more than a launch combines", count);
    TRY(ctx, enter(ctx, self));
    TRY(ctx, load_kernels(ctx, self));
    return TSR_GPU_CALL(ctx, &self->driver, launch, self->about, self->peers.combine[reduction],
                        (unsigned)blocks, 1, 1, threads, 1, 1, 0, self->stream, parameters, NULL);
}

static tsr_result follow(tsr_ctx *ctx, tsr_device *device, tsr_peer_stream stream) {
    tsr_gpu_device *self = (tsr_gpu_device *)device;
    tsr_peer_stream other = stream == TSR_PEER_MAIN ? TSR_PEER_PUSHES : TSR_PEER_MAIN;
    TRY(ctx, enter(ctx, self));
    TRY(ctx, TSR_GPU_CALL(ctx, &self->driver, event_record, self->about, self->peers.reached[other],
                          stream_of(self, other)));
    return TSR_GPU_CALL(ctx, &self->driver, stream_wait_event, self->about, stream_of(self, stream),
                        self->peers.reached[other], 0);
}

void tsr_gpu_close_peers(const tsr_gpu_device *self) {
    const tsr_gpu_peers *peers = &self->peers;
    for (size_t i = 0; i < TSR_COUNT(peers->reached); i++)
        if (peers->reached[i]) self->driver.event_destroy(peers->reached[i]);
    for (int i = TSR_PEER_PUSHES; i < TSR_PEER_STREAM_COUNT; i++)
        if (peers->streams[i]) self->driver.stream_destroy(peers->streams[i]);
    if (peers->module) self->driver.module_unload(peers->module);
}

const tsr_device_peers tsr_gpu_peer_functions = {
    .get_identity = get_identity,
    .check = check,
    .allocate = allocate,
    .export_window = export_window,
    .import_window = import_window,
    .release = release,
    .watch = watch,
    .copy = copy,
    .set = set,
    .await = await,
    .follow = follow,
    .wait = wait_all,
};
