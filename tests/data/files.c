/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/data/files.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void files_init(files *self) {
    *self = (files){0};
    strcpy(self->directory, "/tmp/tessera-data-XXXXXX");
    cr_assert_not_null(mkdtemp(self->directory));
}

static int for_each(files *self, void (*act)(const char *path)) {
    int count = 0;
    DIR *dir = opendir(self->directory);
    cr_assert_not_null(dir);
    for (const struct dirent *item; (item = readdir(dir));) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        if (act) act(files_path(self, item->d_name));
        count++;
    }
    closedir(dir);
    return count;
}

static void remove_one(const char *path) { remove(path); }

void files_finish(files *self) {
    for_each(self, remove_one);
    rmdir(self->directory);
}

int files_count(files *self) { return for_each(self, NULL); }

const char *files_path(files *self, const char *name) {
    int length = snprintf(self->path, sizeof self->path, "%s/%s", self->directory, name);
    cr_assert(length > 0 && (size_t)length < sizeof self->path);
    return self->path;
}

void files_write(files *self, const char *name, const void *bytes, size_t size_bytes) {
    FILE *file = fopen(files_path(self, name), "r+b");
    if (!file) file = fopen(files_path(self, name), "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size_bytes, file), size_bytes);
    cr_assert_eq(fflush(file), 0);
    cr_assert_eq(ftruncate(fileno(file), (off_t)size_bytes), 0);
    cr_assert_eq(fclose(file), 0);
}

void files_read(files *self, const char *name, unsigned char **out_bytes, size_t *out_size) {
    FILE *file = fopen(files_path(self, name), "rb");
    cr_assert_not_null(file);
    fseek(file, 0, SEEK_END);
    *out_size = (size_t)ftell(file);
    rewind(file);
    *out_bytes = malloc(*out_size + 1);
    cr_assert_eq(fread(*out_bytes, 1, *out_size, file), *out_size);
    fclose(file);
}

static bool fails(faulty_io *self) { return ++self->count == self->fail_at; }

static int faulty_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    if (fails(self)) return -EIO;
    return tsr_io_system()->open(NULL, dir, path, flags, mode);
}
static ssize_t faulty_pread(void *self, int fd, void *bytes, size_t size_bytes, off_t offset) {
    faulty_io *io = self;
    if (fails(io)) return -EIO;
    if (io->read_max && size_bytes > io->read_max) size_bytes = io->read_max;
    return tsr_io_system()->pread(NULL, fd, bytes, size_bytes, offset);
}
static ssize_t faulty_pwrite(void *self, int fd, const void *bytes, size_t size_bytes,
                             off_t offset) {
    if (fails(self)) return -EIO;
    return tsr_io_system()->pwrite(NULL, fd, bytes, size_bytes, offset);
}
static int faulty_fsync(void *self, int fd) {
    if (fails(self)) return -EIO;
    return tsr_io_system()->fsync(NULL, fd);
}
static int faulty_fstat(void *self, int fd, struct stat *out_stat) {
    if (fails(self)) return -EIO;
    return tsr_io_system()->fstat(NULL, fd, out_stat);
}
static int faulty_rename(void *self, int dir, const char *from, const char *to) {
    if (fails(self)) return -EIO;
    return tsr_io_system()->rename(NULL, dir, from, to);
}

void faulty_init(faulty_io *self) {
    *self = (faulty_io){.table = *tsr_io_system()};
    self->table.self = self;
    self->table.open = faulty_open;
    self->table.pread = faulty_pread;
    self->table.pwrite = faulty_pwrite;
    self->table.fsync = faulty_fsync;
    self->table.fstat = faulty_fstat;
    self->table.rename = faulty_rename;
}

void expect_error(const tsr_ctx *ctx, tsr_result result, tsr_code code, const char *part) {
    cr_assert_eq(result.code, code, "expected %s about \"%s\", got %s: %s", tsr_code_name(code),
                 part, tsr_code_name(result.code), result.code ? ctx->error.text : "");
    cr_assert_not_null(strstr(ctx->error.text, part), "expected \"%s\" in \"%s\"", part,
                       ctx->error.text);
    cr_assert_null(strchr(ctx->error.text, '\n'), "more than one line: %s", ctx->error.text);
}

void expect_success(const tsr_ctx *ctx, tsr_result result) {
    cr_assert_eq(result.code, TSR_OK, "%s: %s", tsr_code_name(result.code), ctx->error.text);
}
