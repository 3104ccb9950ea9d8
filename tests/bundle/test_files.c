/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths that are not bundles, specs that are refused, and failing writes.
 */
#include "bundle/bundle.h"
#include "runtime/base/array.h"
#include "tests/bundle/sample.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_open(const char *path, tsr_code code, const char *text) {
    tsr_ctx ctx = {0};
    tsr_bundle *bundle = NULL;
    tsr_result result = tsr_bundle_open(&ctx, path, NULL, &bundle);
    cr_assert_eq(result.code, code, "%s: got %d: %s", path, result.code, ctx.error.text);
    cr_assert(strstr(ctx.error.text, text) && strstr(ctx.error.text, path), "%s", ctx.error.text);
    cr_assert_null(bundle);
}

Test(files, not_a_bundle) {
    char *path = sample_path("empty.tsb");
    expect_open(sample_path("missing.tsb"), TSR_IO, "No such file");
    sample_store(path, "", 0);
    expect_open(path, TSR_CORRUPT, "got 0: empty");
    mkdir(sample_path("folder"), 0700);
    expect_open(sample_path("folder"), TSR_IO, "'oci-layout' of the unpacked bundle");
    expect_open("/dev/null", TSR_IO, "expected a file or a directory");
    char text[2048];
    memset(text, 'x', sizeof text);
    sample_store(sample_path("text.tsb"), text, sizeof text);
    expect_open(sample_path("text.tsb"), TSR_CORRUPT, "expected 'ustar', got 'xxxxxxxx'");
    mkfifo(sample_path("fifo"), 0600);
    expect_open(sample_path("fifo"), TSR_IO, "expected a file or a directory");
}

Test(files, unreadable) {
    tsr_ctx ctx = {0};
    char *path = sample_path("unreadable.tsb");
    sample_must(&ctx, sample_write(&ctx, path, SAMPLE_TINY, false));
    bool root = geteuid() == 0; /* mode bits do not restrict root */
    cr_assert_eq(chmod(path, 0) | chmod(sample_path("."), 0755), 0);
    if (root) cr_assert_eq(seteuid(65534), 0);
    expect_open(path, TSR_IO, "Permission denied");
    if (root) cr_assert_eq(seteuid(0), 0);
}

/* ---- specs ---- */

static tsr_result write_spec(tsr_ctx *ctx, tsr_bundle_blob blob, const char *first,
                             const char *second) {
    tsr_bundle_target targets[] = {{first, &blob, 1}, {second, &blob, 1}};
    tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                            .config = "{}",
                            .config_size_bytes = 2,
                            .targets = targets,
                            .target_count = second ? 2 : 1};
    return tsr_bundle_write(ctx, sample_path("spec.tsb"), &spec);
}

