/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/hash/file.h"

#include "runtime/base/io/io.h"

#include <fcntl.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 1 << 20 };

tsr_result tsr_file_digest(tsr_ctx *ctx, const char *path, tsr_digest *out_digest) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = -1;
    uint64_t size = 0;
    tsr_hasher hasher;
    TRY(ctx, tsr_io_open(ctx, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, &fd));
    tsr_result result = TSR_SUCCESS;
    void *block = malloc(BLOCK_BYTES);
    if (!block) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to read '%s'", path);
    TRY_GOTO(ctx, result, tsr_io_file_size(ctx, fd, path, &size));
    tsr_hasher_init(&hasher);
    for (uint64_t at = 0; at < size;) {
        size_t part = size - at < BLOCK_BYTES ? (size_t)(size - at) : BLOCK_BYTES;
        TRY_GOTO(ctx, result, tsr_io_read_exact(ctx, fd, path, block, part, at));
        tsr_hasher_update(&hasher, block, part);
        at += part;
    }
    *out_digest = tsr_hasher_finish(&hasher);
done:
    free(block);
    io->close(io->self, fd);
    return result;
}
