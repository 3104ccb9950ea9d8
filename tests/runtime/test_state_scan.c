/* SPDX-License-Identifier: Apache-2.0
 *
 * A state that many threads scan, on a device that shares the host's memory and on one that does
 * not. The hash equals that of a sequential scan, and the first tensor with a value that is not
 * finite is reported.
 */
#include "manifests/fatbin.h"
#include "runtime/exec/state_scan.h"
#include "tests/runtime/fake_gpu.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 6, CHUNK = TSR_HASH_CHUNK_BYTES };
static const struct {
    const char *name;
    tsr_dtype dtype;
    uint64_t count;
} of[TENSORS] = {{"many", TSR_DTYPE_F32, 3 * CHUNK / 4 + 5000},
                 {"none", TSR_DTYPE_F32, 0},
                 {"one", TSR_DTYPE_F32, 1},
                 {"chunk", TSR_DTYPE_F32, CHUNK / 4},
                 {"whole", TSR_DTYPE_I64, CHUNK / 8 + 1},
                 {"chunks", TSR_DTYPE_BF16, CHUNK}};

typedef struct bench {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_config_tensor declared[TENSORS];
    tsr_config config;
    tsr_threads *threads;
    tsr_device *device;
    tsr_executor *executor;
    tsr_tensor tensors[TENSORS];
    tsr_sharded_view view;
} bench;

static void must(const bench *b, tsr_result result) {
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
}

static void open_gpu(bench *b) {
    static const tsr_fatbin_image image = {TSR_FATBIN_PTX, 80, false, "ptx 80..", 9};
    const tsr_fatbin fatbin = {NULL, 0, &image, 1};
    tsr_device_options options = {.library = FAKE_CUDA};
    void *code = NULL;
    fake_gpu *fake = dlsym(dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), "fake");
    fake->free_bytes = 1u << 30;
    must(b, tsr_fatbin_encode(&b->ctx, &fatbin, &b->arena, &code, &options.code_size_bytes));
    options.code = code;
    must(b, tsr_device_open(&b->ctx, "cuda", &options, &b->device));
}

static void fill(bench *b) {
    const tsr_device_memory *memory = tsr_executor_get_memory(b->executor);
    const tsr_device_type *type = b->device->type;
    for (size_t i = 0; i < TENSORS; i++) {
        size_t size = (size_t)of[i].count * tsr_dtype_size(of[i].dtype);
        unsigned char *data = b->tensors[i].data;
        for (size_t k = 0; k < size; k++) data[k] = (unsigned char)(k * 2654435761u >> 13) & 0x3f;
        if (type->shares_memory || !size) continue;
        const tsr_device_range range = {(uint64_t)((char *)data - memory->host), size};
        must(b, type->upload(&b->ctx, b->device, memory, range));
        tsr_executor_replace_there(b->executor, i);
    }
}

static void begin(bench *b, bool gpu) {
    static const tsr_program program = {0};
    *b = (bench){.threads = NULL};
    for (size_t i = 0; i < TENSORS; i++)
        b->declared[i] = (tsr_config_tensor){.name = of[i].name,
                                             .role = TSR_ROLE_PARAM,
                                             .dtype = of[i].dtype,
                                             .shape = {1, {of[i].count}}};
    b->config = (tsr_config){
        .name = "m", .virtual_ranks = 1, .tensor_count = TENSORS, .tensors = b->declared};
    if (gpu) {
        open_gpu(b);
    } else {
        must(b, tsr_threads_create(&b->ctx, 3, &b->threads));
        must(b, tsr_device_cpu_create(&b->ctx, NULL, b->threads, &b->device));
    }
    must(b, tsr_executor_create(&b->ctx, &b->config, &program, b->device, NULL, &b->executor));
    for (size_t i = 0; i < TENSORS; i++)
        b->tensors[i] = (tsr_tensor){of[i].name, of[i].dtype, b->declared[i].shape,
                                     tsr_executor_get_tensor(b->executor, i)};
    b->view = (tsr_sharded_view){b->tensors, TENSORS, NULL, NULL};
    fill(b);
}

static void end(bench *b) {
    tsr_executor_destroy(b->executor);
    tsr_device_close(b->device);
    tsr_threads_destroy(b->threads);
    tsr_arena_finish(&b->arena);
}

/* Writes to both memories. */
static void put(bench *b, size_t tensor, uint64_t element, double value) {
    tsr_dtype dtype = of[tensor].dtype;
    size_t width = tsr_dtype_size(dtype);
    const tsr_device_memory *memory = tsr_executor_get_memory(b->executor);
    tsr_dtype_write(dtype, value, b->tensors[tensor].data, element);
    const tsr_device_range range = {
        (uint64_t)((char *)b->tensors[tensor].data - memory->host) + element * width, width};
    must(b, b->device->type->upload(&b->ctx, b->device, memory, range));
}

/* Invalidates the host's copy if the device has a memory of its own. */
static void flip_host(bench *b) {
    for (size_t i = 0; i < TENSORS && !b->device->type->shares_memory; i++) {
        unsigned char *data = b->tensors[i].data;
        for (size_t k = 0; k < of[i].count * tsr_dtype_size(of[i].dtype); k++) data[k] ^= 0xff;
    }
}

static void expect(bench *b, const char *name, uint64_t element) {
    tsr_digest digests[TENSORS], hash, expected = tsr_state_hash(b->tensors, TENSORS);
    tsr_nonfinite found;
    flip_host(b);
    must(b, tsr_state_scan(&b->ctx, b->executor, &b->view, digests, &found));
    cr_assert_eq(found.found, name != NULL);
    if (name) {
        cr_assert_str_eq(found.tensor, name);
        cr_assert_eq(found.element, element, "%lu of %s", found.element, name);
    }
    must(b, tsr_state_scan_hash(&b->ctx, b->executor, &b->view, &hash));
    cr_assert(tsr_digest_equal(&hash, &expected));
    flip_host(b);
}

static void scan_on(bool gpu) {
    bench b;
    begin(&b, gpu);
    expect(&b, NULL, 0);
    put(&b, 5, CHUNK / 2 + 7, (double)INFINITY);
    expect(&b, "chunks", CHUNK / 2 + 7);
    put(&b, 0, 3 * CHUNK / 4 + 4999, (double)NAN);
    expect(&b, "many", 3 * CHUNK / 4 + 4999);
    put(&b, 0, CHUNK / 4 + 1, -(double)INFINITY);
    expect(&b, "many", CHUNK / 4 + 1);
    end(&b);
}

Test(state_scan, of_the_host) { scan_on(false); }
Test(state_scan, of_a_gpu) { scan_on(true); }

/* A failed read is reported. */
Test(state_scan, read_fails) {
    bench b;
    tsr_digest hash;
    begin(&b, true);
    fake_gpu *fake = dlsym(dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), "fake");
    fake->fail = "cuMemcpyDtoHAsync_v2";
    fake->fail_at = 3;
    fake->fail_code = 700;
    cr_assert_eq(tsr_state_scan_hash(&b.ctx, b.executor, &b.view, &hash).code, TSR_MACHINE);
    cr_assert_not_null(strstr(b.ctx.error.text, "ILLEGAL_ADDRESS"), "%s", b.ctx.error.text);
    end(&b);
}
