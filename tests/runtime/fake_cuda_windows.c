/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake driver's memory that processes share: a handle is an anonymous file.
 */
#include "tests/runtime/fake_gpu_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GRANULARITY = 64 << 10, MAPS_MAX = 64, HANDLES_MAX = 1024 };

static bool is_imported[HANDLES_MAX]; /* by handle */
/* Mapped memory of other processes. */
static struct {
    char *address;
    size_t size_bytes; /* 0: an unused element */
} foreign[MAPS_MAX];

bool fake_is_foreign(const void *address) {
    for (int i = 0; i < MAPS_MAX; i++)
        if ((const char *)address >= foreign[i].address &&
            (const char *)address < foreign[i].address + foreign[i].size_bytes)
            return true;
    return false;
}

static void note_foreign(char *address, size_t size_bytes) {
    int i = 0;
    while (foreign[i].size_bytes) i++;
    foreign[i].address = address;
    foreign[i].size_bytes = size_bytes;
}

tsr_gpu_result fake_device_access(int *value, int device, int peer) {
    CHECK(device_access);
    if (device == peer) return INVALID_VALUE;
    *value = !fake.no_access;
    return 0;
}

static bool is_right(const struct tsr_gpu_memory_properties *properties) {
    const tsr_gpu_properties *p = (const tsr_gpu_properties *)properties;
    return p->kind == TSR_GPU_MEMORY_PINNED && p->location.kind == TSR_GPU_MEMORY_ON_DEVICE &&
           p->location.device >= FAKE_DEVICE && p->handle_kinds == TSR_GPU_HANDLE_FILE_DESCRIPTOR;
}

tsr_gpu_result fake_memory_granularity(size_t *size_bytes,
                                       const struct tsr_gpu_memory_properties *properties,
                                       tsr_gpu_enum kind) {
    CHECK(memory_granularity);
    if (!is_right(properties) || kind != TSR_GPU_GRANULARITY_RECOMMENDED) return INVALID_VALUE;
    *size_bytes = GRANULARITY;
    return 0;
}

tsr_gpu_result fake_memory_create(unsigned long long *handle, size_t size_bytes,
                                  const struct tsr_gpu_memory_properties *properties,
                                  unsigned long long flags) {
    CHECK(memory_create);
    if (!is_right(properties) || size_bytes % GRANULARITY || flags) return INVALID_VALUE;
    int fd = memfd_create("fake", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size_bytes)) abort();
    *handle = (unsigned)fd;
    fake.allocations++;
    return 0;
}

tsr_gpu_result fake_memory_release(unsigned long long handle) {
    is_imported[handle % HANDLES_MAX] = false;
    close((int)handle);
    fake.allocations--;
    return 0;
}

tsr_gpu_result fake_memory_export(void *handle, unsigned long long memory, tsr_gpu_enum kind,
                                  unsigned long long flags) {
    CHECK(memory_export);
    if (kind != TSR_GPU_HANDLE_FILE_DESCRIPTOR || flags) return INVALID_VALUE;
    int fd = dup((int)memory);
    memcpy(handle, &fd, sizeof fd);
    return 0;
}

tsr_gpu_result fake_memory_import(unsigned long long *memory, void *handle, tsr_gpu_enum kind) {
    CHECK(memory_import);
    struct stat about;
    int fd = dup((int)(intptr_t)handle);
    if (kind != TSR_GPU_HANDLE_FILE_DESCRIPTOR || fd < 0 || fstat(fd, &about) ||
        !S_ISREG(about.st_mode)) {
        close(fd);
        return INVALID_VALUE;
    }
    is_imported[fd % HANDLES_MAX] = true;
    *memory = (unsigned)fd;
    fake.allocations++;
    return 0;
}

tsr_gpu_result fake_address_reserve(tsr_gpu_address *address, size_t size_bytes, size_t alignment,
                                    tsr_gpu_address wanted, unsigned long long flags) {
    CHECK(address_reserve);
    if (size_bytes % GRANULARITY || alignment || wanted || flags) return INVALID_VALUE;
    void *memory = mmap(NULL, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    *address = (tsr_gpu_address)(uintptr_t)memory;
    return 0;
}

tsr_gpu_result fake_address_free(tsr_gpu_address address, size_t size_bytes) {
    return munmap(fake_pointer(address), size_bytes) ? INVALID_VALUE : 0;
}

/* The memory can be used after cuMemSetAccess. Some of it is not zero at first. */
tsr_gpu_result fake_memory_map(tsr_gpu_address address, size_t size_bytes, size_t offset_bytes,
                               unsigned long long memory, unsigned long long flags) {
    CHECK(memory_map);
    struct stat about;
    if (offset_bytes || flags || fstat((int)memory, &about) || about.st_size != (off_t)size_bytes)
        return INVALID_VALUE;
    void *mapped =
        mmap(fake_pointer(address), size_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)memory, 0);
    fake.windows++;
    if (is_imported[memory % HANDLES_MAX]) note_foreign(fake_pointer(address), size_bytes);
    return mapped == fake_pointer(address) ? 0 : INVALID_VALUE;
}

tsr_gpu_result fake_memory_unmap(tsr_gpu_address address, size_t size_bytes) {
    void *mapped = mmap(fake_pointer(address), size_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    fake.windows--;
    for (int i = 0; i < MAPS_MAX; i++)
        if (foreign[i].address == fake_pointer(address)) foreign[i].size_bytes = 0;
    return mapped == fake_pointer(address) ? 0 : INVALID_VALUE;
}

tsr_gpu_result fake_memory_access(tsr_gpu_address address, size_t size_bytes,
                                  const struct tsr_gpu_memory_access *access, size_t count) {
    CHECK(memory_access);
    const tsr_gpu_access *given = (const tsr_gpu_access *)access;
    if (count != 1 || given->flags != TSR_GPU_ACCESS_READ_WRITE) return INVALID_VALUE;
    return mprotect(fake_pointer(address), size_bytes, PROT_READ | PROT_WRITE) ? INVALID_VALUE : 0;
}
