/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/state.h"

#include "runtime/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

tsr_result tsr_state_log_open(tsr_ctx *ctx, const char *path, tsr_state_log *out_log) {
    *out_log = (tsr_state_log){.fd = -1, .path = path};
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot append to '%s'", path);
    out_log->fd = fd;
    return TSR_SUCCESS;
}

void tsr_state_log_line(void *user, const char *line) {
    tsr_state_log *log = user;
    char end = '\n';
    size_t length = strlen(line);
    const struct iovec parts[] = {{(void *)(uintptr_t)line, length}, {&end, 1}};
    ssize_t written = writev(log->fd, parts, 2);
    if (written != (ssize_t)length + 1 && !log->error) log->error = written < 0 ? errno : ENOSPC;
}

tsr_result tsr_state_log_close(tsr_ctx *ctx, tsr_state_log *log) {
    if (log->fd < 0) return TSR_SUCCESS;
    if (close(log->fd) && !log->error) log->error = errno;
    log->fd = -1;
    if (log->error) FAIL_ERRNO(ctx, TSR_IO, log->error, "cannot write '%s'", log->path);
    return TSR_SUCCESS;
}

tsr_result tsr_state_export(tsr_ctx *ctx, const char *directory, bool has_generation,
                            uint64_t generation, const char *path) {
    tsr_recovery recovery;
    char hash[TSR_DIGEST_HEX + 1];
    TRY(ctx, tsr_store_export(ctx, directory, has_generation ? TSR_RESUME_EXACT : TSR_RESUME_AUTO,
                              generation, path, &recovery));
    tsr_digest_format(&recovery.generation.state_hash, hash);
    printf("exported generation %" PRIu64 " step %" PRIu64 " state %s\n",
           recovery.generation.number, recovery.generation.position.step, hash);
    return TSR_SUCCESS;
}
