/* SPDX-License-Identifier: Apache-2.0
 *
 * Sending weights of a bundle to a device that hashes them itself: the values on the device,
 * weights that are not sent this way, and damaged weights. The device is a GPU of
 * tests/runtime/fake_gpu.c.
 */
#include "loader/weights/shards.h"
#include "loader/weights/weights.h"
#include "manifests/fatbin.h"
#include "runtime/device/gpu/driver.h"
#include "tests/runtime/fake_gpu.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TENSORS = 4 };
static const uint64_t counts[TENSORS] = {700001, 3, 0, 1500000};
static const char *const names[TENSORS] = {"a", "b", "c", "d"};
static tsr_ctx ctx;
static tsr_arena arena;
static char path[] = "sender-XXXXXX";
static tsr_config_tensor tensors[TENSORS];
static tsr_config config;
static tsr_device *device;
static tsr_device_memory memory;
static void *data[TENSORS];

static void must(tsr_result result) { cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text); }

static unsigned char byte_at(const void *user, uint64_t offset) {
    return (unsigned char)((uintptr_t)user * 131 + offset * 7 + (offset >> 8));
}

static tsr_result read_pattern(tsr_ctx *context, void *user, uint64_t offset, void *bytes,
                               size_t size) {
    (void)context;
    for (size_t i = 0; i < size; i++) ((unsigned char *)bytes)[i] = byte_at(user, offset + i);
    return TSR_SUCCESS;
}

static void write_bundle(void) {
    tsr_value values[TENSORS];
    tsr_bundle_blob *blobs = NULL;
    size_t count = 0;
    for (size_t i = 0; i < TENSORS; i++)
        values[i] = (tsr_value){
            names[i], TSR_DTYPE_F32, {1, {counts[i]}}, read_pattern, (void *)(uintptr_t)(i + 1)};
    must(tsr_shards_make(&ctx, values, TENSORS, TSR_MEDIA_WEIGHTS, "weights", TSR_SHARD_BYTES_MAX,
                         &arena, &blobs, &count));
    const tsr_bundle_target target = {.name = "cuda:sm_90a"};
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = "{}",
                                  .config_size_bytes = 2,
                                  .blobs = blobs,
                                  .blob_count = count,
                                  .targets = &target,
                                  .target_count = 1};
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    must(tsr_bundle_write(&ctx, path, &spec));
}

static void open_gpu(void) {
    static const tsr_fatbin_image image = {TSR_FATBIN_PTX, 80, false, "ptx 80..", 9};
    const tsr_fatbin fatbin = {NULL, 0, &image, 1};
    tsr_device_options options = {.library = FAKE_CUDA};
    void *code = NULL;
    must(tsr_fatbin_encode(&ctx, &fatbin, &arena, &code, &options.code_size_bytes));
    options.code = code;
    must(tsr_device_open(&ctx, "cuda", &options, &device));
}

static void begin(void) {
    uint64_t size = 0;
    write_bundle();
    setenv("FAKE_CUDA_TOLD", "free=1000000000", 1);
    open_gpu();
    for (size_t i = 0; i < TENSORS; i++) {
        tensors[i] = (tsr_config_tensor){.name = names[i],
                                         .role = TSR_ROLE_PARAM,
                                         .dtype = TSR_DTYPE_F32,
                                         .shape = {1, {counts[i]}},
                                         .init = TSR_INIT_DATA};
        size += 4 * counts[i] + 64;
    }
    config = (tsr_config){.name = "sent", .tensor_count = TENSORS, .tensors = tensors};
    must(device->type->allocate(&ctx, device, size, 0, (tsr_device_range){0, 0}, &memory));
    for (size_t i = 0, at = 0; i < TENSORS; at += 4 * counts[i] + 64, i++)
        data[i] = memory.host + at;
}

static void end(void) {
    device->type->release(device, &memory);
    tsr_device_close(device);
    tsr_arena_finish(&arena);
    unlink(path);
}
TestSuite(sender, .init = begin, .fini = end);

static tsr_result load(uint64_t bytes_min, bool sent[TENSORS]) {
    tsr_sender sender = {.device = device, .memory = &memory, .bytes_min = bytes_min};
    tsr_bundle *bundle = NULL;
    must(tsr_bundle_open(&ctx, path, NULL, &bundle));
    tsr_result result = tsr_weights_load(&ctx, bundle, 0, &config, 1u << TSR_ROLE_PARAM,
                                         &(tsr_weights_folders){NULL, 0}, data, &sender, sent);
    tsr_bundle_close(&ctx, bundle);
    return result;
}

static void expect_values(void) {
    for (size_t i = 0; i < TENSORS; i++) {
        const unsigned char *bytes = data[i];
        for (uint64_t k = 0; k < 4 * counts[i]; k++)
            cr_assert_eq(bytes[k], byte_at((void *)(uintptr_t)(i + 1), k), "%s, byte %lu", names[i],
                         k);
        for (uint64_t k = 4 * counts[i]; k < 4 * counts[i] + 64; k++) cr_assert_eq(bytes[k], 0);
    }
}

Test(sender, weights_arrive_on_the_device) {
    bool sent[TENSORS] = {false};
    must(load(0, sent));
    for (size_t i = 0; i < TENSORS; i++) cr_assert(sent[i]);
    for (uint64_t k = 0; k < memory.size_bytes; k++) cr_assert_eq(memory.host[k], 0);
    must(device->type->download(&ctx, device, &memory, (tsr_device_range){0, memory.size_bytes}));
    expect_values();
}

Test(sender, few_bytes_go_through_the_host) {
    bool sent[TENSORS] = {false};
    must(load(UINT64_MAX, sent));
    for (size_t i = 0; i < TENSORS; i++) cr_assert_not(sent[i]);
    expect_values();
}

/* The additional memory does not fit on the device: this is no error, since the host can load the
 * weights instead. */
Test(sender, without_room_they_go_through_the_host) {
    bool sent[TENSORS] = {false};
    fake_gpu *driver = dlsym(dlopen(FAKE_CUDA, RTLD_NOW | RTLD_NOLOAD), "fake");
    cr_assert_not_null(driver);
    driver->fail = "cuMemAllocAsync";
    driver->fail_at = 1;
    driver->fail_code = TSR_GPU_ERROR_OUT_OF_MEMORY;
    must(load(0, sent));
    for (size_t i = 0; i < TENSORS; i++) cr_assert_not(sent[i]);
    expect_values();
}

Test(sender, damage_is_refused) {
    bool sent[TENSORS] = {false};
    char byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t middle = lseek(fd, 0, SEEK_END) / 2;
    cr_assert(pread(fd, &byte, 1, middle) == 1);
    byte ^= 1;
    cr_assert(pwrite(fd, &byte, 1, middle) == 1);
    close(fd);
    cr_assert_eq(load(0, sent).code, TSR_CORRUPT);
    cr_assert_not_null(strstr(ctx.error.text, "digest of the chunk at offset"), "%s",
                       ctx.error.text);
}
