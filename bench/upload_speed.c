/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares loading weights of a bundle to a GPU, which verifies them, with a plain copy of the same
 * number of bytes from page-locked memory.
 *
 *     upload_speed FOLDER [MIB...]        64 128 256 512 1024 without any
 *
 * For each size: writes a bundle with one blob of MIB mebibytes to FOLDER (removed at the end), so
 * that it is in the page cache, and alternates between
 *   copy         cuMemcpyHtoDAsync of one page-locked block
 *   upload       the blob to the GPU, each chunk's digest computed there
 *   ready        the same by a device that was prepared for it when it was opened, as in runs
 *   host         the blob to the host's memory, verified there, then copied from it
 * Then compares the received data with the written data. Prints one JSON object per line: medians
 * in GB/s (1e9 bytes); for an upload the time to set it up and to release it, in ms, and whether a
 * run would use it: "sent". Exits with 77 if there is no GPU.
 */
#include "bench/median.h"
#include "bench/weights.h"
#include "loader/weights/sender.h"
#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/device/gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, PATH_BYTES = 4096, MIB_MAX = 4000, SKIPPED = 77, PINNED_BYTES = 256 << 20 };
static const char *const sizes_mib[] = {"64", "128", "256", "512", "1024"};

typedef struct bench {
    tsr_ctx *ctx;
    char path[PATH_BYTES];
    unsigned char *bytes;
    size_t size_bytes;
    tsr_bundle *bundle;
    tsr_bundle_layer layer;
    tsr_device *device;
    tsr_device_memory memory;
    void *pinned;
    double copy[ROUNDS], upload[ROUNDS], ready[ROUNDS], host[ROUNDS], around[ROUNDS],
        ready_around[ROUNDS];
} bench;

/* Opens a GPU with a module without kernels. */
static TSR_RESULT open_gpu(bench *b, bool takes, tsr_device **out_device) {
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
    const tsr_fatbin_image image = {TSR_FATBIN_PTX, 80, false, text, sizeof text};
    const tsr_fatbin fatbin = {NULL, 0, &image, 1};
    tsr_arena arena = {0};
    void *code = NULL;
    tsr_device_options options = {.kernel_count = 0, .takes_bytes = takes ? UINT64_MAX : 0};
    tsr_result result = tsr_fatbin_encode(b->ctx, &fatbin, &arena, &code, &options.code_size_bytes);
    options.code = code;
    if (!result.code) result = tsr_device_open(b->ctx, "cuda", &options, out_device);
    tsr_arena_finish(&arena);
    return result;
}

static TSR_RESULT begin(bench *b) {
    TRY(b->ctx, open_gpu(b, false, &b->device));
    return b->device->type->allocate(b->ctx, b->device, b->size_bytes, 0, (tsr_device_range){0, 0},
                                     &b->memory);
}

static TSR_RESULT copy(bench *b) {
    const tsr_gpu_device *gpu = (const tsr_gpu_device *)b->device;
    for (size_t at = 0, part; at < b->size_bytes; at += part) {
        part = b->size_bytes - at < PINNED_BYTES ? b->size_bytes - at : PINNED_BYTES;
        TRY(b->ctx,
            TSR_GPU_CALL(b->ctx, &gpu->driver, upload, NULL,
                         tsr_gpu_address_of(b->memory.device + at), b->pinned, part, gpu->stream));
    }
    return TSR_GPU_CALL(b->ctx, &gpu->driver, stream_wait, NULL, gpu->stream);
}

/* out_around: time of setup and release. */
static TSR_RESULT upload(bench *b, tsr_device *device, double *out_around) {
    const tsr_bundle_segment all = {0, b->size_bytes, b->memory.host};
    tsr_sender sender = {.device = device, .memory = &b->memory};
    double start = tsr_clock_seconds();
    TRY(b->ctx, tsr_sender_begin(b->ctx, &sender));
    double begun = tsr_clock_seconds();
    tsr_result result =
        tsr_bundle_send_segments(b->ctx, b->bundle, &b->layer, &all, 1, &sender.sink);
    double sent = tsr_clock_seconds();
    result = tsr_sender_end(b->ctx, &sender, result);
    *out_around = begun - start + (tsr_clock_seconds() - sent);
    return result;
}

static TSR_RESULT compare(bench *b) {
    memset(b->memory.host, 0, b->size_bytes);
    TRY(b->ctx, b->device->type->download(b->ctx, b->device, &b->memory,
                                          (tsr_device_range){0, b->size_bytes}));
    if (memcmp(b->memory.host, b->bytes, b->size_bytes) != 0)
        FAIL(b->ctx, TSR_DATA, "the data read back differs from the data written");
    return TSR_SUCCESS;
}

/* Uploads on a new device that was prepared for it or not, some time after it was opened, as a
 * program does other things in between. */
