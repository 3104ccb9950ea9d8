/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/state/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

static int add_name(void *user, const char *text) {
    tsr_listing *listing = user;
    tsr_name name = tsr_name_parse(text);
    if (name.kind == TSR_NAME_OTHER) return 0;
    if (listing->count == listing->capacity && listing->arena) {
        size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        tsr_name *names = TSR_NEW(listing->arena, tsr_name, capacity);
        if (!names) return -ENOMEM;
        if (listing->count) memcpy(names, listing->names, listing->count * sizeof *names);
        listing->names = names;
        listing->capacity = capacity;
    }
    if (listing->count < listing->capacity)
        listing->names[listing->count++] = name;
    else
        listing->overflow = true;
    return 0;
}

tsr_result tsr_disk_list(tsr_ctx *ctx, int fd, tsr_listing *listing) {
    const tsr_io *io = tsr_ctx_io(ctx);
    listing->count = 0;
    listing->overflow = false;
    int code = io->list(io->self, fd, add_name, listing);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot list the directory");
    return TSR_SUCCESS;
}

bool tsr_listing_has(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                     uint64_t generation) {
    for (size_t i = 0; i < listing->count; i++) {
        const tsr_name *name = &listing->names[i];
        if (name->kind == kind && name->epoch == epoch && name->generation == generation)
            return true;
    }
    return false;
}

uint64_t tsr_listing_highest_epoch(const tsr_listing *listing) {
    uint64_t epoch = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const tsr_name *name = &listing->names[i];
        bool counts = name->kind == TSR_NAME_EPOCH || name->kind == TSR_NAME_BASE ||
                      name->kind == TSR_NAME_MANIFEST;
        if (counts && name->epoch > epoch) epoch = name->epoch;
    }
    return epoch;
}

/* ---- reading ---- */

static bool is_damage(int err) {
    return err == EIO || err == ENOENT || err == ENOTDIR || err == EISDIR || err == ELOOP ||
           err == EUCLEAN || err == EBADMSG || err == ENODATA;
}

tsr_result tsr_disk_open(tsr_ctx *ctx, int dir, const char *name, int flags, int *out_fd) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = -EIO;
    for (int i = 0; fd == -EIO && i < 2; i++)
        fd = io->open(io->self, dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | flags, 0);
    if (fd < 0) FAIL_ERRNO(ctx, is_damage(-fd) ? TSR_STATE : TSR_IO, -fd, "cannot open '%s'", name);
    *out_fd = fd;
    return TSR_SUCCESS;
}

tsr_result tsr_disk_read(tsr_ctx *ctx, int fd, const char *name, void *bytes, size_t size_bytes,
                         uint64_t offset) {
    const tsr_io *io = tsr_ctx_io(ctx);
    unsigned interruptions = 0;
    bool again = false;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = io->pread(io->self, fd, (char *)bytes + done, size_bytes - done,
                                 (off_t)(offset + done));
        if (part == -EINTR && interruptions++ < TSR_IO_INTERRUPTIONS_MAX) continue;
        if (part == -EIO && !again) {
            again = true;
            continue;
        }
        if (part < 0)
            FAIL_ERRNO(ctx, is_damage((int)-part) ? TSR_STATE : TSR_IO, (int)-part,
                       "cannot read '%s' at offset %" PRIu64, name, offset + done);
        if (part == 0)
            FAIL(ctx, TSR_STATE, "'%s' ends at byte %" PRIu64 "; expected %" PRIu64, name,
                 offset + done, offset + size_bytes);
        done += (size_t)part;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_disk_file_size(tsr_ctx *ctx, int fd, const char *name, uint64_t *out_size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat info;
    int code = io->fstat(io->self, fd, &info);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot stat '%s'", name);
    if (!S_ISREG(info.st_mode)) FAIL(ctx, TSR_STATE, "'%s' is not a regular file", name);
    *out_size_bytes = (uint64_t)info.st_size;
    return TSR_SUCCESS;
}

tsr_result tsr_disk_read_file(tsr_ctx *ctx, int dir, const char *name, size_t size_max,
                              tsr_arena *arena, uint8_t **out_bytes, size_t *out_size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_result result = TSR_SUCCESS;
    uint64_t size = 0;
    uint8_t *bytes = NULL;
    int fd = -1;
    TRY(ctx, tsr_disk_open(ctx, dir, name, 0, &fd));
    TRY_GOTO(ctx, result, tsr_disk_file_size(ctx, fd, name, &size));
    if (size > size_max)
        FAIL_GOTO(ctx, result, TSR_STATE, "'%s' has %" PRIu64 " bytes; at most %zu are expected",
                  name, size, size_max);
    bytes = tsr_arena_alloc(arena, (size_t)size + 1, 1, 16);
    if (!bytes) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for '%s'", name);
    TRY_GOTO(ctx, result, tsr_disk_read(ctx, fd, name, bytes, (size_t)size, 0));
    *out_bytes = bytes;
    *out_size_bytes = (size_t)size;
done:
    io->close(io->self, fd);
    return result;
}
