/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bundle/ram_io.h"

#include <errno.h>
#include <string.h>

enum { FD_ROOT = 1000, FD_BLOBS = 1001, FD_FILE = 2000 };
static const char folder[] = "blobs/sha256/";

static int ram_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    ram_io *ram = self;
    (void)flags;
    (void)mode;
    if (dir == TSR_IO_CWD) {
        ram->open_count++;
        return ram->is_directory ? FD_ROOT : FD_FILE;
    }
    if (dir != FD_ROOT) return -EBADF;
    bool is_folder = strcmp(path, folder) == 0;
    for (size_t i = 0; i < ram->file_count && !is_folder; i++)
        if (strcmp(ram->files[i].name, path) == 0) {
            ram->open_count++;
            return FD_FILE + (int)i;
        }
    ram->open_count += is_folder;
    return is_folder ? FD_BLOBS : -ENOENT;
}
static int ram_close(void *self, int fd) {
    (void)fd;
    ((ram_io *)self)->close_count++;
    return 0;
}
static ssize_t ram_pread(void *self, int fd, void *bytes, size_t size_bytes, off_t offset) {
    ram_io *ram = self;
    if (ram->read_count++ == ram->fail_at) return -EIO;
    if (fd < FD_FILE || offset < 0) return -EBADF;
    const ram_file *file = &ram->files[fd - FD_FILE];
    if ((size_t)offset >= file->size_bytes) return 0;
    size_t left = file->size_bytes - (size_t)offset;
    size_t size = size_bytes < left ? size_bytes : left;
    if (ram->part_max && size > ram->part_max) size = ram->part_max;
    memcpy(bytes, (const char *)file->bytes + offset, size);
    return (ssize_t)size;
}
static int ram_fstat(void *self, int fd, struct stat *out_stat) {
    const ram_io *ram = self;
    memset(out_stat, 0, sizeof *out_stat);
    out_stat->st_mode = fd < FD_FILE ? S_IFDIR | 0755 : S_IFREG | 0644;
    if (fd >= FD_FILE) out_stat->st_size = (off_t)ram->files[fd - FD_FILE].size_bytes;
    return 0;
}
static int ram_list(void *self, int fd, tsr_io_entry_fn entry, void *user) {
    const ram_io *ram = self;
    int result = fd == FD_BLOBS ? 0 : -ENOTDIR;
    for (size_t i = 0; i < ram->file_count && !result; i++)
        if (strncmp(ram->files[i].name, folder, sizeof folder - 1) == 0)
            result = entry(user, ram->files[i].name + sizeof folder - 1);
    return result;
}
static ssize_t ram_pwrite(void *self, int fd, const void *bytes, size_t size_bytes, off_t offset) {
    (void)self, (void)fd, (void)bytes, (void)size_bytes, (void)offset;
    return -EROFS;
}

void ram_io_init(ram_io *ram, bool is_directory, const ram_file *files, size_t file_count) {
    *ram = (ram_io){.io = *tsr_io_system(),
                    .is_directory = is_directory,
                    .files = files,
                    .file_count = file_count,
                    .fail_at = -1};
    ram->io.self = ram;
    ram->io.open = ram_open;
    ram->io.close = ram_close;
    ram->io.pread = ram_pread;
    ram->io.pwrite = ram_pwrite;
    ram->io.fstat = ram_fstat;
    ram->io.list = ram_list;
}