static TSR_RESULT upload_new(bench *b, bool takes, double *out_seconds, double *out_around) {
    const struct timespec before = {0, 100000000};
    tsr_device *device = NULL;
    TRY(b->ctx, copy(b)); /* so that the data is not there already */
    TRY(b->ctx, open_gpu(b, takes, &device));
    nanosleep(&before, NULL);
    double start = tsr_clock_seconds();
    tsr_result result = upload(b, device, out_around);
    *out_seconds = tsr_clock_seconds() - start;
    tsr_device_close(device);
    TRY(b->ctx, result);
    return compare(b);
}

static TSR_RESULT through_host(bench *b) {
    const tsr_bundle_segment all = {0, b->size_bytes, b->memory.host};
    TRY(b->ctx, tsr_bundle_read_segments(b->ctx, b->bundle, &b->layer, &all, 1, 0));
    return b->device->type->upload(b->ctx, b->device, &b->memory,
                                   (tsr_device_range){0, b->size_bytes});
}

static TSR_RESULT measure(bench *b) {
    const tsr_gpu_device *gpu = (const tsr_gpu_device *)b->device;
    TRY(b->ctx,
        TSR_GPU_CALL(b->ctx, &gpu->driver, host_allocate, NULL, &b->pinned, PINNED_BYTES, 0));
    memset(b->pinned, 1, PINNED_BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        double start = tsr_clock_seconds();
        TRY(b->ctx, copy(b));
        b->copy[i] = tsr_clock_seconds() - start;
        start = tsr_clock_seconds();
        TRY(b->ctx, through_host(b));
        b->host[i] = tsr_clock_seconds() - start;
        TRY(b->ctx, upload_new(b, false, &b->upload[i], &b->around[i]));
        TRY(b->ctx, upload_new(b, true, &b->ready[i], &b->ready_around[i]));
    }
    double size = (double)b->size_bytes * 1e-9, copied = median_of(b->copy, ROUNDS);
    double uploaded = median_of(b->upload, ROUNDS), ready = median_of(b->ready, ROUNDS);
    printf(
        "{\"mib\": %zu, \"copy\": %.2f, \"host\": %.2f, \"upload\": %.2f, \"ratio\": %.3f, "
        "\"around_ms\": %.2f, \"ready\": %.2f, \"ready_ratio\": %.3f, \"ready_around_ms\": %.2f, "
        "\"sent\": %s}\n",
        b->size_bytes >> 20, size / copied, size / median_of(b->host, ROUNDS), size / uploaded,
        copied / uploaded, 1e3 * median_of(b->around, ROUNDS), size / ready, copied / ready,
        1e3 * median_of(b->ready_around, ROUNDS),
        b->size_bytes >= b->device->type->staged_upload->bytes_min(b->device) ? "true" : "false");
    return TSR_SUCCESS;
}

static TSR_RESULT run(bench *b) {
    uint64_t state = 0;
    for (size_t i = 0; i + 8 <= b->size_bytes; i += 8) {
        state += 0x9e3779b97f4a7c15u;
        memcpy(b->bytes + i, &state, sizeof state);
    }
    TRY(b->ctx, weights_write(b->ctx, b->path, b->bytes, b->size_bytes));
    TRY(b->ctx, tsr_bundle_open(b->ctx, b->path, NULL, &b->bundle));
    b->layer = tsr_bundle_get_layer(b->bundle, 0, 0);
    return measure(b);
}

/* Returns the exit code. */
static int run_size(const char *folder, const char *text) {
    tsr_ctx ctx = {0};
    bench b = {.ctx = &ctx};
    char *end = NULL;
    long mib = strtol(text, &end, 10);
    if (mib < 1 || mib > MIB_MAX || *end ||
        snprintf(b.path, sizeof b.path, "%s/upload-speed.tsb", folder) >= (int)sizeof b.path) {
        fprintf(stderr, "usage: upload_speed FOLDER [MIB...] (1 to %d)\n", MIB_MAX);
        return TSR_USAGE;
    }
    b.size_bytes = (size_t)mib << 20;
    b.bytes = malloc(b.size_bytes);
    if (!b.bytes) {
        fprintf(stderr, "upload_speed: no memory for %zu bytes\n", b.size_bytes);
        return TSR_MEMORY;
    }
    tsr_result result = begin(&b);
    bool absent = result.code == TSR_MACHINE;
    if (!result.code) result = run(&b);
    if (result.code) fprintf(stderr, "upload_speed: %s\n", ctx.error.text);
    if (b.pinned) ((tsr_gpu_device *)b.device)->driver.host_free(b.pinned);
    if (b.memory.host) b.device->type->release(b.device, &b.memory);
    tsr_device_close(b.device);
    tsr_bundle_close(&ctx, b.bundle);
    unlink(b.path);
    free(b.bytes);
    return absent ? (int)SKIPPED : (int)result.code;
}

int main(int argc, char **argv) {
    const char *const *sizes = argc > 2 ? (const char *const *)argv + 2 : sizes_mib;
    int count = argc > 2 ? argc - 2 : (int)(TSR_COUNT(sizes_mib)), code = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: upload_speed FOLDER [MIB...] (1 to %d)\n", MIB_MAX);
        return TSR_USAGE;
    }
    for (int i = 0; i < count && !code; i++) code = run_size(argv[1], sizes[i]);
    return code;
}
