/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The handle of dlopen is the object; the struct exists in name only. */

unsigned tsr_cpu_get_level(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return 4;
    if (__builtin_cpu_supports("x86-64-v3")) return 3;
    if (__builtin_cpu_supports("x86-64-v2")) return 2;
    return 1;
}

unsigned tsr_cpu_parse_level(const char *target) {
    static const char prefix[] = "x86-64-v";
    if (strncmp(target, "cpu:", 4) == 0) target += 4;
    if (strncmp(target, prefix, sizeof prefix - 1) != 0) return 0;
    const char *digit = target + sizeof prefix - 1;
    return digit[0] >= '1' && digit[0] <= '4' && digit[1] == 0 ? (unsigned)(digit[0] - '0') : 0;
}

static tsr_result write_sealed(tsr_ctx *ctx, const void *bytes, size_t size_bytes, int fd) {
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = write(fd, (const char *)bytes + done, size_bytes - done);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0)
            FAIL_ERRNO(ctx, TSR_MEMORY, errno, "cannot hold the code object of %zu bytes in memory",
                       size_bytes);
        done += (size_t)part;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot seal the code object");
    return TSR_SUCCESS;
}

tsr_result tsr_code_object_load(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                                const char *const *kernel_names, size_t kernel_count,
                                tsr_kernel_fn *out_kernels, tsr_code_object **out_object) {
    tsr_result result = TSR_SUCCESS;
    char path[64];
    void *handle = NULL;
    int fd = memfd_create("tessera-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot create a memory file for the code object");
    TRY_GOTO(ctx, result, write_sealed(ctx, bytes, size_bytes, fd));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) FAIL_GOTO(ctx, result, TSR_CORRUPT, "cannot load the code object: %s", dlerror());
    for (size_t i = 0; i < kernel_count; i++) {
        void *symbol = dlsym(handle, kernel_names[i]);
        if (!symbol)
            FAIL_GOTO(ctx, result, TSR_CORRUPT, "the code object has no kernel '%s'",
                      kernel_names[i]);
        memcpy(&out_kernels[i], &symbol, sizeof symbol);
    }
    *out_object = (tsr_code_object *)handle;
    handle = NULL;
done:
    if (handle) dlclose(handle);
    close(fd);
    return result;
}

void tsr_code_object_unload(tsr_code_object *object) {
    if (object) dlclose(object);
}
