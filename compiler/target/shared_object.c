/* SPDX-License-Identifier: Apache-2.0
 *
 * Object files become a shared object, by LLD. Runs in the child process.
 */
#include "compiler/target/link.h"
#include "compiler/target/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static tsr_result write_object(tsr_ctx *ctx, LLVMMemoryBufferRef object, int fd) {
    const char *bytes = LLVMGetBufferStart(object);
    size_t size = LLVMGetBufferSize(object);
    while (size) {
        ssize_t wrote = write(fd, bytes, size);
        if (wrote <= 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot write the object");
        bytes += wrote;
        size -= (size_t)wrote;
    }
    return TSR_SUCCESS;
}

static tsr_result read_back(tsr_ctx *ctx, int fd, tsr_buffer *out) {
    struct stat stat;
    if (fstat(fd, &stat)) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot read the linked object");
    void *bytes = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (!stat.st_size || bytes == MAP_FAILED) FAIL(ctx, TSR_INTERNAL, "LLD wrote nothing");
    tsr_buffer_append(out, bytes, (size_t)stat.st_size);
    return TSR_SUCCESS;
}

enum { OBJECTS_MAX = 2, FLAGS_MAX = 8, ARGS = 7 };

tsr_result tsr_link_shared(tsr_ctx *ctx, const LLVMMemoryBufferRef *objects, size_t object_count,
                           const char *const *flags, tsr_buffer *out) {
    char paths[OBJECTS_MAX][64], messages[600];
    int to = memfd_create("linked", 0);
    size_t count = ARGS;
    TSR_ASSERT(object_count <= OBJECTS_MAX);
    if (to < 0 || dup2(to, STDOUT_FILENO) < 0 || chdir("/proc/self"))
        FAIL_ERRNO(ctx, TSR_IO, errno, "no memory files to link with");
    const char *args[ARGS + FLAGS_MAX + OBJECTS_MAX] = {
        "ld.lld", "-shared", "--threads=1", "--no-undefined", "--build-id=none", "-o", "-"};
    for (; *flags; flags++) {
        TSR_ASSERT(count < ARGS + FLAGS_MAX);
        args[count++] = *flags;
    }
    for (size_t i = 0; i < object_count; i++) {
        int from = memfd_create("object", 0);
        if (from < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "no memory file to link with");
        TRY(ctx, write_object(ctx, objects[i], from));
        snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d", from);
        args[count++] = paths[i];
    }
    if (!tsr_link_elf(count, args, sizeof messages, messages))
        FAIL(ctx, TSR_INTERNAL, "LLD: %s", messages);
    return read_back(ctx, to, out);
}
