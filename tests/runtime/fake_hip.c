/* SPDX-License-Identifier: Apache-2.0
 *
 * What only the HIP runtime has: memory that is not in the order of a stream, the names of errors
 * as results, and the architecture among the properties.
 */
#include "runtime/base/hash/hash.h"
#include "runtime/device/hip.h"
#include "tests/lanes/lanes.h"
#include "tests/runtime/fake_gpu_internal.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_gpu fake = {.version = 60200000,
                 .device_count = 2,
                 .arch = "gfx942",
                 .free_bytes = 1 << 20,
                 .toy_limit = 256};
const char fake_told[] = "FAKE_HIP_TOLD";
const unsigned fake_no_device = TSR_HIP_ERROR_INVALID_DEVICE;
const bool fake_has_clusters = false;

EXPORT const char *hipGetErrorName(tsr_gpu_result error);
EXPORT tsr_gpu_result hipGetDevicePropertiesR0600(void *properties, int device);
EXPORT tsr_gpu_result hipGetDeviceProperties(void *properties, int device);

const char *hipGetErrorName(tsr_gpu_result error) {
    switch (error) {
    case TSR_GPU_ERROR_OUT_OF_MEMORY:
        return "hipErrorOutOfMemory";
    case 719:
        return "hipErrorLaunchFailure";
    case 218:
        return "hipErrorInvalidKernelFile";
    case 700:
        return "hipErrorIllegalAddress";
    case 214:
        return "hipErrorECCNotCorrectable";
    case 900:
        return "hipErrorStreamCaptureUnsupported";
    default:
        return "hipErrorUnknown";
    }
}

/* With the features that AMD's driver adds to the name. */
static tsr_gpu_result tell_arch(char *properties, size_t size_bytes, size_t at, int device) {
    unsigned code = fake_fails("hipGetDeviceProperties");
    if (code) return code;
    if (device < FAKE_DEVICE) return INVALID_VALUE;
    memset(properties, 0x5a, size_bytes);
    snprintf(properties + at, TSR_HIP_ARCH_BYTES, "%s:sramecc+:xnack-", fake.arch);
    return 0;
}

tsr_gpu_result hipGetDevicePropertiesR0600(void *properties, int device) {
    return tell_arch(properties, TSR_HIP_6_PROPERTIES_BYTES, TSR_HIP_6_PROPERTIES_ARCH, device);
}

tsr_gpu_result hipGetDeviceProperties(void *properties, int device) {
    return tell_arch(properties, TSR_HIP_5_PROPERTIES_BYTES, TSR_HIP_5_PROPERTIES_ARCH, device);
}

tsr_gpu_result fake_device_attribute(int *value, tsr_gpu_enum attribute, int device) {
    CHECK(device_attribute);
    *value = 5;
    return device < FAKE_DEVICE || attribute != TSR_HIP_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
               ? INVALID_VALUE
               : 0;
}

tsr_gpu_result fake_allocate_now(tsr_gpu_address *address, size_t size_bytes) {
    CHECK(allocate_now);
    *address = (tsr_gpu_address)(uintptr_t)fake_poisoned(size_bytes);
    fake.allocations++;
    return 0;
}

tsr_gpu_result fake_free_now(tsr_gpu_address address) {
    free(fake_pointer(address));
    fake.allocations--;
    return 0;
}

/* ---- code ---- */

/* What a code object of LLD has: its section headers are last. */
static size_t size_elf(const void *image) {
    const Elf64_Ehdr *head = image;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return 0;
    return head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
}

/* A folder has a library for each code object that can be run (tests/lanes/pack.c). */
struct tsr_gpu_module *fake_load_code(const void *image) {
    const char *folder = getenv("FAKE_HIP_CODE");
    size_t size_bytes = folder ? size_elf(image) : 0;
    char path[4096], text[TSR_DIGEST_HEX + 1];
    if (!size_bytes) return NULL;
    const tsr_digest digest = tsr_hash(image, size_bytes);
    tsr_digest_format(&digest, text);
    snprintf(path, sizeof path, "%s/%s.so", folder, text);
    struct tsr_gpu_module *code = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!code) fprintf(stderr, "%s\n", dlerror());
    return code;
}

/* The library has a kernel and the simulator's facts about it. Kernels are few, and stay. */
const fake_kernel *fake_find_code(struct tsr_gpu_module *module, const char *name) {
    char row_name[512];
    void *run = dlsym(module, name);
    snprintf(row_name, sizeof row_name, LANES_ROW "%s", name);
    const lanes_kernel *row = dlsym(module, row_name);
    fake_kernel *kernel = run && row ? calloc(1, sizeof *kernel) : NULL;
    if (!kernel) return NULL;
    kernel->name = row->name;
    kernel->argument_count = row->parameter_count - 3; /* fault record, scratch, programs */
    memcpy(&kernel->run, &run, sizeof run);
    return kernel;
}

/* Memory is not shared with other processes. */
bool fake_is_foreign(const void *address) {
    (void)address;
    return false;
}
