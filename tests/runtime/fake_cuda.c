/* SPDX-License-Identifier: Apache-2.0
 *
 * What only the CUDA driver has: clusters, tensor maps, words that streams wait for, and memory in
 * the order of a stream.
 */
#include "runtime/device/cuda.h"
#include "tests/runtime/fake_gpu_internal.h"
#include "tests/runtime/toy.h"

#include <stdlib.h>
#include <string.h>

fake_gpu fake = {
    .version = 13000, .device_count = 2, .major = 9, .free_bytes = 1 << 20, .toy_limit = 256};
const char fake_told[] = "FAKE_CUDA_TOLD";
const unsigned fake_no_device = TSR_GPU_ERROR_NO_DEVICE;
const bool fake_has_clusters = true;

struct tsr_gpu_module *fake_load_code(const void *image) {
    (void)image;
    return NULL;
}

const fake_kernel *fake_find_code(struct tsr_gpu_module *module, const char *name) {
    (void)module, (void)name;
    return NULL;
}

tsr_gpu_result fake_device_attribute(int *value, tsr_gpu_enum attribute, int device) {
    CHECK(device_attribute);
    bool shares = attribute == TSR_GPU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY ||
                  attribute == TSR_GPU_DEVICE_ATTRIBUTE_HANDLE_FILE_DESCRIPTOR;
    bool is_second = device == FAKE_DEVICE + 1 && fake.second_major;
    *value = shares                                                        ? !fake.no_windows
             : attribute == TSR_GPU_DEVICE_ATTRIBUTE_FLUSHES_REMOTE_WRITES ? 1
             : attribute == TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
                 ? is_second ? fake.second_major : fake.major
             : attribute == TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? fake.minor
                                                                               : 5;
    return 0;
}

tsr_gpu_result fake_error_name(tsr_gpu_result error, const char **text) {
    if (error == TSR_GPU_ERROR_OUT_OF_MEMORY)
        *text = "CUDA_ERROR_OUT_OF_MEMORY";
    else if (error == 700)
        *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
    else if (error == 214)
        *text = "CUDA_ERROR_ECC_UNCORRECTABLE";
    else
        return INVALID_VALUE;
    return 0;
}

tsr_gpu_result fake_function_set(struct tsr_gpu_function *function, tsr_gpu_enum attribute,
                                 int value) {
    CHECK(function_set);
    (void)function, (void)value;
    return attribute == TSR_GPU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? 0 : INVALID_VALUE;
}

tsr_gpu_result fake_function_get(int *value, tsr_gpu_enum attribute,
                                 struct tsr_gpu_function *function) {
    CHECK(function_get);
    if (attribute != TSR_GPU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) return INVALID_VALUE;
    *value = fake_cluster_of(function) > 1 ? 2 : 0;
    return 0;
}

/* The GPU runs one cluster of the third kernel at a time. */
tsr_gpu_result fake_clusters_fitting(int *count, struct tsr_gpu_function *function,
                                     const struct tsr_gpu_launch_config *config) {
    CHECK(clusters_fitting);
    const tsr_gpu_launch *launch = (const tsr_gpu_launch *)config;
    if (fake_cluster_of(function) != 2 || launch->grid_x != 2 || !launch->block_x ||
        launch->attribute_count)
        return INVALID_VALUE;
    *count = 1;
    return 0;
}

/* Buffers, fault record, scratch, program count; the third kernel also has a map. */
tsr_gpu_result fake_function_parameter(struct tsr_gpu_function *function, size_t index,
                                       size_t *offset_bytes, size_t *size_bytes) {
    CHECK(function_parameter);
    int kernel = function == FAKE_NOTHING ? 0 : (int)(uintptr_t)function - 1;
    size_t plain = fake_count_arguments(kernel) + 3u;
    if (index >= plain + (kernel == 2) + (size_t)fake.more) return INVALID_VALUE;
    *offset_bytes = 8 * index;
    *size_bytes = index >= plain                   ? TSR_GPU_MAP_BYTES
                  : index == 0 && fake.first_bytes ? fake.first_bytes
                                                   : 8;
    return 0;
}

tsr_gpu_result fake_allocate(tsr_gpu_address *address, size_t size_bytes,
                             struct tsr_gpu_stream *s) {
    CHECK(allocate);
    (void)s;
    *address = (tsr_gpu_address)(uintptr_t)fake_poisoned(size_bytes);
    fake.allocations++;
    return 0;
}

tsr_gpu_result fake_free(tsr_gpu_address address, struct tsr_gpu_stream *s) {
    (void)s;
    free(fake_pointer(address));
    fake.allocations--;
    return 0;
}

tsr_gpu_result fake_word_write(struct tsr_gpu_stream *s, tsr_gpu_address address, uint32_t value,
                               unsigned flags) {
    CHECK(word_write);
    if (flags || address % sizeof value) return INVALID_VALUE;
    return fake_submit(s, &(fake_step){.kind = SET, .to = fake_pointer(address), .word = value});
}

tsr_gpu_result fake_word_wait(struct tsr_gpu_stream *s, tsr_gpu_address address, uint32_t value,
                              unsigned flags) {
    CHECK(word_wait);
    if (flags != (TSR_GPU_WAIT_UNTIL_REACHED | TSR_GPU_WAIT_FLUSH) || address % sizeof value)
        return INVALID_VALUE;
    return fake_submit(s, &(fake_step){.kind = AWAIT, .to = fake_pointer(address), .word = value});
}

/* Expects the strides of rows laid out as in the toy; the innermost stride is omitted. */
tsr_gpu_result fake_map_encode(struct tsr_gpu_tensor_map *map, tsr_gpu_enum element, uint32_t rank,
                               void *address, const uint64_t *dims, const uint64_t *strides,
                               const uint32_t *box, const uint32_t *element_strides,
                               tsr_gpu_enum interleave, tsr_gpu_enum swizzle,
                               tsr_gpu_enum promotion, tsr_gpu_enum fill) {
    uint64_t stride = element == TSR_GPU_MAP_FLOAT32 || element == TSR_GPU_MAP_TFLOAT32 ? 4 : 2;
    CHECK(map_encode);
    (void)promotion;
    if ((uintptr_t)map % TSR_GPU_MAP_ALIGN || (uintptr_t)address % 16 || rank < 2 || rank > 5 ||
        interleave || fill || (swizzle == TSR_GPU_MAP_SWIZZLE_128B && box[0] * stride != 128))
        return INVALID_VALUE;
    for (uint32_t d = 0; d < rank; d++) {
        if (!box[d] || box[d] > 256 || element_strides[d] != 1) return INVALID_VALUE;
        stride *= d ? dims[d] : TOY_PITCH;
        if (d + 1 < rank && (strides[d] != stride || stride % 16)) return INVALID_VALUE;
    }
    memset(map, 0x5a, TSR_GPU_MAP_BYTES);
    return 0;
}
