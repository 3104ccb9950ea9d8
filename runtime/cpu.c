/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu.h"

#include "runtime/base/plural.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The file stays open as long as the object: the dynamic linker knows objects by path, and would
 * mistake a second object under a reused /proc/self/fd/N for the first. */
struct tsr_code_object {
    void *handle;
    int fd;
};

static const char *const levels[TSR_CPU_LEVELS] = {[1] = "x86-64-v1",
                                                   [2] = "x86-64-v2",
                                                   [3] = "x86-64-v3",
                                                   [4] = "x86-64-v4",
                                                   [TSR_CPU_LEVEL_V4_BF16] = "x86-64-v4-bf16"};

unsigned tsr_cpu_get_level(void) {
    __builtin_cpu_init();
    bool has_v4 = __builtin_cpu_supports("x86-64-v4");
    if (has_v4 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"))
        return TSR_CPU_LEVEL_V4_BF16;
    if (has_v4) return 4;
    if (__builtin_cpu_supports("x86-64-v3")) return 3;
    if (__builtin_cpu_supports("x86-64-v2")) return 2;
    return 1;
}

unsigned tsr_cpu_parse_level(const char *target) {
    if (strncmp(target, "cpu:", 4) == 0) target += 4;
    for (unsigned level = 1; level < TSR_CPU_LEVELS; level++)
        if (strcmp(target, levels[level]) == 0) return level;
    return 0;
}

const char *tsr_cpu_level_name(unsigned level) {
    TSR_ASSERT(level > 0 && level < TSR_CPU_LEVELS);
    return levels[level];
}

static tsr_result write_sealed(tsr_ctx *ctx, const void *bytes, size_t size_bytes, int fd) {
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = write(fd, (const char *)bytes + done, size_bytes - done);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0)
            FAIL_ERRNO(ctx, TSR_MEMORY, errno,
                       "cannot hold the code object of %zu byte%s in memory", size_bytes,
                       TSR_PLURAL(size_bytes));
        done += (size_t)part;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot seal the code object");
    return TSR_SUCCESS;
}

static tsr_result find_kernels(tsr_ctx *ctx, void *handle, const char *const *names, size_t count,
                               tsr_kernel_fn *out_kernels) {
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, names[i]);
        if (!symbol) FAIL(ctx, TSR_CORRUPT, "the code object has no kernel '%s'", names[i]);
        memcpy(&out_kernels[i], &symbol, sizeof symbol);
    }
    return TSR_SUCCESS;
}

static tsr_result load(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                       tsr_code_object *object) {
    char path[64];
    object->fd = memfd_create("tessera-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (object->fd < 0)
        FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot create a memory file for the code object");
    TRY(ctx, write_sealed(ctx, bytes, size_bytes, object->fd));
    snprintf(path, sizeof path, "/proc/self/fd/%d", object->fd);
    object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object->handle) FAIL(ctx, TSR_CORRUPT, "cannot load the code object: %s", dlerror());
    return TSR_SUCCESS;
}

tsr_result tsr_code_object_load(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                                const char *const *kernel_names, size_t kernel_count,
                                tsr_kernel_fn *out_kernels, tsr_code_object **out_object) {
    tsr_code_object *object = calloc(1, sizeof *object);
    if (!object) FAIL(ctx, TSR_MEMORY, "no memory for a code object");
    object->fd = -1;
    tsr_result result = load(ctx, bytes, size_bytes, object);
    if (!result.code)
        result = find_kernels(ctx, object->handle, kernel_names, kernel_count, out_kernels);
    if (result.code)
        tsr_code_object_unload(object);
    else
        *out_object = object;
    return result;
}

void tsr_code_object_unload(tsr_code_object *object) {
    if (!object) return;
    if (object->handle) dlclose(object->handle);
    if (object->fd >= 0) close(object->fd);
    free(object);
}