Test(files, specs_that_are_refused) {
    static const char byte[] = "b";
    static const struct {
        tsr_bundle_blob blob;
        const char *first, *second;
        tsr_code code;
    } specs[] = {
        {{TSR_MEDIA_ELF, NULL, byte, 1, NULL}, "cpu:x86-64-v3", NULL, TSR_OK},
        {{TSR_MEDIA_ELF, "a.so", byte, 1, NULL}, "cpu:x86-64-v3", "cpu:x86-64", TSR_OK},
        {{TSR_MEDIA_ELF, NULL, byte, 1, NULL}, "cpu:x86-64-v3", "cpu:x86-64-v3", TSR_USAGE},
        {{TSR_MEDIA_ELF, NULL, byte, 1, NULL}, "", NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, NULL, byte, 1, NULL}, NULL, NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, NULL, byte, 1, NULL}, "cpu", NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, NULL, byte, 1, NULL}, "cpu:", NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, NULL, byte, 1, NULL}, "cpu:a\"b", NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, "../a.so", byte, 1, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, "", byte, 1, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, NULL, byte, 0, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, NULL, NULL, 1, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
        {{TSR_MEDIA_ELF, NULL, byte, UINT64_C(5) << 30, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
        {{TSR_MEDIA_IR, NULL, byte, UINT64_C(257) << 20, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
        {{TSR_MEDIA_CHUNKS, NULL, byte, 1, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
        {{NULL, NULL, byte, 1, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
        {{"a b", NULL, byte, 1, NULL}, "cpu:x86-64-v3", NULL, TSR_USAGE},
    };
    for (size_t i = 0; i < TSR_COUNT(specs); i++) {
        tsr_ctx ctx = {0};
        unlink(sample_path("spec.tsb"));
        tsr_result result = write_spec(&ctx, specs[i].blob, specs[i].first, specs[i].second);
        cr_assert_eq(result.code, specs[i].code, "spec %zu: %s", i, ctx.error.text);
        cr_assert_eq(access(sample_path("spec.tsb"), F_OK) == 0, result.code == TSR_OK);
    }
}

Test(files, empty_specs) {
    tsr_ctx ctx = {0};
    tsr_bundle_target target = {"cpu:x86-64-v3", NULL, 0};
    tsr_bundle_spec spec = {.size_bytes = sizeof spec, .config = "{}", .config_size_bytes = 2};
    cr_assert_eq(tsr_bundle_write(&ctx, sample_path("e.tsb"), &spec).code, TSR_USAGE);
    spec.targets = &target;
    spec.target_count = 1;
    cr_assert_eq(tsr_bundle_write(&ctx, sample_path("e.tsb"), &spec).code, TSR_USAGE);
    spec.config_size_bytes = 0;
    cr_assert_eq(tsr_bundle_write(&ctx, sample_path("e.tsb"), &spec).code, TSR_USAGE);
}

/* ---- failing writes ---- */

static tsr_io faulty;
static long operations, fail_at;

static bool fails(void) { return operations++ == fail_at; }
static ssize_t faulty_pwrite(void *self, int fd, const void *bytes, size_t size, off_t offset) {
    return fails() ? -ENOSPC : tsr_io_system()->pwrite(self, fd, bytes, size, offset);
}
static int faulty_fsync(void *self, int fd) {
    return fails() ? -EIO : tsr_io_system()->fsync(self, fd);
}
static int faulty_rename(void *self, int dir, const char *from, const char *to) {
    return fails() ? -EACCES : tsr_io_system()->rename(self, dir, from, to);
}

static size_t count_files(const char *folder) {
    DIR *dir = opendir(folder);
    size_t count = 0;
    for (const struct dirent *item; (item = readdir(dir));) count += item->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* The n-th operation fails, for all n: the old file is unchanged, and no temporary file is left. */
Test(files, every_write_fails) {
    tsr_ctx ctx = {.io = &faulty};
    char *folder = sample_path("out"), path[300];
    size_t size;
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/x.tsb", folder);
    faulty = *tsr_io_system();
    faulty.pwrite = faulty_pwrite;
    faulty.fsync = faulty_fsync;
    faulty.rename = faulty_rename;
    fail_at = -1;
    sample_must(&ctx, sample_write(&ctx, path, SAMPLE_TINY, false));
    long count = operations;
    cr_assert_gt(count, 20);
    sample_store(path, "old", 3);
    /* The last operation syncs the directory, when the new file is already visible. */
    for (long at = 0; at < count - 1; at++) {
        operations = 0;
        fail_at = at;
        tsr_result result = sample_write(&ctx, path, SAMPLE_TINY, false);
        cr_assert_eq(result.code, TSR_IO, "operation %ld", at);
        cr_assert(strstr(ctx.error.text, path), "%s", ctx.error.text);
        char *bytes = sample_load(path, &size);
        cr_assert_eq(size, 3);
        free(bytes);
        cr_assert_eq(count_files(folder), 1);
    }
}

Test(files, output_that_cannot_be) {
    tsr_ctx ctx = {0};
    cr_assert_eq(sample_write(&ctx, sample_path("no/such/x.tsb"), SAMPLE_TINY, false).code, TSR_IO);
    cr_assert_eq(sample_write(&ctx, "/dev/null", SAMPLE_TINY, false).code, TSR_IO);
    cr_assert_eq(sample_write(&ctx, sample_path("."), SAMPLE_TINY, false).code, TSR_IO);
}
